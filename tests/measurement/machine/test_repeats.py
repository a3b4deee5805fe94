"""Medians over independent runs: certain where runs agree, as uncertain as they differ."""

import numpy as np
import pytest

from sightline.measurement.machine.timing import median_interval, median_of_runs, spread_of_samples


def test_of_one_run_it_is_the_interval_of_the_samples():
    samples = [1.0, 1.1, 1.2, 1.3, 1.4]
    assert median_of_runs([samples]) == (1.2, pytest.approx(median_interval(samples)))


def test_runs_that_lie_apart_are_less_certain_than_their_samples():
    runs = [[1.0] * 50, [1.1] * 50, [1.2] * 50]
    median, (low, high) = median_of_runs(runs)
    # Student's t of 80 % with two degrees of freedom is 1.886.
    reach = 1.886 * np.std(np.log([1.0, 1.1, 1.2]), ddof=1) / np.sqrt(3)
    assert median == 1.1
    assert np.log(high / median) == pytest.approx(reach, rel=1e-3)
    assert np.log(median / low) == pytest.approx(reach, rel=1e-3)


def test_the_interval_of_three_runs_holds_the_truth_four_times_in_five():
    generator = np.random.default_rng(5)
    held = 0
    for _ in range(800):
        own = np.exp(generator.normal(0.0, 0.03, 3))
        runs = [list(factor * (1.0 + generator.normal(0.0, 0.01, 20))) for factor in own]
        low, high = median_of_runs(runs)[1]
        held += low <= 1.0 <= high
    assert 0.76 <= held / 800 <= 0.88


def test_the_spread_is_that_of_all_samples():
    assert spread_of_samples([[1.0, 2.0], [3.0]])["max"] == 3.0
