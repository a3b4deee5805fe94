"""Ties are broken by evidence and by habit: what nobody measured, what offloads and what is scheduled oddly comes after."""

import pytest

from sightline.answers.plan_sentences import second
from sightline.planning.plan_answer import plans_to_dict
from sightline.planning.search import plan

WORK = {"task": "pretrain", "sequence_length": 4096, "global_batch": 64}
OFFLOADING = {
    "model": "llama-2-7b",
    "cluster": "4x rtx-4090",
    "workload": WORK | {"sequence_length": 2048, "global_batch": 32},
    "plan": {"framework": "deepspeed", "zero_stage": 3, "micro_batch": 8},
}
STAGES = {
    "model": "llama-2-7b",
    "cluster": "16x h100-sxm-80gb",
    "workload": WORK | {"global_batch": 256},
    "plan": {
        "framework": "torchtitan",
        "tensor_parallel": 1,
        "pipeline_parallel": 2,
        "virtual_stages": 1,
        "micro_batch": 1,
        "offload": "none",
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
    assert reason in second(answer)[0]
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
