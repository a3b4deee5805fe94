"""Times of something that can be repeated: warm-up until it is stable, then samples until their median is known.

A sample is the mean of as many calls as a clock needs to resolve them. Nothing is thrown away: the interval of the
median says how far samples scatter, and it rests on their ranks alone.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, log, sqrt
from time import perf_counter, process_time
from typing import Any, Protocol

import numpy as np

from sightline.profile.results import median_interval

VARIABLE = "SIGHTLINE_CLOCK"

host_time = process_time if os.environ.get(VARIABLE) == "cpu" else perf_counter
"""Seconds since some moment: wall time or, where ``SIGHTLINE_CLOCK`` is ``cpu``, CPU time of this process.

One thread's CPU time does not contain what other processes take of its core, so that a machine that is shared can be
measured on one core (``taskset -c 0``). With several threads it would count each of them; between processes it would
leave out their waiting.
"""

Phase = Callable[[str], AbstractContextManager[None]]
"""Marks a part of a step: ``with phase("forward"):``. A phase inside another interrupts it."""

INTERVAL = 0.8
"""Probability with which an interval holds the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When to believe a time; seconds are of wall time."""

    warm_up_s: float = 1.0
    """Longest warm-up."""
    block: int = 5
    """Samples whose medians are compared during warm-up."""
    drift: float = 0.03
    """Difference of two blocks' medians from which on they are called stable."""
    precision: float = 0.01
    """Half-width of the median's interval, over the median, at which sampling ends."""
    least: int = 20
    most: int = 1000
    longest_s: float = 3.0
    """Sampling ends then, with at least a quarter of the least samples."""


FULL = Rule()
QUICK = Rule(warm_up_s=0.2, drift=0.1, precision=0.02, least=10, most=200, longest_s=0.3)
BRIEF = Rule(warm_up_s=0.04, block=3, drift=0.1, precision=0.02, least=8, most=100, longest_s=0.06)
"""For hundreds of operators of a suite, each of which is measured several times."""


class Clock(Protocol):
    """Reads the time that calls take."""

    resolution_s: float
    """A sample is at least as long."""

    def now(self) -> float:
        """Seconds since some moment, by which warm-up and sampling end."""
        ...

    def measure(self, call: Callable[[int], object], first: int, count: int) -> float:
        """Seconds of ``call(first)`` to ``call(first + count - 1)`` together."""
        ...


class HostClock:
    """Wall time of calls that return when the work is done."""

    resolution_s = 2e-5

    def now(self) -> float:
        """Wall time."""
        return perf_counter()

    def measure(self, call: Callable[[int], object], first: int, count: int) -> float:
        """Seconds between before and after."""
        begin = host_time()
        for number in range(first, first + count):
            call(number)
        return host_time() - begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The samples of one case, in seconds per call, in the order they were taken."""

    samples: Sequence[float]
    warm_up: int
    """Samples before them."""
    stable: bool
    """Whether the warm-up ended because times had settled, rather than because its time was over."""
    calls_per_sample: int

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return float(np.median(self.samples))

    @property
    def interval(self) -> tuple[float, float]:
        """Seconds between which the median lies with a probability of 80 %."""
        return median_interval(self.samples)

    def of_each(self, operators: int) -> "Timing":
        """The times of one of so many operators in a call."""
        return self if operators == 1 else replace(self, samples=[s / operators for s in self.samples])

    def to_dict(self) -> dict[str, Any]:
        """The samples' figures for a record."""
        return {
            "repeats": len(self.samples),
            "calls_per_repeat": self.calls_per_sample,
            "warm_up": self.warm_up,
            "stable": self.stable,
            "spread_s": spread_of_samples([self.samples]),
        }


def measure_calls(
    call: Callable[[int], object],
    clock: Clock,
    rule: Rule = FULL,
    on_sample: Callable[[float], None] = lambda _: None,
    before: Callable[[], object] | None = None,
) -> Timing:
    """Measure ``call``, which gets the number of the call so that it can use other buffers each time.

    With ``before``, which is called in front of every sample and does not count, a sample is a single call.
    """
    number = 0

    def sample(count: int) -> float:
        nonlocal number
        if before is not None:
            before()
        seconds = clock.measure(call, number, count) / count
        number += count
        return seconds

    calls = _calls_per_sample(sample, clock) if before is None else 1
    warm_up, stable = _warm_up(sample, calls, clock, rule)
    samples: list[float] = []
    begin = clock.now()
    while not _enough(samples, clock.now() - begin, rule):
        samples.append(sample(calls))
        on_sample(samples[-1])
    return Timing(samples=samples, warm_up=warm_up, stable=stable, calls_per_sample=calls)


def _calls_per_sample(sample: Callable[[int], float], clock: Clock) -> int:
    """As many as the clock's resolution needs; the first call, which may set things up, does not count."""
    sample(1)
    calls = 1
    while (seconds := sample(calls) * calls) < clock.resolution_s and calls < 2**16:
        calls = max(2 * calls, ceil(calls * clock.resolution_s / max(seconds, 1e-7)))
    return calls


def _warm_up(sample: Callable[[int], float], calls: int, clock: Clock, rule: Rule) -> tuple[int, bool]:
    """Samples until two blocks in a row agree, or time is over: how many, and whether they agreed."""
    taken: list[float] = []
    begin = clock.now()
    while True:
        taken.append(sample(calls))
        if len(taken) >= 2 * rule.block and len(taken) % rule.block == 0:
            before, last = (float(np.median(x)) for x in (taken[-2 * rule.block : -rule.block], taken[-rule.block :]))
            if abs(last / before - 1) <= rule.drift:
                return len(taken), True
        if clock.now() - begin > rule.warm_up_s:
            return len(taken), False


def _enough(samples: Sequence[float], seconds: float, rule: Rule) -> bool:
    if len(samples) >= rule.most or (seconds > rule.longest_s and len(samples) >= max(1, rule.least // 4)):
        return True
    # The interval is looked at now and then only, for sorting takes time.
    if len(samples) < rule.least or len(samples) % 10:
        return False
    low, high = median_interval(samples)
    return high - low <= 2 * rule.precision * float(np.median(samples))


def median_of_runs(runs: Sequence[Sequence[float]]) -> tuple[float, tuple[float, float]]:
    """Return the median of all samples and its 80 % interval.

    Samples of one run scatter around that run's own median; a process more may lie elsewhere. So the interval joins
    that of the pooled median by ranks, and Student's for the mean of the runs' medians, both in the logarithm. What
    takes no time is known.
    """
    pooled = [sample for run in runs for sample in run]
    median = float(np.median(pooled))
    if median <= 0:
        return 0.0, (0.0, 0.0)
    low, high = median_interval(pooled)
    between = _between([float(np.median(run)) for run in runs if run])
    down, up = hypot(log(median / low), between), hypot(log(high / median), between)
    return median, (median * exp(-down), median * exp(up))


def _between(medians: Sequence[float]) -> float:
    """Half-width of the runs' mean in the logarithm; 0 for a single run, which says nothing about others."""
    n = len(medians)
    if n < 2:
        return 0.0
    from scipy.stats import t

    return float(t.ppf(0.5 + INTERVAL / 2, n - 1) * np.std(np.log(medians), ddof=1) / sqrt(n))


def spread_of_samples(runs: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the ends and the outer tenths of all samples."""
    pooled = [sample for run in runs for sample in run]
    least, low, high, most = (float(x) for x in np.quantile(pooled, (0, 0.1, 0.9, 1)))
    return {"min": least, "p10": low, "p90": high, "max": most}
