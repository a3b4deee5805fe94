"""Two servers under the same load, request by request: what both served is compared, so that the load cancels out."""

from collections.abc import Callable, Iterator, Mapping
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from sightline.explanation.side import EXACT, Figure, Spread
from sightline.profile import SERVING
from sightline.simulation.load import Floats
from sightline.simulation.outcome import Outcome
from sightline.simulation.replay import STATISTICS
from sightline.simulation.results.times import student, times_of

PARTS = 20
"""Consecutive parts of the load that are left out one by one."""
FEWEST = 2 * PARTS
"""Requests from which on that says something; of fewer a ratio may be off by a factor of two."""
EIGHT_IN_TEN = (0.1, 0.9)


class Pair(NamedTuple):
    """A statistic of the same requests at both servers."""

    quantity: str
    a: Figure
    b: Figure
    spread: Spread
    """Of b / a: what the length of the load leaves open."""


def is_same_load(a: Outcome | None, b: Outcome | None) -> bool:
    """Return whether both served requests of the same lengths in the same order."""
    if a is None or b is None or len(a.requests) != len(b.requests) or not len(a.requests):
        return False
    return all(
        bool((getattr(a.requests, name) == getattr(b.requests, name)).all())
        for name in ("prompt_tokens", "output_tokens")
    )


def pairs(a: Outcome, b: Outcome) -> Iterator[Pair]:
    """Yield mean and percentiles of every time over the requests that both completed."""
    for key, (first, second) in _both(a, b).items():
        for name, statistic in STATISTICS.items():
            one, other = statistic(first), statistic(second)
            if one > 0 and other > 0:
                spread = _spread(first, second, statistic)
                yield Pair(f"{key}.{name}", Figure(one, EXACT), Figure(other, EXACT), spread)


def in_words(a: Outcome, b: Outcome) -> str:
    """Return how the times of single requests differ, as a sentence; empty where no request was completed by both."""
    ratios = {key: second / np.maximum(first, np.finfo(float).tiny) for key, (first, second) in _both(a, b).items()}
    ends = {key: np.quantile(ratio, EIGHT_IN_TEN) for key, ratio in ratios.items()}
    said = [f"{SERVING.metrics[key].label} {low:.3g} to {high:.3g}" for key, (low, high) in ends.items()]
    count = max((ratio.size for ratio in ratios.values()), default=0)
    return f"B / A of 8 in 10 of {count:,} requests, one by one: {', '.join(said)}" if said else ""


def _both(a: Outcome, b: Outcome) -> Mapping[str, tuple[Floats, Floats]]:
    """By time: seconds of each request that both completed."""
    found = {}
    first, second = times_of(a), times_of(b)
    for key, seconds in first.items():
        both = ~np.isnan(seconds) & ~np.isnan(second[key])
        if both.any():
            found[key] = seconds[both], second[key][both]
    return found


def _spread(a: Floats, b: Floats, statistic: Callable[[Floats], float]) -> Spread:
    """The spread of the ratio of a statistic, by leaving out one part of the load after the other (the jackknife).

    Requests wait in one queue, so that neighbours resemble each other; parts hardly do (Miller, Biometrika 1974, 61:1).
    """
    if a.size < FEWEST:
        return Spread(log(2.0), log(2.0))
    part = np.arange(a.size) * PARTS // a.size
    left = [(statistic(a[part != one]), statistic(b[part != one])) for one in range(PARTS)]
    ratios = np.array([log(other / one) for one, other in left if one > 0 and other > 0])
    half = student(PARTS - 1) * sqrt((PARTS - 1) / PARTS * float(np.square(ratios - ratios.mean()).sum()))
    return Spread(half, half)
