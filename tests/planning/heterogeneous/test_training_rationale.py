"""Why a training plan on heterogeneous devices is the best: other kinds, splits and parts, and what fits where none does."""

import shlex
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from sightline.planning.plan_answer import PlanAnswer
from sightline.planning.search import plan as search_launchable

plan = partial(search_launchable, launchable=False)
"""Searches heterogeneous plans, which nothing launches, too."""

A100, H100 = "8x a100-sxm-80gb", "8x h100-sxm-80gb"


def asked(*devices: str, **stated: Any) -> dict[str, Any]:
    fixed = {"framework": "megatron", "tensor_parallel": {"any": [1, 2]}, "pipeline_parallel": {"any": [1, 2]}}
    fixed |= {"schedule": "1f1b", "offload": "none", "context_parallel": 1, "micro_batch": 1, "recompute": "none"}
    work = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
    cluster: Any = {"devices": list(devices)} if len(devices) > 1 else devices[0]
    return {"model": "llama-2-7b", "cluster": cluster, "workload": work, "plan": {**fixed, **stated}}


def loss_of(answer: PlanAnswer, **stated: Any) -> float | None:
    """The loss of the neighbour with this setting."""
    (loss,) = (one.loss for one in answer.neighbours if one.set == stated)
    return loss


@pytest.fixture(scope="module")
def answer() -> PlanAnswer:
    return plan(asked(A100, H100))


def test_each_kind_alone_is_a_neighbour(answer):
    best = answer.plans[0].profile
    assert best.scenario.cluster.groups
    for kind in (A100, H100):
        alone = plan(asked(kind)).plans[0].profile
        assert loss_of(answer, cluster=kind) == pytest.approx(alone.step_time_s / best.step_time_s - 1)
    losses = [one.loss for one in answer.neighbours if one.loss is not None]
    assert losses == sorted(losses)


def test_the_other_split_is_a_neighbour(answer):
    best = answer.plans[0].profile
    other = {"data": "pipeline", "pipeline": "data"}[best.scenario.plan.split]
    order = [f"{part.devices}x {part.device.name}" for part in best.scenario.cluster.parts]
    split = plan(asked(*order, split=other), top=100).plans
    same = [one.profile for one in split if one.profile.scenario.plan.split == other]
    same = [one for one in same if one.scenario.cluster.in_words == best.scenario.cluster.in_words]
    loss = min(one.step_time_s for one in same) / best.step_time_s - 1
    assert loss_of(answer, **{"plan.split": other}) == pytest.approx(loss)


def test_a_mixture_is_a_neighbour_of_one_kind_alone():
    answer = plan(asked(H100, "1x rtx-3090", tensor_parallel=1))
    assert not answer.plans[0].profile.scenario.cluster.groups
    assert any(one.set == {"cluster": "1x rtx-3090"} and one.loss is None for one in answer.neighbours)
    assert any(name.startswith("plan.") for one in answer.neighbours for name in one.set)


def test_better_parts_are_those_of_a_kind_or_of_the_network_between(answer):
    parts = {one.part for one in answer.hardware}
    assert "device.peak_flops of h100-sxm-80gb" in parts
    assert all(one.part.startswith("network.") or one.part.endswith("-sxm-80gb") for one in answer.hardware)
    assert all(0 < one.gain < 1 for one in answer.hardware)


@pytest.mark.parametrize(
    ("devices", "stated", "limits"),
    [
        (("2x rtx-4090", "2x a100-sxm-40gb"), {"zero_stage": 0, "framework": "deepspeed"}, {}),
        pytest.param((A100, H100), {"zero_stage": 1}, {"max_memory": "8 GB"}, marks=pytest.mark.slow),
        ((A100, H100), {"zero_stage": 1}, {"deadline": "3d"}),
    ],
)
def test_where_nothing_fits_the_commands_of_the_nearest_plans_find_them(devices, stated, limits):
    question = asked(*devices, **stated)
    question["workload"]["total_tokens"] = 1e11
    answer = plan(question, **limits)
    assert not answer.plans
    assert answer.nearest
    for one in answer.nearest:
        words = shlex.split(one.command)
        settings = [value for name, value in pairwise(words) if name == "--set"]
        named = dict(pairwise(words))
        loosened = {name: one.set.get(name.replace("_", "-"), value) for name, value in limits.items()}
        found = plan(question, overrides=settings, **loosened)
        assert found.plans, one.command
        assert named.get("--deadline") == loosened.get("deadline")


def test_a_budget_that_nothing_meets_is_loosened_to_what_the_plan_rents_for():
    stated = asked(A100, H100, split="data", tensor_parallel=1, pipeline_parallel=1, zero_stage=1)
    stated["workload"]["total_tokens"] = 1e8
    first = plan(stated, budget=1).nearest[0]
    cost = first.plan.figures["cost_usd"]
    assert cost <= float(first.set["budget"]) <= 1.1 * cost
    assert "the budget" in first.sentence
    assert plan(stated, budget=first.set["budget"]).feasible
