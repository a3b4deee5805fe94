"""Searches of serving plans on unlike devices."""

from typing import Any

import pytest

from sightline.errors import InputError
from sightline.planning.search import plan
from sightline.prediction import predict

A100, H100 = "8x a100-sxm-80gb", "8x h100-sxm-80gb"


def asked(*devices: str, **stated: Any) -> dict[str, Any]:
    work = {"task": "generate", "batch": 32, "prompt_tokens": 2000, "output_tokens": 100, "continuous": True}
    return {
        "model": "llama-3.1-70b",
        "cluster": {"devices": list(devices)},
        "workload": work,
        "plan": {"framework": "vllm", **stated},
    }


def test_the_list_has_replicas_parts_of_the_cluster_and_both_ways_to_disaggregate():
    usual = {"pipeline_parallel": 1, "data_parallel": 1, "max_batched_tokens": 8192, "chunked_prefill": True}
    answer = plan(asked(A100, H100, quantization="none", **usual), top=1000)
    assert answer.evaluated >= answer.feasible == len(answer.plans) > 10
    rates = [one.value for one in answer.plans[1:]]
    assert rates == sorted(rates, reverse=True)
    used = {one.profile.scenario.cluster.in_words for one in answer.plans}
    assert {"8 x h100-sxm-80gb", "8 x a100-sxm-80gb + 8 x h100-sxm-80gb"} <= used
    splits = [one.profile.scenario.plan.disaggregate for one in answer.plans]
    assert {split.prefill_device for split in splits if split is not None} >= {"a100-sxm-80gb", "h100-sxm-80gb"}
    assert None in splits
    best = answer.plans[0].profile
    assert predict(best.scenario).output_tokens_per_s == best.output_tokens_per_s


def test_one_kind_alone_is_searched_as_it_would_be_by_itself():
    work = {"task": "generate", "batch": 64, "prompt_tokens": 1000, "output_tokens": 200}
    question = {"model": "qwen3-32b", "workload": work, "plan": {"framework": "vllm", "quantization": "none"}}
    uniform = plan(question | {"cluster": "8x h200-sxm-141gb"}, top=3)
    answer = plan(question | {"cluster": {"devices": ["8x h200-sxm-141gb", "8x a100-sxm-80gb"]}}, top=3)
    assert answer.plans[0].value >= uniform.plans[0].value
    assert answer.objective == uniform.objective == "throughput"
    assert any("short list" in warning and "plan.max_batched_tokens" in warning for warning in answer.warnings)
    assert (
        "the best plan runs on 8 x h200-sxm-141gb alone, of 8 x h200-sxm-141gb + 8 x a100-sxm-80gb" in answer.warnings
    )


def test_batches_are_searched_on_one_kind_alone():
    usual = {"pipeline_parallel": 1, "data_parallel": 1, "tensor_parallel": 8, "quantization": "none"}
    answer = plan(asked(A100, H100, **usual, disaggregate={"any": [False]}), objective="batch", top=1)
    (said,) = [warning for warning in answer.warnings if "short list" in warning]
    assert "workload.batch" in said
    assert "plan.tensor_parallel" not in said


def test_limits_and_fronts():
    every = plan(asked(A100, H100), top=100)
    limit = sorted(float(one.profile.tpot_s) for one in every.plans)[3]
    within = plan(asked(A100, H100), tpot=limit, top=100)
    assert 0 < within.feasible < every.feasible
    assert within.rejected["tpot_s"] > 0
    front = plan(asked(A100, H100), pareto=("latency", "throughput"))
    steps = [float(one.profile.tpot_s) for one in front.plans]
    rates = [float(one.profile.output_tokens_per_s_per_device) for one in front.plans]
    assert steps == sorted(steps)
    assert rates == sorted(rates)


def test_a_restricted_field_is_taken_from_its_restriction():
    answer = plan(asked(A100, H100, tensor_parallel={"any": [8]}, disaggregate={"any": [False]}), top=100)
    assert {one.profile.scenario.plan.tensor_parallel for one in answer.plans} == {8}
    assert all(one.profile.scenario.plan.disaggregate is None for one in answer.plans)


def test_the_kind_that_prefills_may_be_stated():
    pools = {"prefill": {"tensor_parallel": 8, "device": "a100-sxm-80gb"}, "decode": {"tensor_parallel": 8}}
    answer = plan(asked(A100, H100, disaggregate=pools), top=100)
    splits = [one.profile.scenario.plan.disaggregate for one in answer.plans]
    assert {split.prefill_device for split in splits} == {"a100-sxm-80gb"}


def test_several_clusters_are_of_equal_devices():
    several = asked(A100, H100)
    several["cluster"] = {"any": [several["cluster"], "8x h100-sxm-80gb"]}
    with pytest.raises(InputError, match="equal devices"):
        plan(several)
