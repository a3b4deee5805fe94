"""Ties are broken by evidence and by habit: what nobody measured, what offloads and what is scheduled oddly comes after."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.answers.plan_sentences import standing
from sightline.planning.plan_answer import plans_to_dict
from sightline.planning.search import plan
from sightline.planning.training.best import leading

WORK = {"task": "pretrain", "sequence_length": 4096, "global_batch": 64}
OFFLOADING = {
    "model": "llama-2-7b",
    "cluster": "4x rtx-4090",
    "workload": WORK | {"sequence_length": 2048, "global_batch": 32},
    "plan": {"framework": "deepspeed", "zero_stage": 3, "micro_batch": 8},
}
STAGES = {
    "model": "llama-2-13b",
    "cluster": "16x h100-sxm-80gb",
    "workload": WORK,
    "plan": {
        "framework": "torchtitan",
        "tensor_parallel": 1,
        "pipeline_parallel": 2,
        "virtual_stages": 1,
        "schedule": {"any": ["1f1b", "zero-bubble"]},
    },
}
DEVICES = {
    **STAGES,
    "cluster": {"any": ["16x h100-sxm-80gb", "16x h200-sxm-141gb"]},
    "plan": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 1, "micro_batch": 1, "zero_stage": 1},
}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [(OFFLOADING, "less offload"), (STAGES, "plain schedule"), (DEVICES, "calibrated")],
    ids=["offload", "schedule", "evidence"],
)
def test_the_habitual_one_of_tied_plans_comes_first_and_says_why(asked, reason):
    answer = plan(asked, top=3, launchable=False)
    first, fastest = answer.plans[:2]
    assert list(first.preferred) == [reason]
    assert fastest.tied
    assert fastest.profile.step_time_s < first.profile.step_time_s
    assert not fastest.preferred
    assert reason in standing(answer)[0]
    assert [one["preferred"] for one in plans_to_dict(answer)["plans"]] == [[reason], [], []]


def test_what_is_certainly_faster_stays_first():
    asked = {**OFFLOADING, "plan": {**OFFLOADING["plan"], "offload": {"any": [["optimizer"], "none"]}}}
    answer = plan(asked, top=2, launchable=False)
    assert not answer.plans[0].preferred
    assert sorted(answer.plans[0].profile.scenario.plan.offload) == ["optimizer"]


def test_a_faster_device_behind_the_first_gains():
    answer = plan(DEVICES, top=1, launchable=False)
    (other,) = [one for one in answer.alternatives if "cluster" in one.set]
    assert other.loss < 0


TIGHT = {
    "model": "llama-2-13b",
    "cluster": "8x a100-sxm-40gb",
    "workload": WORK,
    "plan": {
        "framework": "megatron",
        "tensor_parallel": {"any": [4, 8]},
        "pipeline_parallel": {"any": [1, 2]},
        "context_parallel": 1,
        "micro_batch": {"any": [1, 2, 4]},
        "zero_stage": 1,
        "recompute": {"any": ["none", "selective"]},
        "attention": "flash",
        "schedule": "1f1b",
        "virtual_stages": 1,
        "offload": "none",
    },
}


def test_tight_plans_come_after_those_that_surely_fit():
    plans = plan(TIGHT, top=100, launchable=False).plans
    fit = [one.profile.fit for one in plans]
    assert fit == sorted(fit, reverse=True)
    assert {*fit} == {"yes", "tight"}


def test_a_faster_tight_plan_is_listed_last():
    choices = {
        "tensor_parallel": 1,
        "pipeline_parallel": {"any": [2, 4]},
        "recompute": {"any": ["none", "selective", "full"]},
    }
    faster = TIGHT | {"cluster": "4x h100-sxm-80gb", "plan": TIGHT["plan"] | choices}
    every = plan(faster, top=100, launchable=False).plans
    fastest = min(every, key=lambda one: one.profile.step_time_s)
    assert fastest.profile.tight
    assert [one.profile.step_time_s for one in plan(faster, top=2, launchable=False).plans] == [
        every[0].profile.step_time_s,
        fastest.profile.step_time_s,
    ]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=30),
    st.integers(2, 9),
)
def test_the_fastest_plan_is_kept_though_it_be_tight(plans, count):
    keys, tight = (np.array(column, float) for column in zip(*plans, strict=True))
    kept = leading(keys, tight, 0.5, count)
    assert len(kept) == len({*kept}) == min(count, len(plans))
    assert keys.min() in keys[kept]
    assert list(tight[kept]) == sorted(tight[kept])
    left = [i for i in range(len(plans)) if i not in kept and not tight[i]]
    sure = keys[kept][tight[kept] == 0]
    assert all(keys[i] >= sure.max(initial=0) for i in left)
