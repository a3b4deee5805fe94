"""Warm-up, samples and the interval of their median, on a clock that does what it is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.measurement.timing import (
    QUICK,
    HostClock,
    Rule,
    Timing,
    measure_calls,
    median_of_runs,
    spread_of_samples,
)
from sightline.profile.results import median_interval


class ScriptedClock:
    """A clock whose calls take what a function of their turn says."""

    resolution_s = 1e-4

    def __init__(self, seconds):
        self.seconds, self.time = seconds, 0.0

    def now(self):
        return self.time

    def measure(self, call, first, count):
        taken = 0.0
        for turn in range(first, first + count):
            call(turn)
            taken += self.seconds(turn)
        self.time += taken
        return taken


def test_the_median_is_that_of_the_settled_times() -> None:
    clock = ScriptedClock(lambda turn: 0.01 * (1 + 5 * 0.8**turn))
    timing = measure_calls(lambda _: None, clock, Rule(warm_up_s=10))
    assert timing.stable
    assert timing.warm_up >= 15
    assert timing.median == pytest.approx(0.01, rel=0.02)


def test_times_that_never_settle_are_told() -> None:
    clock = ScriptedClock(lambda turn: 0.01 * 1.1**turn)
    timing = measure_calls(lambda _: None, clock, Rule(warm_up_s=0.3, most=10))
    assert not timing.stable


def test_short_calls_are_timed_together() -> None:
    timing = measure_calls(lambda _: None, ScriptedClock(lambda _: 1e-6), QUICK)
    assert timing.calls_per_sample >= 100
    assert timing.median == pytest.approx(1e-6)


def test_long_calls_are_repeated_less() -> None:
    timing = measure_calls(lambda _: None, ScriptedClock(lambda _: 5.0), Rule(least=20))
    assert timing.calls_per_sample == 1
    assert len(timing.samples) == 5


def test_scatter_asks_for_more_samples() -> None:
    noise = np.random.default_rng(1).lognormal(0, 0.3, 10**5)
    even = measure_calls(lambda _: None, ScriptedClock(lambda _: 1e-3), Rule())
    uneven = measure_calls(lambda _: None, ScriptedClock(lambda turn: 1e-3 * noise[turn]), Rule())
    assert len(uneven.samples) > 3 * len(even.samples)
    low, high = uneven.interval
    assert low < uneven.median < high


def test_every_sample_is_told_and_kept() -> None:
    told: list[float] = []
    timing = measure_calls(lambda _: None, HostClock(), Rule(warm_up_s=0.01, longest_s=0.05), told.append)
    assert told == list(timing.samples)
    said = timing.to_dict()
    assert said["spread_s"]["min"] <= said["spread_s"]["p10"] <= said["spread_s"]["p90"] <= said["spread_s"]["max"]


def test_turns_go_up_so_that_buffers_take_turns() -> None:
    turns: list[int] = []
    measure_calls(turns.append, ScriptedClock(lambda _: 1e-3), QUICK)
    assert turns == list(range(len(turns)))


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60))
def test_the_median_lies_in_its_interval(samples) -> None:
    low, high = median_interval(samples)
    assert low <= Timing(samples=samples, warm_up=0, stable=True, calls_per_sample=1).median <= high


def test_what_comes_before_each_sample_is_done_once_for_a_single_call_and_does_not_count() -> None:
    done: list[str] = []
    timing = measure_calls(
        lambda _: done.append("call"),
        ScriptedClock(lambda _: 1e-6),
        Rule(least=20, most=20),
        before=lambda: done.append("before"),
    )
    assert done == ["before", "call"] * (len(done) // 2)
    assert timing.calls_per_sample == 1
    assert timing.median == pytest.approx(1e-6)


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
