"""Plans with an anchor are ranked by the times that it leaves them, which it scales by how near they are to its own."""

from dataclasses import replace

import pytest

from sightline.anchors.corrected import anchored
from sightline.planning.search import plan

ASKED = {
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    "plan": {
        "framework": {"any": ["megatron", "deepspeed"]},
        "attention": "flash",
        "context_parallel": 1,
        "pipeline_parallel": {"any": [1, 2]},
        "offload": "none",
    },
}
SLOWER = 1.3


@pytest.fixture(scope="module")
def usual():
    """The best plans without an anchor."""
    return plan(ASKED, top=5)


@pytest.fixture(scope="module")
def anchor(usual):
    """A run of the best of them that took longer than predicted."""
    best = usual.plans[0].profile
    return anchored([replace(best.scenario, measured={"step_time_s": SLOWER * best.step_time_s}, name="own")])


@pytest.fixture(scope="module")
def answer(anchor):
    """The plans with it, down to the one that was measured."""
    return plan(ASKED, top=400, anchor=anchor)


def test_the_order_is_that_of_the_figures_that_are_shown(answer):
    times = [one.profile.step_time_s for one in answer.plans if not one.profile.tight]
    assert times == sorted(times)
    assert [one.value for one in answer.plans] == [one.profile.step_time_s for one in answer.plans]


def test_a_near_plan_that_an_anchor_slows_down_goes_behind_a_far_one(usual, answer):
    measured = usual.plans[0].profile
    (own,) = [one for one in answer.plans if one.profile.scenario.plan.to_dict() == measured.scenario.plan.to_dict()]
    assert own.rank > 1
    assert own.profile.step_time_s == pytest.approx(SLOWER * measured.step_time_s)
    assert answer.plans[0].profile.step_time_s < own.profile.step_time_s


def test_ties_are_by_what_the_anchor_left(answer):
    assert all(one.better <= 0.5 for one in answer.plans[1:] if not one.profile.tight)


def test_losses_of_other_values_are_by_the_same_figures(answer, anchor):
    assert answer.alternatives
    for one in answer.alternatives:
        alone = plan(ASKED, top=1, anchor=anchor, overrides=one.set).plans[0]
        assert one.loss == pytest.approx(alone.value / answer.plans[0].value - 1, abs=2e-3)
