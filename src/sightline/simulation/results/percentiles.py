"""Percentiles: exact from values, and from a histogram to the width of its bins."""

import numpy as np

from sightline.simulation.requests import Floats, Integers


def of_values(ordered: Floats, share: float) -> float:
    """Return the value that ``share`` of the ``ordered`` values do not exceed, interpolated between two of them.

    NumPy's and the common load generators' definition: place (n - 1) x share among the sorted values.
    """
    place = share * (ordered.size - 1)
    below = int(place)
    above = min(below + 1, ordered.size - 1)
    return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))


def of_histogram(counts: Integers, edges: Floats, share: float) -> float:
    """Return the same of values that are known by bin only: as if those of a bin lay evenly in its logarithm.

    Both values that the place lies between are known to the width of their bins, however far these are apart. NaN
    without any values.
    """
    running = np.cumsum(counts)
    if not running.size or running[-1] == 0:
        return float("nan")
    place = share * (running[-1] - 1)
    ranks = np.array([np.floor(place), np.ceil(place)])
    at = np.searchsorted(running, ranks, side="right")
    within = (ranks - (running[at] - counts[at]) + 0.5) / counts[at]
    below, above = edges[at] * (edges[at + 1] / edges[at]) ** within
    return float(below + (place - ranks[0]) * (above - below))
