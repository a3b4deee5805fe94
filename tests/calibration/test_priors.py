"""Held-out errors of a fit with priors: exact for a linear model."""

import numpy as np
import pytest
from engine_fit import held_out_errors

from sightline.calibration.error_figures import conformal_spread, independent_errors
from sightline.calibration.fits import Prior, fit_with_priors

PRIORS = {
    "scale": Prior(value=1.0, spread=50.0, low=1e-3, high=1e3),
    "slope": Prior(value=1.0, spread=50.0, low=1e-3, high=1e3),
}


def test_held_out_errors_are_those_of_a_fit_without_the_group():
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 3.0, size=12)
    groups = np.repeat(["a", "b", "c", "d"], 3)
    measured = np.exp(0.3 + 0.7 * x + rng.normal(0.0, 0.06, size=12))

    def at(kept):
        return lambda values: values["scale"] * np.exp(np.log(values["slope"]) * x[kept])

    everything = np.ones(12, dtype=bool)
    fitted = fit_with_priors(at(everything), measured, np.ones(12), PRIORS)
    found = held_out_errors(at(everything), fitted, measured, np.ones(12), PRIORS, list(groups))
    for group in "abcd":
        kept = groups != group
        without = fit_with_priors(at(kept), measured[kept], np.ones(9), PRIORS)
        errors = np.log(at(~kept)(without) / measured[~kept])
        assert found[~kept] == pytest.approx(errors, abs=0.015)


def test_held_out_errors_exceed_those_of_the_fit():
    measured = np.array([1.0, 1.1, 0.9, 1.3])

    def predict(values):
        return values["scale"] * np.ones(4)

    prior = {"scale": PRIORS["scale"]}
    fitted = fit_with_priors(predict, measured, np.ones(4), prior)
    errors = np.log(predict(fitted) / measured)
    found = held_out_errors(predict, fitted, measured, np.ones(4), prior, range(4))
    assert found == pytest.approx(errors * 4 / 3, rel=0.01)
    assert conformal_spread(np.abs(found)) > conformal_spread(np.abs(errors))


def test_errors_of_a_group_count_as_one_where_they_are_one():
    scattered = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    groups = ["a", "a", "b", "b", "c", "c"]
    assert independent_errors(scattered, groups) == pytest.approx(6.0)
    assert independent_errors(np.repeat([0.1, -0.1, 0.1], 2), groups) == pytest.approx(3.0)
    assert independent_errors(np.ones(6), list("abcdef")) == pytest.approx(6.0)


def test_correlated_errors_need_wider_intervals_to_hold_a_new_group():
    rng = np.random.default_rng(11)

    def held(with_groups):
        inside = []
        for _ in range(300):
            biases = np.repeat(rng.normal(0.0, 0.1, 7), 12)
            errors = biases + rng.normal(0.0, 0.03, 84)
            groups = list(np.repeat(np.arange(6), 12)) if with_groups else ()
            inside.append(np.mean(np.abs(errors[72:]) <= conformal_spread(errors[:72], groups)))
        return np.mean(inside)

    assert held(with_groups=False) < 0.8
    assert 0.8 <= held(with_groups=True) < 0.9
