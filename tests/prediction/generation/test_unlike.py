"""Generation on unlike devices: equal to equal devices where the groups are, and between them elsewhere."""

from dataclasses import replace
from typing import Any

import pytest
from generation_scenarios import generation

from sightline.errors import InputError
from sightline.loading import load, to_mapping
from sightline.prediction import predict
from sightline.scenario import GenerationScenario

A100, H100 = "8x a100-sxm-80gb", "8x h100-sxm-80gb"
POOLS: dict[str, Any] = {"prefill": {"tensor_parallel": 8, "batch": 2}, "decode": {"tensor_parallel": 8}}


def served(*devices: str, plan: dict[str, Any] | None = None, **work: Any) -> GenerationScenario:
    cluster: Any = {"devices": list(devices)}
    asked = {"batch": 32, "prompt_tokens": 1000, "output_tokens": 100} | work
    return generation(model="llama-3-8b", cluster=cluster, plan={"framework": "vllm", **(plan or {})}, **asked)


def in_groups(scenario: GenerationScenario) -> GenerationScenario:
    """A scenario of two nodes whose cluster is described as two groups of the same devices."""
    node = replace(scenario.cluster, devices=8)
    return replace(scenario, cluster=replace(scenario.cluster, groups=(node, node)))


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("plan", [{"tensor_parallel": 8}, {"tensor_parallel": 2}, {"disaggregate": POOLS}])
def test_equal_groups_are_the_uniform_prediction(plan, continuous):
    scenario = served("16x h100-sxm-80gb", plan=plan, continuous=continuous)
    plain, groups = predict(scenario), predict(in_groups(scenario))
    for key in ("ttft_s", "tpot_s", "latency_s", "output_tokens_per_s", "energy_j"):
        assert getattr(groups, key) == pytest.approx(getattr(plain, key), rel=1e-9)
    assert groups.memory_bytes["total"] == pytest.approx(plain.memory_bytes["total"])
    assert sum(groups.phases.values()) == pytest.approx(groups.latency_s)


@pytest.mark.parametrize("plan", [{"tensor_parallel": 8}, {"tensor_parallel": 2}, {"disaggregate": POOLS}])
def test_unlike_devices_lie_between_their_kinds(plan):
    slow, fast = (predict(served(f"16x {name}", plan=plan)) for name in ("a100-sxm-80gb", "h100-sxm-80gb"))
    both = predict(served(A100, H100, plan=plan))
    assert slow.output_tokens_per_s < both.output_tokens_per_s < fast.output_tokens_per_s
    assert sum(row.exposed_s for row in both.rows) == pytest.approx(both.latency_s)
    low, high = both.interval["latency_s"]
    assert low <= both.latency_s <= high
    assert both.evidence["framework"] == "extrapolated"


def test_the_faster_replicas_take_more_sequences():
    profile = predict(served(A100, H100, plan={"tensor_parallel": 8}))
    slow, fast = profile.scenario.plan.group_batches
    assert slow + fast == 32
    assert fast > slow
    assert any(f"8 x a100-sxm-80gb: {slow} of 32 sequences" in said for said in profile.warnings)
    even = predict(served(A100, H100, plan={"tensor_parallel": 8, "group_batches": [16, 16]}))
    assert even.latency_s > profile.latency_s


def test_the_better_side_prefills_unless_the_plan_says_which():
    chosen = predict(served(A100, H100, plan={"disaggregate": POOLS}))
    named = {}
    for device in ("a100-sxm-80gb", "h100-sxm-80gb"):
        pools = {**POOLS, "prefill": {**POOLS["prefill"], "device": device}}
        named[device] = predict(served(A100, H100, plan={"disaggregate": pools}))
        assert named[device].scenario.plan.disaggregate.prefill_device == device
    assert chosen.output_tokens_per_s == max(profile.output_tokens_per_s for profile in named.values())
    assert any("would take" in said for said in chosen.warnings)
    decode = {**POOLS, "decode": {"tensor_parallel": 8, "device": "a100-sxm-80gb"}}
    other = predict(served(A100, H100, plan={"disaggregate": decode}))
    assert other.ttft_s == named["h100-sxm-80gb"].ttft_s


def test_a_slower_network_between_the_kinds_delays_the_first_token():
    fast = served(A100, H100, plan={"disaggregate": POOLS}, prompt_tokens=8000)
    cluster = fast.cluster
    thin = replace(
        cluster, network=replace(cluster.network, bandwidth_per_node=cluster.network.bandwidth_per_node / 64)
    )
    assert predict(replace(fast, cluster=thin)).ttft_s > predict(fast).ttft_s


def test_what_a_result_says_loads_as_the_same_answer():
    for plan in ({"tensor_parallel": 4}, {"disaggregate": POOLS}):
        profile = predict(served(A100, H100, plan=plan))
        again = predict(load(profile.to_dict()["scenario"]))
        assert (again.ttft_s, again.tpot_s) == (profile.ttft_s, profile.tpot_s)
        assert to_mapping(again.scenario) == to_mapping(profile.scenario)


def test_a_replica_stays_on_one_kind_where_no_degree_is_stated():
    plan = served("4x a100-sxm-80gb", H100).plan
    assert (plan.tensor_parallel, plan.replicas) == (4, 3)


@pytest.mark.parametrize(
    ("devices", "plan", "said"),
    [
        (["4x a100-sxm-80gb", "12x h100-sxm-80gb"], {"tensor_parallel": 8}, "would span heterogeneous devices"),
        ([A100, H100], {"group_batches": [32]}, "plan.group_batches is 32"),
        ([A100, H100], {"group_batches": [30, 3]}, "workload.batch"),
        (["16x h100-sxm-80gb"], {"group_batches": [16, 16]}, "plan.group_batches is 16, 16"),
        (["4x a100-sxm-80gb", "12x h100-sxm-80gb"], {"disaggregate": POOLS}, "two groups"),
        (
            [A100, H100],
            {"disaggregate": {**POOLS, "decode": {"tensor_parallel": 8, "device": "h200"}}},
            "plan.disaggregate.decode.device is 'h200-sxm-141gb'; allowed: a100-sxm-80gb, h100-sxm-80gb",
        ),
        (
            [A100, H100],
            {
                "disaggregate": {
                    "prefill": {"tensor_parallel": 8, "device": "h100-sxm-80gb"},
                    "decode": {"tensor_parallel": 8, "device": "h100-sxm-80gb"},
                }
            },
            "in both pools",
        ),
    ],
)
def test_what_is_refused(devices, plan, said):
    with pytest.raises(InputError, match=said):
        served(*devices, plan=plan)


def test_every_kind_needs_a_sequence():
    with pytest.raises(InputError, match="one sequence per device group"):
        predict(served(A100, H100, plan={"tensor_parallel": 8}, batch=1))
