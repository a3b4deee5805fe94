"""How likely one of two predicted plans is the faster: shared errors cancel, bounds and measurements say nothing."""

import json
import math

import pytest
from compared_plans import GENERATION, TRAINING

import sightline as sl
from sightline.explanation.compared import UNKNOWN, UNSEEN
from sightline.explanation.comparison import comparison_to_dict

LONG = TRAINING | {"workload": TRAINING["workload"] | {"sequence_length": 4096}}
"""Steps that kernels fill: hooks of ZeRO-3 hide behind them."""


def profile(overrides=None, of=TRAINING):
    return sl.predict(sl.load(of, overrides or {}))


def compared(overrides=None, of=TRAINING, **options):
    return sl.compare(profile(of=of), profile(overrides, of), levels=["step"], **options)


def width(interval):
    return math.log(interval[1] / interval[0])


def test_the_same_plan_twice_is_as_likely_the_faster():
    found = compared().faster
    assert (found.ratio, found.a_is_faster) == (1.0, 0.5)
    assert found.verdict == UNSEEN
    assert "equally likely" in found.sentence


@pytest.mark.parametrize(
    ("overrides", "verdict"),
    [
        ({}, "no difference found"),
        ({"plan.zero_stage": 3}, "no difference found"),
        ({"plan.recompute": "full"}, "slower"),
    ],
)
def test_what_both_share_cancels(overrides, verdict):
    found = compared(overrides, LONG)
    each = [width(profile(plan, LONG).interval["tokens_per_s"]) for plan in ({}, overrides)]
    assert 0.5 < found.faster.correlation <= 1.0
    assert width(found.faster.interval) < 0.7 * math.hypot(*each)
    (step,) = [row for row in found.rows if row.quantity == "step_time_s"]
    assert width(step.interval) == pytest.approx(width(found.faster.interval), rel=1e-6)
    assert step.verdict == verdict


def test_another_device_shares_less():
    same = compared({"plan.recompute": "full"}).faster
    other = compared({"plan.recompute": "full", "cluster": "8x h100-sxm-80gb"}).faster
    assert width(same.interval) < width(other.interval)
    assert other.verdict == "B"
    assert other.a_is_faster < 0.01


def test_likelihoods_of_both_directions_add_up_to_one():
    a, b = profile(), profile({"plan.recompute": "full"})
    there, back = sl.compare(a, b).faster, sl.compare(b, a).faster
    assert there.a_is_faster + back.a_is_faster == pytest.approx(1.0)
    assert there.a_is_faster > 0.5
    assert there.correlation == pytest.approx(back.correlation)


def test_a_bound_says_nothing_of_which_is_the_faster():
    found = compared({"plan.framework": "reference"})
    assert found.faster.verdict == UNKNOWN
    assert "reference" in found.faster.sentence
    assert {row.verdict for row in found.rows if row.level == "step"} == {UNKNOWN}
    assert comparison_to_dict(found)["faster"].keys() == {"verdict", "sentence"}


def test_generation_says_that_errors_are_taken_as_independent():
    a = profile(of=GENERATION)
    found = sl.compare(a, a, levels=["step"]).faster
    assert found.a_is_faster == 0.5
    assert "independent" in found.sentence


def test_measurements_are_not_ranked():
    a = profile()
    assert sl.compare(a.replace(source="measured"), a).faster is None


def test_anchors_of_both_plans_narrow_what_is_left(tmp_path):
    plans = {name: TRAINING | {"plan": TRAINING["plan"] | {"recompute": name}} for name in ("none", "full")}
    anchors = [
        sl.load(plan | {"measured": {"step_time_s": 1.05 * profile(of=plan).step_time_s}}) for plan in plans.values()
    ]
    one, other = (tmp_path / f"{name}.yaml" for name in plans)
    for path, plan in zip((one, other), plans.values(), strict=True):
        path.write_text(json.dumps(plan))
    plain, learned = (sl.compare(one, other, levels=["step"], anchor=known) for known in ((), anchors))
    assert width(learned.faster.interval) < width(plain.faster.interval)
    assert learned.rows[0].a > plain.rows[0].a
    old = sl.compare(profile(), other, levels=["step"], anchor=anchors)
    assert any("--anchor" in said for said in old.warnings)


def test_predictions_whose_anchors_are_not_given_have_independent_errors():
    anchor = sl.load(TRAINING | {"measured": {"step_time_s": profile().step_time_s}})
    a, b = (sl.predict(sl.load(TRAINING, one), anchor=[anchor]) for one in ({}, {"plan.recompute": "full"}))
    found = sl.compare(a, b, levels=["step"]).faster
    assert found.correlation == 0.0
    assert width(found.interval) > width(b.interval["tokens_per_s"])
    assert sl.compare(profile(), b, levels=["step"]).faster.correlation == 0.0
