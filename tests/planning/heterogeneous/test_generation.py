"""Searches of serving plans on heterogeneous devices."""

import shlex
from dataclasses import replace
from itertools import pairwise, product
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
    assert "the best plan uses only 8 x h200-sxm-141gb of 8 x h200-sxm-141gb + 8 x a100-sxm-80gb" in answer.warnings


def test_the_most_users_are_looked_for_on_all_kinds():
    usual = {"pipeline_parallel": 1, "data_parallel": 1, "tensor_parallel": 8, "quantization": "none"}
    limits = {"tpot": 0.05, "ttft": 2.0}
    answer = plan(asked(A100, H100, **usual, disaggregate={"any": [False]}), objective="users", top=100, **limits)
    (most, *_) = [one for one in answer.plans if one.profile.scenario.cluster.groups]
    scenario = most.profile.scenario
    assert most.value == most.figures["most_users"] == scenario.workload.batch > 32
    plan_again = replace(scenario.plan, group_batches=None)
    more, same = (
        predict(replace(scenario, plan=plan_again, workload=replace(scenario.workload, batch=batch)))
        for batch in (scenario.workload.batch + 1, scenario.workload.batch)
    )
    assert same.fits
    assert max(same.tpot_s / 0.05, same.ttft_s / 2.0) <= 1
    assert not more.fits or max(more.tpot_s / 0.05, more.ttft_s / 2.0) > 1


def test_restricted_and_stated_fields_are_combined_with_the_list():
    stated = {"pipeline_parallel": 2, "tensor_parallel": {"any": [2, 4]}, "max_batched_tokens": {"any": [2048, 8192]}}
    question = asked(A100, H100, quantization="none", disaggregate=False, chunked_prefill=True, **stated)
    question["workload"] |= {"batch": {"any": [16, 32]}}
    answer = plan(question, top=100)
    mixed = [one.profile.scenario for one in answer.plans if one.profile.scenario.cluster.groups]
    assert {one.plan.pipeline_parallel for one in mixed} == {2}
    tried = {(one.plan.tensor_parallel, one.plan.max_batched_tokens, one.workload.batch) for one in mixed}
    assert tried == set(product((2, 4), (2048, 8192), (16, 32)))


def test_other_uses_of_the_devices_are_neighbours():
    answer = plan(asked(A100, H100, quantization="none", tensor_parallel=8))
    best = answer.plans[0]
    losses = {str(one.set): one.loss for one in answer.neighbours}
    for kind in (A100, H100):
        alone = plan({**asked(A100, H100, quantization="none", tensor_parallel=8), "cluster": kind}).plans[0]
        named = str({"cluster": kind})
        if best.profile.scenario.cluster.in_words != alone.profile.scenario.cluster.in_words:
            assert losses[named] == pytest.approx(best.value / alone.value - 1)
    assert str({"plan.disaggregate.prefill.device": "a100-sxm-80gb"}) in losses


@pytest.mark.parametrize("limits", [{"tpot": "1 ms"}, {"ttft": "1 ms", "tpot": "15 ms"}])
def test_where_no_plan_meets_the_limits_the_nearest_say_what_they_need(limits):
    question = asked(A100, H100, quantization="none", tensor_parallel=8, disaggregate=False)
    answer = plan(question, **limits)
    assert not answer.plans
    assert sum(answer.rejected.get(key, 0) for key in ("ttft_s", "tpot_s")) == answer.evaluated
    assert {"cluster"} & {name for one in answer.nearest for name in one.set}
    for one in answer.nearest:
        words = shlex.split(one.command)
        settings = [value for name, value in pairwise(words) if name == "--set"]
        found = dict(pairwise(words))
        again = plan(question, overrides=settings, **{name: found[f"--{name}"] for name in limits})
        assert again.plans, one.command


def test_limits_and_fronts():
    every = plan(asked(A100, H100), top=100)
    limit = sorted(float(one.profile.tpot_s) for one in every.plans)[3]
    within = plan(asked(A100, H100), tpot=limit, top=100)
    assert 0 < within.feasible < every.feasible
    assert within.rejected["tpot_s"] > 0
    front = plan(asked(A100, H100), pareto=("latency", "throughput"))
    assert len(plan(asked(A100, H100), pareto=("latency", "throughput"), top=2).plans) == 2
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
    with pytest.raises(InputError, match="devices of one type"):
        plan(several)
