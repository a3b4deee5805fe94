"""Clusters as scenarios state them again: what a search suggests reads back as the devices that it searched."""

from dataclasses import replace

import pytest

import sightline as sl
from sightline.answers.plan_sentences import can_be_set, settings
from sightline.content import fields_of
from sightline.loading.clusters.cluster import read_cluster
from sightline.planning.clusters import cluster_settings, devices_setting, is_of_catalog, is_usual, reads_back, resizer
from sightline.planning.rationale.relaxed import larger_clusters, roomier_clusters

MADE = {"technology": {"node": "3nm", "memory": "hbm4"}}
FASTER = {"same_as": "h100-sxm-80gb", "memory_bandwidth": "5 TB/s"}
OWN = {
    "made": {"devices": 8, "device": MADE},
    "made over a device": {"devices": "8x h100-sxm-80gb", "device": MADE},
    "faster": {"devices": 8, "device": FASTER},
    "faster over a device": {"devices": "8x h100-sxm-80gb", "device": {"memory_bandwidth": "5 TB/s"}},
    "in few": {"devices": 2, "device": FASTER},
    "own host": {"devices": "8x a100-sxm-80gb", "host": {"memory": "4 TB"}},
}
"""Clusters that no name stands for."""
MIXED = {"devices": [{"devices": 8, "device": MADE}, "8x h100-sxm-80gb"]}
GENERATE = {"task": "generate", "batch": 16, "prompt_tokens": 512, "output_tokens": 128}
SERVE = {
    "task": "serve",
    "requests": {"count": 20, "prompt_tokens": 512, "output_tokens": 64},
    "arrival": {"process": "poisson", "rate": 400},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}
PRETRAIN = {"task": "pretrain", "sequence_length": 4096, "global_batch": 64}


def _question(cluster, workload, model="llama-2-13b", **stated):
    plan = {"framework": "megatron" if workload is PRETRAIN else "vllm", "dtype": "bf16"} | stated
    return {"model": model, "cluster": cluster, "workload": workload, "plan": plan}


@pytest.mark.parametrize("stated", OWN.values(), ids=OWN)
def test_more_devices_are_those_that_the_setting_reads_back(stated):
    cluster = read_cluster(stated)
    assert not is_usual(cluster)
    for setting, larger in larger_clusters(cluster):
        ((key, value),) = setting.items()
        again = read_cluster({**stated, key.removeprefix("cluster."): value})
        assert (again.devices, again.per_node) == (larger.devices, larger.per_node)
        assert fields_of(again.device) == fields_of(larger.device)
        assert again.host.memory_bytes == larger.host.memory_bytes


def test_a_changed_device_is_none_of_the_catalog_and_a_price_is_no_change():
    cluster = read_cluster("8x h100-sxm-80gb")
    priced = replace(cluster, device=replace(cluster.device, usd_per_hour=1.0))
    assert is_usual(cluster)
    assert is_usual(priced)
    assert not is_of_catalog(read_cluster(OWN["faster"]).device)
    assert devices_setting(priced) == {"cluster": "8x h100-sxm-80gb"}
    assert resizer(priced)(16).device.usd_per_hour == 1.0


@pytest.mark.parametrize("stated", [OWN["made"], OWN["faster"]])
def test_roomier_devices_take_the_place_of_a_whole_cluster_of_own_devices(stated):
    found = list(roomier_clusters(read_cluster(stated | {"device": stated["device"] | {"memory": "24 GB"}})))
    assert all(setting == {"cluster": cluster.name} for setting, cluster in found)


def test_names_of_several_kinds_read_back_only_from_the_catalog():
    assert reads_back(read_cluster({"devices": ["8x a100-sxm-80gb", "8x h100-sxm-80gb"]}))
    mixed = read_cluster(MIXED)
    assert not reads_back(mixed)
    assert cluster_settings(mixed) == {"cluster.devices": ["8x 3nm-hbm4", "8x h100-sxm-80gb"]}


@pytest.mark.parametrize("stated", [OWN["made"], OWN["faster over a device"]])
@pytest.mark.parametrize("workload", [PRETRAIN, GENERATE], ids=["pretrain", "generate"])
def test_a_plan_on_own_devices_is_explained(stated, workload):
    answer = sl.plan(_question(stated, workload))
    assert answer.plans
    assert len(answer.neighbours)
    assert any(change.part == "device.memory_bandwidth" for change in answer.hardware)
    assert not any("cluster" in option for option in settings(answer, answer.plans[0]))


def test_replicas_on_own_devices_are_counted():
    question = _question(OWN["made"], SERVE, quantization="none", tensor_parallel=1, max_batched_tokens=2048)
    answer = sl.plan(question, objective="cost", prices={"3nm-hbm4": 5.0}, top=1)
    assert any(option.startswith("--set cluster.devices=") for option in settings(answer, answer.plans[0]))


def test_where_nothing_fits_more_own_devices_are_the_nearest_and_are_read_again():
    stated = OWN["in few"]
    answer = sl.plan(_question(stated, PRETRAIN, "llama-2-70b"))
    more = next(one for one in answer.nearest if set(one.set) == {"cluster.devices"})
    again = sl.plan(_question(stated | {"devices": more.set["cluster.devices"]}, PRETRAIN, "llama-2-70b"), top=1)
    assert again.plans
    assert f"--set cluster.devices={more.set['cluster.devices']}" in more.command


def test_plans_on_own_devices_among_several_kinds_have_no_command_of_names():
    answer = sl.plan(_question(MIXED, PRETRAIN, zero_stage=1, recompute="none", micro_batch=1))
    assert len(answer.neighbours)
    own = [one for one in answer.plans if "3nm-hbm4" in one.profile.scenario.cluster.in_words]
    assert own
    assert not any(can_be_set(answer, one) for one in own)


@pytest.mark.slow
def test_the_nearest_plans_on_own_devices_among_several_kinds_have_no_command_of_names():
    huge = sl.plan(_question(MIXED, PRETRAIN, "llama-3.1-405b"))
    for one in huge.nearest:
        assert ("3nm-hbm4" in one.plan.profile.scenario.cluster.in_words) == (one.command == "")
