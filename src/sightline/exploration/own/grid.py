"""All points of the axes that are numbers, as arrays in few predictions.

Each axis lies along a dimension of its own (an open mesh), so that an operator is priced once for each distinct shape
and device, and the whole grid is touched in the last steps only. Points are worked out in blocks that stay in a core's
cache; blocks are cut along the device's axes, of which no price is shared, before others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.exploration.answer import View
from sightline.exploration.base import possible_points
from sightline.exploration.footprint import Electricity
from sightline.exploration.own.axes import Axis, Reasons, along
from sightline.exploration.own.numbers import TECHNOLOGY
from sightline.exploration.own.reports import BOUND, NO_LEVEL, level_codes, level_names, result_of
from sightline.exploration.own.request import Price, with_prices
from sightline.exploration.own.technology import Devices, cut
from sightline.loading.loader import Asked
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.scenario import Scenario

DEGREES: Final = ("plan.tensor_parallel", "plan.pipeline_parallel", "plan.context_parallel")
Index = tuple[slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variation:
    """A scenario and what is varied of it: every point of the axes."""

    base: Asked
    axes: Sequence[Axis]
    prices: Sequence[Price] = ()
    """What numbers add to a device's rent."""
    electricity: Electricity = field(default_factory=Electricity)
    """What carbon is worked out with."""
    devices: Devices | None = None
    """Those that technology axes make; None without any."""

    def at(self, index: Index, before: int = 0) -> Asked:
        """Return the scenario of a block: each number of an axis as an array along its dimension.

        ``before`` are dimensions of plans that come before those of the axes.
        """
        base = self.base if self.devices is None else self.devices.put(self.base, index, before)
        scenario = base
        for i, (axis, part) in enumerate(zip(self.axes, index, strict=True)):
            if not axis.key.startswith(TECHNOLOGY):
                values = along(axis.values[part], before + i, before + len(self.axes))
                scenario = _put(scenario, base, axis, values)
        return with_prices(scenario, self.base, self.prices)

    def buildable(self, index: Index) -> Any:
        """Return which points of a block have a device that can be built."""
        if self.devices is None:
            return True
        return cut(self.devices.possible, index)


def _put(scenario: Asked, base: Asked, axis: Axis, values: NDArray[np.float64]) -> Asked:
    """The scenario with the values of an axis."""
    key = axis.number
    if key is None:
        raise TypeError(f"{axis.key} is no number")
    if not axis.is_multiple:
        return key.put(scenario, values)
    number = key.get(base)
    if number is None:
        raise InputError(f"axes.{axis.key} has multiples of a number that {base.cluster.device.name} lacks")
    if isinstance(number, Mapping):
        return key.put(scenario, {dtype: rate * values for dtype, rate in number.items()})
    return key.put(scenario, number * values)


def with_replicas(scenario: Asked, axes: Sequence[Axis], *, stated: bool) -> Asked:
    """Return a training scenario whose replicas take the devices that varied degrees leave, unless they are stated."""
    keys = {axis.key for axis in axes}
    if stated or not isinstance(scenario, Scenario) or not keys & set(DEGREES):
        return scenario
    plan = scenario.plan
    ranks: Any = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel
    return replace(scenario, plan=replace(plan, data_parallel=scenario.cluster.devices / ranks))


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


def as_scalars(value: Any) -> Any:
    """Return a description with the only element of each array in its place; whole numbers stay whole."""
    if isinstance(value, np.ndarray):
        number = value.item()
        return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 1e9 else number
    if isinstance(value, Mapping):
        return {key: as_scalars(one) for key, one in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {name: as_scalars(one) for name, one in fields_of(value).items() if _holds_arrays(one)}
    return replace(value, **changed) if changed else value


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, Mapping):
        return any(map(_holds_arrays, value.values()))
    return is_dataclass(value) and any(map(_holds_arrays, fields_of(value).values()))


