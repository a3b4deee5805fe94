"""What better hardware gives a plan."""

from dataclasses import replace

import pytest
from training_scenarios import training

from sightline.planning.rationale.hardware import PARTS, hardware_changes, more_memory
from sightline.planning.rationale.training_rationale import nearby_plans
from sightline.prediction.training.step_profile import profile_of


def best(**changes):
    stated = {"model": "llama-3-8b", "cluster": "16x h100-sxm-80gb", "global_batch": 32}
    return profile_of(training(**stated | {"plan": {"framework": "fsdp", "zero_stage": 3, "micro_batch": 1}} | changes))


def gains(profile):
    return {one.part: one for one in hardware_changes(profile, lambda p: p.step_time_s, profile_of)}


def test_a_gain_is_that_of_the_prediction_with_the_better_part():
    profile = best()
    found = gains(profile)
    device = profile.scenario.cluster.device
    faster = replace(device, memory_bandwidth=2 * device.memory_bandwidth)
    other = profile_of(replace(profile.scenario, cluster=replace(profile.scenario.cluster, device=faster)))
    gain = 1 - other.step_time_s / profile.step_time_s
    assert found["device.memory_bandwidth"].gain == pytest.approx(gain)
    assert found["device.memory_bandwidth"].sentence == "6.7 TB/s instead of 3.35 TB/s"


def test_the_largest_gain_comes_first_and_nothing_that_gives_nothing():
    found = list(gains(best()).values())
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)
    assert {one.part for one in found} <= set(PARTS)
    assert all(one.gain > 0 for one in found)


def test_one_device_gains_nothing_from_links():
    alone = gains(best(model="gpt-125m", cluster="1x h100-sxm-80gb", plan={"micro_batch": 1}))
    assert not [part for part in alone if part.startswith(("network", "intra_node"))]


def test_a_network_twice_as_fast_is_named():
    slow = best(cluster={"devices": "16x a100-sxm-80gb", "network": "infiniband-hdr"})
    assert "aws-efa-v2" in gains(slow)["network.bandwidth_per_node"].sentence


def test_more_memory_gives_what_a_plan_gives_that_then_fits():
    plan = {
        "framework": "megatron",
        "tensor_parallel": 8,
        "pipeline_parallel": 8,
        "micro_batch": 1,
        "recompute": "full",
        "virtual_stages": 3,
    }
    profile = best(model="gpt-3-175b", cluster="64x a100-sxm-80gb", global_batch=64, plan=plan | {"zero_stage": 1})
    assert profile.fits
    around = nearby_plans(profile, profile_of)
    (found,) = more_memory(profile, lambda p: p.step_time_s, around)
    large = [one.profile for one in around if one.profile and not one.profile.fits and not one.problem]
    fitting = [p for p in large if p.memory_bytes["total"] <= 2 * profile.usable_bytes]
    assert found.gain == pytest.approx(1 - min(p.step_time_s for p in fitting) / profile.step_time_s)
    assert found.sentence.startswith("160 GiB instead of 80 GiB")


def test_more_memory_gives_nothing_where_all_that_is_faster_fits():
    assert not more_memory(best(), lambda p: p.step_time_s, [])
