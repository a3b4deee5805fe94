"""Beliefs: what measurements teach of effects, and how far off results stay."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sightline.prediction.beliefs import Beliefs, Gradient, learned

SPREADS = {"a": 0.1, "b": 0.5, "c": 0.2}
NOTHING = Beliefs(names=(), mean=np.zeros(0), covariance=np.zeros((0, 0)), prior=SPREADS.__getitem__)
slopes = st.floats(-2.0, 2.0).map(lambda x: round(x, 3))
gradients = st.lists(st.fixed_dictionaries({"a": slopes, "b": slopes}), min_size=1, max_size=4)


def test_an_effect_that_nothing_is_known_of_has_its_priors_spread() -> None:
    assert NOTHING.mean_of("b") == 0.0
    assert NOTHING.spread_of("b") == 0.5
    assert NOTHING.joint_variance([{"a": 1.0, "b": 2.0}])[0, 0] == pytest.approx(0.1**2 + 4 * 0.5**2)


def test_one_measurement_of_one_effect_is_weighed_by_variances() -> None:
    after = NOTHING.after([{"b": 1.0}], np.array([0.4]), np.array([[0.25]]))
    assert after.mean_of("b") == pytest.approx(0.2)
    assert after.spread_of("b") == pytest.approx(0.5 / np.sqrt(2))
    assert after.spread_of("a") == 0.1


@given(gradients, st.floats(-0.5, 0.5))
@settings(deadline=None)
def test_measurements_never_widen_what_is_believed(rows: list[Gradient], error: float) -> None:
    noise = 0.01 * np.eye(len(rows))
    after = NOTHING.after(rows, np.full(len(rows), error), noise)
    for target in ({"a": 1.0}, {"b": 1.0}, {"a": 1.0, "b": -1.0}, {"c": 1.0}):
        assert after.joint_variance([target])[0, 0] <= NOTHING.joint_variance([target])[0, 0] + 1e-12


@given(gradients)
@settings(deadline=None)
def test_what_was_expected_moves_nothing(rows: list[Gradient]) -> None:
    after = NOTHING.after(rows, np.zeros(len(rows)), 0.01 * np.eye(len(rows)))
    assert np.allclose(after.mean, 0.0)


@given(gradients.filter(lambda rows: len(rows) > 1), st.floats(-0.3, 0.3))
@settings(deadline=None)
def test_measurements_may_come_in_any_order(rows: list[Gradient], error: float) -> None:
    errors, noise = np.full(len(rows), error), 0.01 * np.eye(len(rows))
    together = NOTHING.after(rows, errors, noise)
    one_by_one = NOTHING
    for row in reversed(rows):
        left = error - one_by_one.with_effects(list(row)).matrix([row])[0] @ one_by_one.with_effects(list(row)).mean
        one_by_one = one_by_one.after([row], np.array([left]), np.array([[0.01]]))
    for name in ("a", "b"):
        assert one_by_one.mean_of(name) == pytest.approx(together.mean_of(name), abs=1e-8)
        assert one_by_one.spread_of(name) == pytest.approx(together.spread_of(name), rel=1e-6)


def bent(beliefs: Beliefs) -> tuple[NDArray[np.float64], Sequence[Gradient]]:
    """The logarithm of the larger of two times, of which only the shorter one at first knows the effect."""
    shift = beliefs.mean_of("b")
    host, device = 0.2 * np.exp(shift), 1.0
    logarithm = np.log(max(host, device))
    return np.array([logarithm]), [{"b": 1.0 if host > device else 0.0}]


def test_a_result_that_bends_is_linearized_again_where_it_led_to() -> None:
    wide = replace(NOTHING, prior={"b": 2.0}.__getitem__)
    start = replace(wide.with_effects(["b"]), mean=np.array([1.8]))
    found = learned(wide, bent, np.log([3.0]), np.array([[1e-4]]), starts=[start])
    assert found.mean_of("b") == pytest.approx(np.log(15.0), abs=0.05)


def test_a_wild_measurement_moves_a_robust_search_less() -> None:
    def level(beliefs: Beliefs) -> tuple[NDArray[np.float64], Sequence[Gradient]]:
        return np.full(5, beliefs.mean_of("b")), [{"b": 1.0}] * 5

    measured, noise = np.array([0.0, 0.01, -0.01, 0.0, 2.0]), 0.01**2 * np.eye(5)
    plain, robust = (learned(NOTHING, level, measured, noise, robust=robust).mean_of("b") for robust in (False, True))
    assert plain == pytest.approx(0.4, abs=0.01)
    assert abs(robust) < 0.02
