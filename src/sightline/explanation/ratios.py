"""The ratio of two uncertain figures: its interval, and whether there is a difference at all."""

from math import exp, hypot, log
from statistics import NormalDist
from typing import NamedTuple

INTERVAL, CERTAINTY = 0.8, 0.99
"""Probability that a figure's interval holds it, and with which a difference is called one: a table has many rows, and
one in five would seem to have changed if its 80 % interval decided."""
WIDER = NormalDist().inv_cdf(0.5 + CERTAINTY / 2) / NormalDist().inv_cdf(0.5 + INTERVAL / 2)
RUN_TO_RUN, BUSY = 0.01, 0.1
"""Half-widths of the error that samples of one measurement do not show, natural logarithm: another process
finds other memory and another clock, and shares a busy machine with others."""
SAME = 1e-3
"""Two figures without any noise are the same up to this."""


class Spread(NamedTuple):
    """Distances from a figure to the ends of its 80 % interval, in its natural logarithm."""

    down: float
    up: float

    @property
    def mirrored(self) -> "Spread":
        """That of the figure's reciprocal."""
        return Spread(self.up, self.down)

    def joined(self, other: "Spread") -> "Spread":
        """With an independent error added."""
        return Spread(hypot(self.down, other.down), hypot(self.up, other.up))


EXACT, ANOTHER_RUN, ANOTHER_BUSY_RUN = (Spread(width, width) for width in (0.0, RUN_TO_RUN, BUSY))


def spread_of(value: float, ends: tuple[float, float] | None) -> Spread | None:
    """Return the spread that an interval's ends say; None where they say nothing."""
    if ends is None or value <= 0 or not 0 < ends[0] <= ends[1]:
        return None
    return Spread(max(log(value / ends[0]), 0.0), max(log(ends[1] / value), 0.0))


def ratio_spread(a: Spread, b: Spread) -> Spread:
    """Return the spread of b / a of independent figures.

    Each end of the ratio joins the ends of both that lead there, by the root of the squares of their distances in the
    logarithm (MOVER: Donner and Zou, Statistics in Medicine 2002, 21:1841; no distribution is assumed).
    """
    return Spread(hypot(b.down, a.up), hypot(b.up, a.down))


def interval_of(ratio: float, spread: Spread) -> tuple[float, float]:
    """Return the 80 % interval of a ratio."""
    return ratio * exp(-spread.down), ratio * exp(spread.up)


def difference(ratio: float, spread: Spread) -> int:
    """Return 1 where b is certainly larger than a, -1 where it is smaller, 0 where no difference is found."""
    reach = log(ratio)
    if reach > max(WIDER * spread.down, SAME):
        return 1
    return -1 if -reach > max(WIDER * spread.up, SAME) else 0
