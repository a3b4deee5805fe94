"""Devices searched together with plans: shares of the die and stacks of memory that a study leaves open.

Each is an axis that the answer does not have: at every point of the others the best device that can be built is taken.
"""

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.cells import Reasons
from sightline.exploration.own.points.mesh import Points

_FAR: Final = 1e30
"""Seconds that are added to those of a device whose plan does not fit."""
NONE_IS_POSSIBLE: Final = "no device of the search can be built and has a plan"


def best_designs(points: Points, searched: Sequence[Axis], whole: str, reasons: Reasons) -> Points:
    """Return the points of the other axes, each with its fastest device; points without any are counted.

    The searched axes are the last ones of ``points``.
    """
    if not searched:
        return points
    kept = points.shape[: len(points.shape) - len(searched)]
    flat = {name: column.reshape(*kept, -1) for name, column in points.columns.items()}
    seconds = flat[whole]
    if "fits" in flat:
        seconds = np.where(flat["fits"] == 0.0, _FAR + seconds, seconds)
    seconds = np.where(np.isnan(seconds), np.inf, seconds)
    place = seconds.argmin(axis=-1)[..., np.newaxis]
    none = ~np.isfinite(np.take_along_axis(seconds, place, axis=-1)[..., 0])
    found = Points(shape=kept, done=np.asarray(points.done.reshape(*kept, -1).all(axis=-1)))
    for name, column in flat.items():
        found.columns[name] = np.take_along_axis(column, place, axis=-1)[..., 0]
    lengths = [len(axis.values) for axis in searched]
    for axis, at in zip(searched, np.unravel_index(place[..., 0], lengths), strict=True):
        found.columns[axis.key] = np.where(none, np.nan, np.asarray(axis.values, dtype=float)[at])
    if count := int(np.count_nonzero(none & found.done)):
        reasons.add(NONE_IS_POSSIBLE, count)
    return found


def devices_each(searched: Sequence[Axis]) -> int:
    """Return how many devices are tried at each point."""
    return prod(len(axis.values) for axis in searched)
