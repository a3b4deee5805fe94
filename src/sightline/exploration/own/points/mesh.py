"""All points of the axes that are numbers, as arrays in few predictions.

Each axis lies along a dimension of its own (an open mesh), so that an operator is priced once for each distinct shape
and device, and the whole grid is touched in the last steps only. Points are worked out in blocks that stay in a core's
cache; blocks are cut along the device's axes, of which no price is shared, before others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.footprint import Electricity
from sightline.exploration.mesh import possible_points
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.cells import Reasons
from sightline.exploration.own.asked.reports import BOUND, NO_LEVEL, level_codes, result_of
from sightline.exploration.own.points.variation import Index, Variation, with_replicas
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Progress

POINTS_PER_BLOCK: Final = 1 << 16
"""512 KiB per array: more lose the cache, fewer price the same operators again."""


@dataclass(slots=True, kw_only=True, eq=False)
class Points:
    """Columns of all points of a cell, each in the shape of the axes."""

    shape: tuple[int, ...]
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    done: NDArray[np.bool_]
    """Points that were worked out before somebody stopped it."""

    def put(self, index: Index, name: str, values: Any) -> None:
        """Put the values of a block into a column."""
        values = np.asarray(values)
        column = self.columns.get(name)
        if column is None:
            none: Any = NO_LEVEL if values.dtype.kind == "i" else np.nan
            column = self.columns[name] = np.full(self.shape, none, dtype=values.dtype)
        column[index] = values

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Points that were worked out and fit, as far as that is known."""
        return self.done & (self.columns["fits"] == 1.0) if "fits" in self.columns else self.done


def points_of(axes: Sequence[Axis]) -> Points:
    """Return a table of all points, none of them worked out."""
    shape = tuple(len(axis.values) for axis in axes)
    return Points(shape=shape, done=np.zeros(shape, dtype=bool))


def blocks(axes: Sequence[Axis], most: int = POINTS_PER_BLOCK) -> Iterator[Index]:
    """Yield parts of an open mesh with up to ``most`` points; the device's axes are cut first.

    Of those, what is searched of a device is cut last, so that points are finished one after the other.
    """
    lengths = [len(axis.values) for axis in axes]
    sizes = list(lengths)
    of_device = [axis.number is not None and axis.number.of_device for axis in axes]
    for i in sorted(range(len(axes)), key=lambda i: (not of_device[i], axes[i].is_searched, -lengths[i])):
        others = prod(sizes) // sizes[i]
        sizes[i] = min(sizes[i], max(1, most // others))
    starts = [range(0, length, size) for length, size in zip(lengths, sizes, strict=True)]
    for corner in product(*starts):
        yield tuple(slice(start, start + size) for start, size in zip(corner, sizes, strict=True))


def evaluate(
    varied: Variation, keys: Sequence[str], *, replicas_stated: bool, reasons: Reasons, progress: Progress
) -> Points:
    """Return the results of every point.

    Args:
        varied: What is varied; the micro-batch of a training step is known, or an axis.
        keys: Result keys.
        replicas_stated: Whether the base states data parallelism, so that degrees do not change it.
        reasons: Counts the points that cannot be, by why.
        progress: Told of every block.
    """
    points = points_of(varied.axes)
    for index in blocks(varied.axes):
        if progress.cancelled:
            break
        scenario = with_replicas(varied.at(index), varied.axes, stated=replicas_stated)
        shape = points.done[index].shape
        with np.errstate(all="ignore"):  # points that cannot be are worked out too
            buildable = varied.buildable(index)
            possible = np.broadcast_to(buildable, shape)
            if not all(axis.key.startswith("cluster.") for axis in varied.axes):
                possible = possible_points(scenario, possible, reasons.add)
            put_profile(points, index, predict(scenario), keys, possible, varied.electricity)
        points.done[index] = True
        progress.advance(prod(shape))
    return points


def put_profile(
    points: Points, index: Index, profile: Profile, keys: Sequence[str], possible: Any, electricity: Electricity
) -> None:
    """Put a profile's results into a block of the table; where a point cannot be, it has none."""
    everywhere = bool(np.all(possible))
    for key in keys:
        value = result_of(profile, key, electricity)
        values = np.nan if value is None else np.asarray(value, dtype=float)
        points.put(index, key, values if everywhere else np.where(possible, values, np.nan))
    if profile.fits is not None:
        fits = np.asarray(profile.fits, dtype=float)
        points.put(index, "fits", fits if everywhere else np.where(possible, fits, np.nan))
    codes = level_codes(profile)
    points.put(index, BOUND, codes if everywhere else np.where(possible, codes, np.int8(NO_LEVEL)))