Column = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The points of one cell in one view."""

    view: View
    values: Mapping[str, Any]
    """Of each axis that is no number."""
    numbers: Mapping[str, Sequence[float]]
    """Of each that is, in SI units, in the order of the points' dimensions."""
    points: Points | None
    """None where the cell cannot be."""
    devices: Devices | None = None
    """Those that are made of technology at every point; None without any, and where they are searched."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes that are numbers."""
        return tuple(map(len, self.numbers.values()))


def columns_of(
    parts: Sequence[Part], axes: Sequence[Axis], keys: Sequence[str], *, has_views: bool
) -> dict[str, Column]:
    """Return the table of all points that were worked out: views, axes, plans that were searched, results, verdicts."""
    searched = ("plan.", "cluster.")
    names = [name for part in parts if part.points for name in part.points.columns]
    plans = dict.fromkeys(name for name in names if name.startswith(searched))
    axis_keys = [axis.key for axis in axes]
    has_memory = any(part.points is not None and "fits" in part.points.columns for part in parts)
    names = [*plans, *keys, *(["fits"] if has_memory else []), BOUND]
    columns = {"view": [np.full(_count(part), part.view) for part in parts]} if has_views else {}
    columns |= {key: [_axis(part, key) for part in parts] for key in axis_keys}
    columns |= {name: [_result(part, name) for part in parts] for name in names if name not in axis_keys}
    table = {name: _joined(pieces) for name, pieces in columns.items()}
    table |= {name: _whole(name, table[name]) for name in plans}
    return table | ({"fits": _verdicts(table["fits"])} if has_memory else {})


def _done(part: Part) -> NDArray[np.bool_]:
    return np.ones(part.shape, dtype=bool).ravel() if part.points is None else part.points.done.ravel()


def _count(part: Part) -> int:
    return int(np.count_nonzero(_done(part)))


def _axis(part: Part, key: str) -> Column:
    """A value of an axis for every point of a part."""
    done = _done(part)
    if key in part.values:
        out = np.empty(int(np.count_nonzero(done)), dtype=object)
        out[:] = [part.values[key]] * len(out)
        return out
    dimension = list(part.numbers).index(key)
    values = np.asarray(part.numbers[key])
    along = values.reshape([-1 if i == dimension else 1 for i in range(len(part.shape))])
    return np.broadcast_to(along, part.shape).ravel()[done]


def _result(part: Part, name: str) -> Column:
    """A result of every point; NaN, or no word, where a cell has none."""
    done = _done(part)
    column = None if part.points is None else part.points.columns.get(name)
    if column is None:
        return np.full(int(np.count_nonzero(done)), "" if name == BOUND else np.nan)
    found = column.ravel() if done.all() else column.ravel()[done]
    return level_names(found) if name == BOUND else found


def _joined(pieces: Sequence[Column]) -> Column:
    """Columns below each other: of words where one has words."""
    if len(pieces) == 1:
        return pieces[0] if pieces[0].dtype.kind != "O" else _plain(pieces[0])
    if any(piece.dtype.kind == "U" for piece in pieces):
        pieces = [piece if piece.dtype.kind in "UO" else np.full(len(piece), "") for piece in pieces]
    return _plain(np.concatenate(pieces))


def _plain(column: Column) -> Column:
    """A column of objects as numbers or words where all of them are."""
    if column.dtype.kind != "O" or not len(column):
        return column
    kinds = {type(one) for one in column}
    if kinds <= {str}:
        return column.astype(str)
    return column.astype(float) if float in kinds and kinds <= {int, float} else column


def _whole(name: str, column: Column) -> Column:
    """A field of plans as whole numbers, or true and false, where all rows have one."""
    if column.dtype.kind != "f" or np.isnan(column).any() or (column % 1).any():
        return column
    return column.astype(bool) if name == "plan.sequence_parallel" else column.astype(int)


def _verdicts(fits: Column) -> Column:
    """Whether points fit as true and false; None where a point is none."""
    unknown = np.isnan(fits)
    if not unknown.any():
        return fits.astype(bool)
    out: Column = (fits == 1.0).astype(object)
    out[unknown] = None
    return out
