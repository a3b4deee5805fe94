"""What the network's shape costs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.collectives.collective import ECMP_SLOWDOWN, collective_time, handed_over, slowdown
from sightline.cost.collectives.libraries import data_group, load_collectives, pipeline_boundary
from sightline.loading.clusters import read_cluster
from sightline.scenario import Network
from sightline.scenario.cluster import COLLECTIVES

TREE = Network(name="tree", bandwidth_per_node=200e9, latency_s=5e-6)
THIN = replace(TREE, oversubscription=4.0, nodes_per_switch=8)


@given(st.sampled_from(COLLECTIVES), st.integers(1, 4096))
def test_a_full_fat_tree_costs_nothing(kind, nodes):
    assert slowdown(kind, nodes, TREE) == 1.0
    assert handed_over(kind, 8.0 * nodes, 8, TREE) == 0.0


def test_only_what_leaves_the_switch_meets_thin_uplinks():
    assert slowdown("all_to_all", 8, THIN) == 1.0
    assert slowdown("all_to_all", 64, THIN) == pytest.approx(4 * 56 / 63)
    assert slowdown("all_reduce", 64, THIN) == 1.0
    assert slowdown("all_reduce", 64, replace(THIN, oversubscription=16.0)) == 2.0


def test_stages_far_apart_leave_the_switch():
    assert slowdown("send_recv", 2, THIN) == 1.0
    assert slowdown("send_recv", 2, THIN, stride=2.0) == 1.0
    assert slowdown("send_recv", 2, THIN, stride=4.0) == 2.0
    assert slowdown("send_recv", 2, THIN, stride=64.0) == 4.0
    assert slowdown("send_recv", 2, TREE, stride=64.0) == 1.0
    cluster = read_cluster({"devices": "512x a100-sxm-80gb", "per_node": 8})
    near, far = (pipeline_boundary(8, replicas, cluster) for replicas in (1, 8))
    assert (near.stride, far.stride) == (1.0, 8.0)
    thin = replace(cluster, network=replace(cluster.network, oversubscription=4.0, nodes_per_switch=8))
    library = load_collectives("a100-sxm")
    took = [
        collective_time("send_recv", 1e9, group=group, cluster=on, constants=library)
        for group in (near, far)
        for on in (cluster, thin)
    ]
    assert took[0] == took[1] == took[2]
    assert took[3] == pytest.approx(4 * took[0], rel=0.01)


@given(st.sampled_from(COLLECTIVES), st.integers(1, 4096))
def test_hashed_uplinks_stretch_what_leaves_a_switch(kind, nodes):
    hashed = replace(TREE, routing="ecmp")
    assert 1.0 <= slowdown(kind, nodes, hashed, stride=nodes / 2) <= ECMP_SLOWDOWN
    assert slowdown(kind, min(nodes, TREE.nodes_per_switch), hashed) == 1.0
    beyond = slowdown(kind, 4096, hashed, stride=2048.0)
    assert beyond == pytest.approx(ECMP_SLOWDOWN, rel=0.01)
    assert slowdown(kind, 4096, replace(hashed, oversubscription=100.0), stride=2048.0) > 5.0


@given(st.integers(2, 2000), st.sampled_from(["fat-tree", "dragonfly", "torus"]))
def test_more_nodes_are_never_stretched_less(nodes, topology):
    network = replace(THIN, topology=topology)
    assert slowdown("all_to_all", nodes + 1, network) >= slowdown("all_to_all", nodes, network)


def test_a_torus_of_nodes_is_bound_by_its_middle():
    assert slowdown("all_to_all", 512, replace(TREE, topology="torus")) == pytest.approx(6 * 8 / 8)


def test_rails_hand_over_inside_the_node_first():
    rails = replace(TREE, topology="rail-optimized")
    assert handed_over("all_to_all", 64.0, 8, rails) == pytest.approx(56 / 64 * 7 / 8)
    assert handed_over("all_reduce", 64.0, 8, rails) == 0.0


@pytest.mark.parametrize("device", ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x", "trainium2"])
def test_collectives_of_a_pod_take_the_torus(device):
    cluster = read_cluster({"devices": f"64x {device}"})
    assert cluster.intra_node.topology == "torus"
    library = load_collectives("generic")
    for kind in ("all_reduce", "all_gather", "all_to_all"):
        group = data_group(1, min(64, cluster.per_node), cluster)
        seconds = float(collective_time(kind, 2.0**30, group=group, cluster=cluster, constants=library))
        assert seconds > 2.0**30 * 0.9 / cluster.intra_node.bandwidth


def seconds(devices: str, kind: str, bytes_: float, **network: object) -> float:
    cluster = read_cluster({"devices": devices})
    cluster = replace(cluster, network=replace(cluster.network, **network))
    group = data_group(1, cluster.devices, cluster)
    return float(collective_time(kind, bytes_, group=group, cluster=cluster, constants=load_collectives("generic")))


def test_small_messages_go_along_the_dimensions_of_a_torus_and_not_through_every_device():
    cube, twice_as_long = (seconds(f"{count}x tpu-v5p", "all_reduce", 8.0) for count in (8, 64))
    assert cube < twice_as_long < 2 * cube


def test_an_all_to_all_hands_over_to_the_rail_inside_the_node():
    # So fast a network that the links inside the node set the pace.
    fast = {"bandwidth_per_node": 1e15}
    tree, rails = (
        seconds("64x h100-sxm-80gb", "all_to_all", 2.0**40, topology=topology, **fast)
        for topology in ("fat-tree", "rail-optimized")
    )
    # Seven of 64 parts stay in the node; what changes device there on its way to the others comes on top, with a copy.
    moved, more = 7 / 64, 56 / 64 * 7 / 8
    assert 0.8 * (moved + more) / moved < rails / tree <= (moved + more) / moved
