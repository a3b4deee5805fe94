"""Variations of a question: clusters that are larger or roomier, and other questions from the smallest change on."""

from dataclasses import replace
from itertools import pairwise

import pytest

import sightline as sl
from sightline.loading.clusters.cluster import read_cluster
from sightline.planning.clusters import is_usual, resizer
from sightline.planning.rationale.relaxed import MOST_DOUBLINGS, SHORTEST, larger_clusters, others, roomier_clusters

QUESTION = {
    "model": "llama-3-8b",
    "cluster": "1x rtx-4090",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
    "plan": {"framework": "transformers", "micro_batch": 2},
}
CLUSTER = read_cluster("8x a100-sxm-80gb")
OWN_HOST = replace(CLUSTER, host=replace(CLUSTER.host, memory_bytes=2 * CLUSTER.host.memory_bytes))


def test_a_usual_cluster_is_one_of_which_nothing_else_was_stated():
    assert is_usual(CLUSTER)
    assert not is_usual(OWN_HOST)


@pytest.mark.parametrize(("cluster", "key"), [(CLUSTER, "cluster"), (OWN_HOST, "cluster.devices")])
def test_clusters_are_doubled_under_the_key_that_states_them(cluster, key):
    found = list(larger_clusters(cluster))
    assert [one.devices for _, one in found] == [8 * 2**n for n in range(1, MOST_DOUBLINGS + 1)]
    assert [stated for stated, _ in found] == [{key: f"{one.devices}x a100-sxm-80gb"} for _, one in found]
    assert all(one.host.memory_bytes == cluster.host.memory_bytes for _, one in found)


def test_a_cluster_is_resized_with_its_own_parts():
    assert resizer(OWN_HOST)(4).host is OWN_HOST.host
    assert resizer(OWN_HOST)(4).per_node == 4
    assert resizer(CLUSTER)(16).in_words == read_cluster("16x a100-sxm-80gb").in_words


def test_roomier_devices_have_ever_more_memory_and_are_no_slower():
    own = read_cluster("1x rtx-4090").device
    found = [cluster.device for _, cluster in roomier_clusters(read_cluster("1x rtx-4090"))]
    assert found
    for one, other in pairwise([own, *found]):
        assert other.memory_bytes > one.memory_bytes
        assert other.memory_bandwidth >= own.memory_bandwidth


def test_each_kind_of_variation_changes_what_it_states():
    scenario = sl.load(QUESTION)
    kinds = [list(kind) for kind in others(scenario)]
    assert [next(iter(kind[0].set)) for kind in kinds if kind][:2] == ["workload.task", "workload.task"]
    shorter = next(kind for kind in kinds if "workload.sequence_length" in kind[0].set)
    lengths = [one.scenario.workload.sequence_length for one in shorter]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == SHORTEST
    for kind in kinds:
        for one in kind:
            frameworks = one.scenario.plan.framework.name, scenario.plan.framework.name
            assert ("plan.framework" in one.set) == (frameworks[0] != frameworks[1])
