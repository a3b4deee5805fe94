"""How far the mean of a series is off, of values that resemble their neighbours."""

from math import isinf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from sightline.simulation.results.times import error_of_mean, independent_values, student

RUNS = 1000


def returning(correlation: float, size: int = 20) -> np.ndarray:
    """Runs of a series that returns to its mean of 0, with a spread of 1."""
    noise = np.random.default_rng(3).standard_normal((RUNS, size))
    runs = noise.copy()
    for i in range(1, size):
        runs[:, i] = correlation * runs[:, i - 1] + np.sqrt(1.0 - correlation**2) * noise[:, i]
    return runs


def held(runs: np.ndarray, truth: float) -> float:
    """The share of runs whose interval holds the truth."""
    return float(np.mean([abs(run.mean() - truth) <= error_of_mean(run).half_width for run in runs]))


@given(freedom=st.floats(2.0, 1000.0))
def test_students_quantiles_are_those_of_scipy(freedom):
    assert student(freedom) == pytest.approx(t.ppf(0.9, freedom), rel=0.004)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8, 0.9])
def test_intervals_hold_the_mean_of_a_series_that_returns_to_it(correlation):
    assert 0.7 <= held(returning(correlation), 0.0) <= 0.95


@pytest.mark.parametrize("drift", [1.0, 5.0])
def test_intervals_hold_the_mean_of_a_queue_that_grows(drift):
    steps = drift + np.random.default_rng(5).standard_normal((RUNS, 1000))
    batches = np.cumsum(steps, axis=1).reshape(RUNS, 20, 50).mean(axis=2)
    assert 0.75 <= held(batches, drift * 500.5) <= 0.85


def test_values_that_resemble_their_neighbours_say_less():
    likely = [np.median([independent_values(run) for run in returning(p)]) for p in (0.0, 0.6, 0.9)]
    assert likely[0] > 15 > likely[1] > 4 > likely[2]


def test_two_values_say_nothing_of_their_error():
    assert isinf(error_of_mean(np.array([1.0, 2.0])).half_width)


def test_equal_values_are_certain():
    assert error_of_mean(np.full(10, 2.0)).half_width == 0.0
