"""What measurements teach, on linear predictions of a few effects: the algebra alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.prediction.anchoring.posterior import posterior
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Beliefs

EFFECTS = ("host", "network", "pace")
BEFORE = Beliefs(names=EFFECTS, mean=np.zeros(3), covariance=np.diag([0.5, 0.15, 0.06]) ** 2, prior=lambda _: 0.1)

slopes = st.lists(st.floats(-1, 1), min_size=3, max_size=3)
errors = st.floats(-0.3, 0.3)
anchors = st.lists(st.tuples(slopes, errors), min_size=1, max_size=4)


def _taught(rows, *, near=0.003, alone=0.0006):
    """What the rows - slopes and the logarithm of measured over expected - teach; all are as near to each other."""
    gradients = [dict(zip(EFFECTS, slope, strict=True)) for slope, _ in rows]
    timed = [
        Timed(scenario=None, quantity="step_time_s", seconds=float(np.exp(error)), name=f"run {place}")
        for place, (_, error) in enumerate(rows)
    ]

    def predict(beliefs):
        return beliefs.with_effects(EFFECTS).matrix(gradients) @ beliefs.mean, gradients

    return posterior(BEFORE, predict, timed, near * np.ones((len(rows),) * 2) + alone * np.eye(len(rows)))


@given(anchors, slopes, st.floats(0, 0.003))
def test_expected_measurements_never_widen_what_is_believed(rows, target, shared):
    found = _taught([(slope, 0.0) for slope, _ in rows])
    gradient = dict(zip(EFFECTS, target, strict=True))
    before = float(BEFORE.joint_variance([gradient])[0, 0]) + 0.0036
    assert found.variance(gradient, [shared] * len(rows), 0.0036) <= before + 1e-12


@given(anchors)
def test_what_was_predicted_moves_nothing(rows):
    found = _taught([(slope, 0.0) for slope, _ in rows])
    assert found.beliefs.mean == pytest.approx(np.zeros(3), abs=1e-12)
    assert found.shift([0.003] * len(rows)) == pytest.approx(0.0, abs=1e-12)
    assert found.scale == 1.0


@given(anchors)
def test_the_order_of_anchors_does_not_matter(rows):
    first, second = _taught(rows), _taught(rows[::-1])
    assert first.beliefs.mean == pytest.approx(second.beliefs.mean, abs=1e-9)
    assert first.shift([0.002] * len(rows)) == pytest.approx(second.shift([0.002] * len(rows)), abs=1e-9)


@given(slopes, errors)
def test_a_nearer_plan_takes_over_more(slope, error):
    found = _taught([(slope, error)])
    shifts = [abs(found.shift([shared])) for shared in (0.0, 0.001, 0.003)]
    assert shifts == sorted(shifts)


def test_an_error_is_shared_between_effects_by_their_spread():
    found = _taught([([1.0, 1.0, 0.0], 0.2)])
    host, network = (found.beliefs.mean_of(name) for name in ("host", "network"))
    assert host / network == pytest.approx((0.5 / 0.15) ** 2)


def test_anchors_far_from_what_was_expected_widen_every_interval():
    gradient = {"pace": 1.0}
    usual, odd = _taught([([0, 0, 1], 0.05)]), _taught([([0, 0, 1], 1.5)])
    assert usual.scale == 1.0
    assert odd.variance(gradient, [0.003], 0.0036) > 10 * usual.variance(gradient, [0.003], 0.0036)


def test_anchors_that_exclude_each_other_are_said_to():
    agreeing, opposed = (_taught([([0, 0, 1], 0.1), ([0, 0, 1], other)]) for other in (0.12, 0.6))
    assert not agreeing.contradictions
    assert any("measured step_time_s 1.105, " in said for said in opposed.contradictions)


def test_a_plan_of_many_values_takes_over_an_array():
    found = _taught([([0, 0, 1], 0.2)])
    together = found.shift([np.array([0.0, 0.001, 0.003])])
    assert together == pytest.approx([float(found.shift([shared])) for shared in (0.0, 0.001, 0.003)])
