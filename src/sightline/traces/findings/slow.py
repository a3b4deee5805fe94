"""A collective that takes far longer than others of its kind and size, or than its bytes need on any link."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sightline.traces.breakdown import Breakdown

_FAR = 5
"""Times the median of its kind and size from which on a collective is slow."""
_LEAST = 0.02
"""Share of the step that slow collectives have to take."""
_SLOW_LINK, _START_NS = 5.0, 200_000
"""Bytes per nanosecond (5 GB/s, half of 100 Gbit/s Ethernet) and nanoseconds that suffice for nearly any collective."""
_ELEMENT_BYTES, _ALGORITHM = 4, 2
"""At most: of 32-bit numbers, all-reduced in a ring."""


class SlowCollective(NamedTuple):
    """The one that costs most."""

    kind: str
    """all-reduce, all-gather, ..."""
    found: int
    """How many of these there are in all steps that count."""
    each_ns: float
    usual_ns: float
    """The median of its kind and size; 0 where there are no others to compare with and its bytes are what is known."""
    size: int
    """Elements; -1 unknown."""
    extra_ns: float
    """What they take longer than usual, of a mean step."""


def slow_collective(ranks: Sequence[Breakdown]) -> SlowCollective | None:
    """Return the slow collectives that cost most, of one kind and size on one rank; None where none is slow."""
    found = [one for rank in ranks for one in _of_rank(rank)]
    return max(found, key=lambda one: one.extra_ns, default=None)


def _of_rank(rank: Breakdown) -> list[SlowCollective]:
    pieces, found = rank.activity.communication, []
    pieces = pieces.where(rank.steps.holds(pieces.start))
    kinds = np.array([key.work.operator for key in rank.activity.keys], object)[pieces.key]
    # Slow transfers are waits for other stages, or counted as what nobody knows the cause of.
    for kind in sorted(set(kinds.tolist()) - {"send-recv"}):
        for size in np.unique(pieces.size[kinds == kind]).tolist():
            own = (kinds == kind) & (pieces.size == size)
            length = (pieces.end - pieces.start)[own].astype(np.float64)
            median = float(np.median(length))
            is_slow, usual = length > _FAR * median, median
            if not is_slow.any() and size >= 0:
                enough = _START_NS + _ALGORITHM * _ELEMENT_BYTES * size / _SLOW_LINK
                is_slow, usual = length > _FAR * enough, 0.0
            extra = float((length[is_slow] - usual).sum()) / len(rank.steps.counted)
            if extra > _LEAST * rank.whole_ns:
                found.append(
                    SlowCollective(kind, int(is_slow.sum()), float(length[is_slow].mean()), usual, int(size), extra)
                )
    return found
