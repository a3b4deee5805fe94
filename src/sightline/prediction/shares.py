"""How replicas on unlike devices share a batch: in whole micro-batches or sequences, so that all end together."""

from collections.abc import Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
"""``t[k - 1]``: seconds of a step of ``k`` micro-batches on every replica of a group."""
FEWEST_SHARES = 64
"""Shares next to the one proportional to speed that are tried, at least."""


def balanced_shares(replicas: Sequence[int], seconds: Sequence[Seconds], whole: int) -> tuple[int, ...] | None:
    """Return the micro-batches that each replica of a group takes, so that the slowest group ends first.

    ``whole`` micro-batches are shared by groups of so many ``replicas``, which all take at least one; None where they
    cannot be. Where there are very many, shares near those that are proportional to speed are tried.
    """
    near = _proportional(replicas, seconds, whole)
    unit = gcd(*replicas)
    if whole % unit:
        return None
    ends: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for count, times, middle in zip(replicas, seconds, near, strict=True):
        window = max(FEWEST_SHARES, 2 * max(replicas) // unit)
        shares = range(max(1, middle - window), min(len(times), middle + window) + 1)
        reached: dict[int, tuple[float, tuple[int, ...]]] = {}
        for taken, (end_s, chosen) in ends.items():
            for share in shares:
                total = taken + share * count
                if total > whole:
                    break
                later_s = max(end_s, float(times[share - 1]))
                if total not in reached or later_s < reached[total][0]:
                    reached[total] = (later_s, (*chosen, share))
        ends = reached
    return ends[whole][1] if whole in ends else None


def _proportional(replicas: Sequence[int], seconds: Sequence[Seconds], whole: int) -> list[int]:
    """Whole micro-batches next to those with which all groups would end together."""
    speeds = [len(times) / float(times[-1]) for times in seconds]
    all_speeds = sum(speed * count for speed, count in zip(speeds, replicas, strict=True))
    return [max(1, round(whole * speed / all_speeds)) for speed in speeds]
