"""Axes of the tables of iteration times: every integer first, then a fixed number of points per doubling.

``bits`` is the logarithm to base 2 of the points ``P`` of a doubling. Up to ``2 P`` every integer is a point; from
there the ``j``-th doubling has a point at every ``2^j``-th integer. Where a number lies follows from its exponent.
"""

import math

import numpy as np

from sightline.simulation.compiled import entry
from sightline.simulation.requests import Floats


def axis_points(limit: float, bits: int) -> Floats:
    """Return the points from 0 to ``limit`` and to the first beyond it."""
    p = 1 << bits
    doubling = max(math.frexp(limit)[1] - 1 - bits, 0)
    index = np.arange(math.floor(p * doubling + limit / 2.0**doubling) + 2)
    doublings = np.maximum(index // p - 1, 0)
    points: Floats = np.ldexp(1.0 * (index - p * doublings), doublings)
    return points


@entry
def place_on(bits: int, size: int, x: float) -> tuple[int, float]:
    """Return where ``x`` lies on an axis of ``size`` points: the point before it, and the share of the way to the next.

    Beyond the last point the share grows beyond 1: what is read there goes on in a straight line.
    """
    doubling = math.frexp(x)[1] - 1 - bits
    position = x if doubling <= 0 else (1 << bits) * doubling + math.ldexp(x, -doubling)
    before = min(int(position), size - 2)
    return before, position - before
