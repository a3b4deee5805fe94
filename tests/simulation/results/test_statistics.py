"""Percentiles and how far they may be off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_outcomes import EDGES_S

from sightline.simulation.results.times import Histogram, Values, of_histogram, of_values, statistics

RUNS = 300


@given(values=st.lists(st.floats(2e-6, 1e3), min_size=1, max_size=200), share=st.floats(0.0, 1.0))
def test_percentiles_are_those_of_numpy(values, share):
    assert of_values(np.sort(values), share) == pytest.approx(np.quantile(values, share), rel=1e-9)


@given(seed=st.integers(0, 2**31), size=st.integers(20, 200), share=st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_histogram_tells_percentiles_to_the_width_of_its_bins(seed, size, share):
    """Of few values too, between which a percentile lies far from both."""
    values = np.random.default_rng(seed).lognormal(-4.0, 1.0, size)
    counts, _ = np.histogram(values, EDGES_S)
    assert of_histogram(counts, EDGES_S, share) == pytest.approx(np.quantile(values, share), rel=0.001)


def test_an_empty_histogram_tells_nothing():
    assert np.isnan(of_histogram(np.zeros(EDGES_S.size - 1, np.int64), EDGES_S, 0.5))


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("key", ["mean", "p50", "p90"])
def test_intervals_hold_the_truth_in_four_of_five_runs(key, correlation):
    """Of independent values, and of values that resemble the ones before them as in a queue."""
    rng = np.random.default_rng(7)
    truth = {"mean": np.exp(0.125), "p50": 1.0, "p90": np.exp(0.5 * 1.2816)}[key]
    held = 0
    for noise in rng.standard_normal((RUNS, 2000)):
        steps = noise * np.sqrt(1.0 - correlation**2)
        steps[0] = noise[0]
        for i in range(1, steps.size) if correlation else ():
            steps[i] += correlation * steps[i - 1]
        low, high = statistics(Values(np.exp(0.5 * steps))).intervals[key]
        held += low <= truth and (high is None or truth <= high)
    assert 0.7 <= held / RUNS <= 0.9


def test_a_queue_that_grows_is_no_noise():
    """Its steps are: a thousand of them say where the queue stands in the middle to some per cent."""
    held = 0
    for steps in np.random.default_rng(0).exponential(size=(RUNS, 1000)):
        seconds = np.cumsum(steps)
        low, high = statistics(Values(seconds)).intervals["mean"]
        assert high / low < 1.2
        held += low <= 500.5 <= high
    assert 0.7 <= held / RUNS <= 0.9


def test_the_farthest_percentile_of_a_short_run_has_no_upper_end():
    found = statistics(Values(np.random.default_rng(0).exponential(size=50)))
    assert found.intervals["p99"][1] is None
    assert found.intervals["p50"][1] is not None
    assert found.too_few == ("p99",)


def test_equal_values_are_certain():
    found = statistics(Values(np.full(10, 2.0)))
    assert found.intervals["p99"] == (2.0, 2.0)
    assert set(found.values.values()) == {2.0}


def test_no_values_have_no_statistics():
    found = statistics(Values(np.zeros(0)))
    assert np.isnan(found.values["mean"])
    assert found.intervals == {}


@pytest.mark.parametrize("size", [5_000, 200_000])
def test_a_histogram_says_what_values_say(size):
    seconds = np.random.default_rng(0).lognormal(-2.0, 1.0, size)
    histogram = Histogram()
    # Requests end in another order than they came.
    for numbers in np.array_split(np.random.default_rng(1).permutation(size), 7):
        histogram.add(numbers, seconds[numbers])
    exact, binned = statistics(Values(seconds)), statistics(histogram)
    assert binned.values == pytest.approx(exact.values, rel=0.002)
    assert binned.too_few == exact.too_few
    for key, (low, high) in exact.intervals.items():
        assert binned.intervals[key][0] <= exact.values[key] * 1.002
        assert (binned.intervals[key][1] is None) == (high is None)
        assert binned.intervals[key][0] == pytest.approx(low, rel=0.2)
