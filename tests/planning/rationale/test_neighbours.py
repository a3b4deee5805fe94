"""The obvious neighbours of a plan, what they lose and why."""

from dataclasses import replace

import pytest
from training_scenarios import training

from sightline.planning.rationale.training_rationale import nearby_plans, neighbours
from sightline.prediction.changes import candidate_changes, changed
from sightline.prediction.training.step_profile import profile_of
from sightline.scenario.rules import breaks_no_rule, broken_by

LARGE = {
    "cluster": "64x a100-sxm-80gb",
    "global_batch": 64,
    "plan": {
        "framework": "megatron",
        "tensor_parallel": 8,
        "pipeline_parallel": 8,
        "virtual_stages": 3,
        "micro_batch": 1,
        "recompute": "selective",
        "sequence_parallel": True,
    },
}


def step_s(profile):
    return float(profile.step_time_s)


def found(value=step_s, free=None, objective="time", **changes):
    best = profile_of(training(**LARGE | changes))
    return best, neighbours(best, value, nearby_plans(best, profile_of, free), objective)


def by_choice(all_found):
    return {
        (key.removeprefix("plan."), tuple(value) if isinstance(value, list) else value): one
        for one in all_found
        for key, value in one.set.items()
    }


def test_a_loss_is_that_of_the_plan_with_the_change():
    best, around = found()
    known = by_choice(around)
    full = profile_of(replace(best.scenario, plan=replace(best.scenario.plan, recompute="full")))
    assert known["recompute", "full"].loss == pytest.approx(full.step_time_s / best.step_time_s - 1)
    assert "more recomputation" in known["recompute", "full"].sentence
    assert "GiB" in known["recompute", "none"].sentence or known["recompute", "none"].loss is not None


def test_the_obvious_neighbours_are_there():
    _, around = found()
    asked = set(by_choice(around))
    for choice in (
        *(("tensor_parallel", 4), ("tensor_parallel", 16), ("pipeline_parallel", 4), ("micro_batch", 2)),
        *(("virtual_stages", 6), ("schedule", "1f1b"), ("sequence_parallel", False), ("recompute", "none")),
    ):
        assert choice in asked


def test_losses_come_in_order_and_none_last():
    _, around = found()
    losses = [one.loss for one in around]
    known = [loss for loss in losses if loss is not None]
    assert known == sorted(known)
    assert losses[: len(known)] == known


def test_what_does_not_fit_says_what_it_needs():
    _, around = found(model="gpt-3-175b")
    unfit = by_choice(around)["micro_batch", 2]
    assert (unfit.loss is None) == unfit.sentence.startswith("does not fit")


def test_what_cannot_be_says_why():
    _, around = found(model="gpt-3-175b", plan=LARGE["plan"] | {"virtual_stages": 12})
    twice = by_choice(around)["virtual_stages", 24]
    assert twice.loss is None
    assert "invalid: plan.pipeline_parallel is 8" in twice.sentence


def test_what_the_framework_does_not_offer_is_named_only_if_it_is_better():
    _, around = found()
    asked = by_choice(around)
    assert ("schedule", "zero-bubble") not in asked
    assert ("zero_stage", 2) not in asked
    _, around = found(value=lambda profile: 1 / step_s(profile))
    bubble = by_choice(around)["schedule", "zero-bubble"]
    assert bubble.loss is not None
    assert bubble.loss < 0
    assert "gpipe, 1f1b, interleaved" in bubble.sentence


def test_only_searched_fields_have_neighbours():
    _, around = found(free=["micro_batch"])
    assert {key for one in around for key in one.set} == {"plan.micro_batch"}


def test_the_objective_decides_what_is_lost():
    best, around = found(value=lambda profile: profile.memory_bytes["total"], objective="memory")
    known = by_choice(around)
    full = profile_of(replace(best.scenario, plan=replace(best.scenario.plan, recompute="full")))
    assert known["recompute", "full"].loss == pytest.approx(full.memory_bytes["total"] / best.memory_bytes["total"] - 1)


def test_changes_keep_the_devices():
    scenario = training(**LARGE)
    for change in candidate_changes(scenario):
        plan = changed(scenario, change).plan
        ranks = plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel * plan.context_parallel
        assert ranks == scenario.cluster.devices, change


def test_rules_are_worded_for_a_plan_that_breaks_them():
    scenario = training(**LARGE)
    assert broken_by(scenario) == []
    wrong = replace(scenario, plan=replace(scenario.plan, tensor_parallel=64, pipeline_parallel=1, virtual_stages=1))
    assert not breaks_no_rule(wrong)
    assert any("64" in sentence for sentence in broken_by(wrong))
    assert all(sentence.rule for sentence in broken_by(wrong))
