"""Pareto fronts of two figures that are to be small: which points lie on one, and which of many are shown."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def front_of(figures: Floats) -> NDArray[np.intp]:
    """Return the places of the Pareto-optimal points, in order of the first figure; of equal ones the first.

    ``figures`` has a column for each point. Points without a finite figure are on no front.
    """
    first, second = figures
    order = np.lexsort((second, first))
    before = np.minimum.accumulate(np.concatenate([[np.inf], second[order]]))[:-1]
    best: NDArray[np.intp] = order[(second[order] < before) & np.isfinite(first[order])]
    return best


def dominated(figures: Floats, by: Floats) -> NDArray[np.bool_]:
    """Return which points another set of points dominates: as good in both figures or better."""
    first, second = by[:, front_of(by)]
    if not len(first):
        return np.zeros(figures.shape[1], dtype=bool)
    place = np.searchsorted(first, figures[0], side="right") - 1
    found: NDArray[np.bool_] = (place >= 0) & (second[np.maximum(place, 0)] <= figures[1])
    return found


def spread_over(figures: Sequence[tuple[float, float]], count: int) -> list[int]:
    """Return the places of so many points of a front in order: both ends, and others as evenly as they lie.

    Of points whose two figures are the same to three digits the first stands for all.
    """
    seen = dict[tuple[str, str], int]()
    for place, (x, y) in enumerate(figures):
        seen.setdefault((f"{x:.3g}", f"{y:.3g}"), place)
    kept = list(seen.values())
    if len(kept) <= count:
        return kept
    points = np.array([figures[place] for place in kept])
    extent = np.ptp(points, axis=0)
    steps = np.hypot(*(np.diff(points, axis=0) / np.where(extent > 0, extent, 1.0)).T)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    chosen: list[int] = []
    for i, target in enumerate(np.linspace(0.0, along[-1], count)):
        # Points are left for the places that follow.
        first, last = (chosen[-1] + 1 if chosen else 0), len(kept) - (count - i)
        chosen.append(first + int(np.argmin(np.abs(along[first : last + 1] - target))))
    return [kept[place] for place in chosen]
