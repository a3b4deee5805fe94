"""The points of a study: what is varied as arrays, the devices made of technology, and the table of all results."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.exploration.base import possible_points
from sightline.exploration.footprint import Electricity
from sightline.exploration.own.axes import SPLIT, TECHNOLOGY, Axis, Reasons, along, stated_device
from sightline.exploration.own.reports import BOUND, MADE, NO_LEVEL, level_codes, level_names, result_of
from sightline.exploration.own.request import Price, with_prices
from sightline.exploration.study_answer import View
from sightline.loading.checks import Complaints, with_value
from sightline.loading.clusters.cluster import read_cluster
from sightline.loading.clusters.hardware import DEVICE, Values, read_part, stated_fields
from sightline.loading.clusters.technology import read_budget, usual_clock
from sightline.loading.loader import Asked
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Progress
from sightline.scenario import Device, Scenario
from sightline.technology.budget import Budget
from sightline.technology.law import with_area
from sightline.technology.limits import Limit, limits_of
from sightline.technology.synthesis import Made, made_anyway

_FIELDS: Final[Mapping[str, str]] = {
    "die_area": "die_area_m2",
    "dies": "dies",
    "power": "power_w",
    "pin_rate": "pin_rate",
    "memory_capacity": "memory_bytes",
    "enabled": "enabled",
    "frequency": "frequency_hz",
    "voltage": "voltage",
}
"""Numbers of a budget that may be arrays, by key; all other keys make budgets of their own."""
_DEVICE_NUMBERS: Final = (
    *("memory_bytes", "memory_bandwidth", "l2_bytes", "l2_bandwidth"),
    *("compute_units", "vector_flops", "tdp_w", "idle_w"),
)
Array = NDArray[Any]
Around = Mapping[str, NDArray[np.float64]]
"""Values of keys at every point of a study, in place of an axis's own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Devices:
    """The devices of all combinations of the technology axes, along those axes' dimensions among all of a study."""

    fields: Mapping[str, Any]
    """Numbers of the device, rates by dtype among them."""
    links: Array | None
    """Bandwidth inside a node, where the technology states it."""
    possible: Array
    """Where a device can be built."""
    reasons: Sequence[tuple[str, Array]]
    """Why not elsewhere: what exceeds a limit most, and where that limit is exceeded."""
    device: Device
    """The first device, for what is no number."""
    stated: frozenset[str]
    """Fields of the device that the base states next to its technology."""
    stated_peaks: frozenset[str]
    """Dtypes whose peaks it states."""
    made: Mapping[str, Array]
    """Results of making the devices, by their keys."""
    cap_w: Array
    """Power cap."""
    watts: Mapping[str, Array]
    """Power of each part at the peak."""
    clock_share: Array
    """The clock over that without the power cap."""

    def put(self, scenario: Asked, index: tuple[slice, ...], before: int = 0) -> Asked:
        """Return a scenario with the devices of a block, behind ``before`` further dimensions."""

        def behind(array: Array) -> Array:
            part = cut(array, index)
            return part.reshape((1,) * before + part.shape)

        fields: dict[str, Any] = {name: behind(of) for name, of in self.fields.items() if name != "peak_flops"}
        peaks: dict[str, Any] = {dtype: behind(of) for dtype, of in self.fields["peak_flops"].items()}
        base = scenario.cluster.device
        kept = {name: getattr(base, name) for name in self.stated - {"peak_flops"}}
        if "peak_flops" in self.stated:
            peaks |= {dtype: base.peak_flops[dtype] for dtype in self.stated_peaks}
        device = replace(self.device, **{**fields, "usd_per_hour": base.usd_per_hour, "peak_flops": peaks, **kept})
        cluster = replace(scenario.cluster, device=device)
        if self.links is not None:
            cluster = replace(cluster, intra_node=replace(cluster.intra_node, bandwidth=behind(self.links)))
        return replace(scenario, cluster=cluster)


def devices_of(base: Mapping[str, Any], axes: Sequence[Axis], around: Around | None = None) -> Devices | None:
    """Return the devices that a study makes of technology; None where neither its base nor any axis has some.

    Raises:
        InputError: every mistake in what is stated.
    """
    around = around or {}
    places = [i for i, axis in enumerate(axes) if axis.key.startswith(f"{TECHNOLOGY}.")]
    device = stated_device(base)
    if not places and device.get("technology") is None:
        return None
    arrays = [i for i in places if _is_array(axes[i].key)]
    names = [i for i in places if i not in arrays]
    values = {axes[i].key: around.get(axes[i].key, along(axes[i].values, i, len(axes))) for i in arrays}
    own = tuple(len(axes[i].values) if i in names else 1 for i in range(len(axes)))
    shape = np.broadcast_shapes(own, *(array.shape for array in values.values()))
    stacked: dict[tuple[int, ...], _Built] = {}
    below = _below(base)
    for combination in np.ndindex(*(len(axes[i].values) for i in names)):
        mapping = base
        for i, place in zip(names, combination, strict=True):
            mapping = with_value(mapping, axes[i].key, axes[i].values[place])
        at = _place(combination, len(axes), names)
        here = {key: cut(array, at) for key, array in values.items()}
        stacked[combination] = _built(stated_device(mapping).get("technology") or {}, below, here)
    return _joined_devices(stacked, shape, names, device)


def cut(array: Array, index: Sequence[Any]) -> Array:
    """A part of an array that does not have all dimensions in full."""
    return array[tuple(one if n > 1 else slice(None) for one, n in zip(index, array.shape, strict=True))]


def _is_array(key: str) -> bool:
    below = key.removeprefix(f"{TECHNOLOGY}.")
    return below in _FIELDS or below.startswith(SPLIT)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Built:
    """The devices of one combination of names."""

    budget: Budget
    made: Made
    links: Any
    limits: Sequence[Limit]


def _below(base: Mapping[str, Any]) -> Values:
    """The figures of the catalog's device that the technology changes; none where the base names none."""
    cluster = base.get("cluster")
    if isinstance(cluster, Mapping):
        device = cluster.get("device")
        named = device if isinstance(device, str) else device.get("same_as") if isinstance(device, Mapping) else None
        if named is None and isinstance(device, Mapping):
            cluster = {key: value for key, value in cluster.items() if key != "device"}
        try:
            named = named or read_cluster(cluster).device.name
        except InputError:
            return {}
    else:
        named = read_cluster(str(cluster)).device.name
    complaints = Complaints()
    found = read_part(DEVICE, named, None, complaints)
    complaints.raise_any()
    return dict(found or {})


def _built(stated: Mapping[str, Any], below: Values, values: Mapping[str, Array]) -> _Built:
    """The devices of the numbers that are arrays, for one combination of names."""
    own = {key.removeprefix(f"{TECHNOLOGY}."): array for key, array in values.items()}
    numbers = {key: array for key, array in own.items() if not key.startswith(SPLIT)}
    complaints = Complaints()
    first = {key: array.flat[0].item() for key, array in numbers.items()}
    read = read_budget({**stated, **first}, below, TECHNOLOGY, complaints)
    complaints.raise_any()
    if read is None:
        raise InputError(f"{TECHNOLOGY} gives no device")
    fields: dict[str, Any] = {_FIELDS[key]: array for key, array in numbers.items()}
    budget = replace(read.budget, **fields)
    if "frequency" not in read.values:
        budget = replace(budget, frequency_hz=usual_clock(budget, read.die))
    shares = {key.removeprefix(SPLIT): array for key, array in own.items() if key.startswith(SPLIT)}
    if shares:
        budget = with_area(replace(budget, area=None), **{**read.values.get("split", {}), **shares})
    links = read.values.get("link_bandwidth")
    return _Built(budget=budget, made=made_anyway(budget), links=links, limits=limits_of(budget))


def _joined_devices(
    stacked: Mapping[tuple[int, ...], _Built], shape: tuple[int, ...], names: Sequence[int], stated: Mapping[str, Any]
) -> Devices:
    """The devices of all combinations along the dimensions of the names."""
    every = list(stacked.values())
    first = every[0]

    def joined(values: Iterable[Any]) -> Array:
        out = np.empty(shape, dtype=float)
        for combination, one in zip(stacked, values, strict=True):
            out[_place(combination, len(shape), names)] = one
        return _reduced(out)

    numbers = {name: joined(getattr(one.made.device, name) for one in every) for name in _DEVICE_NUMBERS}
    peaks = {
        dtype: joined(one.made.device.peak_flops.get(dtype, np.nan) for one in every)
        for dtype in first.made.device.peak_flops
    }
    possible, reasons = _possible(stacked, shape, names)
    return Devices(
        fields={**numbers, "peak_flops": peaks},
        links=None if any(one.links is None for one in every) else joined(one.links for one in every),
        possible=possible,
        reasons=reasons,
        device=first.made.device,
        stated=stated_fields(DEVICE, stated),
        stated_peaks=frozenset(stated.get("peak_flops") or ()),
        made={key: joined(of(one.budget, one.made) for one in every) for key, of in MADE.items()},
        cap_w=joined(one.budget.power_w for one in every),
        watts={part: joined(one.made.watts[part] for one in every) for part in first.made.watts},
        clock_share=joined(one.made.frequency_hz / one.made.asked_hz for one in every),
    )


def _possible(
    stacked: Mapping[tuple[int, ...], _Built], shape: tuple[int, ...], names: Sequence[int]
) -> tuple[Array, list[tuple[str, Array]]]:
    """Where devices can be built; and what exceeds each limit most, with where it is exceeded."""
    where: dict[tuple[str, int], Array] = {}
    worst: dict[tuple[str, int], tuple[float, str]] = {}
    for at, one in stacked.items():
        seen: Counter[str] = Counter()
        for limit in one.limits:
            name = (limit.reason, seen[limit.reason])
            seen[limit.reason] += 1
            exceeded = np.broadcast_to(limit.exceeded, _shape_at(shape, names))
            if exceeded.any():
                mask = where.setdefault(name, np.zeros(shape, dtype=bool))
                mask[_place(at, len(shape), names)] |= exceeded
                worst[name] = max(worst.get(name, (0.0, "")), _worst(limit))
    impossible = np.zeros(shape, dtype=bool)
    for mask in where.values():
        impossible |= mask
    return ~impossible, [(worst[name][1], mask) for name, mask in where.items()]


def _place(combination: tuple[int, ...], dimensions: int, names: Sequence[int]) -> tuple[Any, ...]:
    at = dict(zip(names, combination, strict=True))
    return tuple(slice(at[i], at[i] + 1) if i in at else slice(None) for i in range(dimensions))


def _shape_at(shape: tuple[int, ...], names: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if i in names else n for i, n in enumerate(shape))


def _reduced(array: Array) -> Array:
    """An array without the dimensions along which nothing changes: what does not depend on a split is priced once."""
    for i in range(array.ndim):
        first = array[tuple(slice(0, 1) if i == j else slice(None) for j in range(array.ndim))]
        if array.shape[i] > 1 and bool(np.all(array == first)):
            array = first
    return array


def _worst(limit: Limit) -> tuple[float, str]:
    """By which factor the worst device exceeds a limit, and what the limit says of it."""
    needed, there = np.broadcast_arrays(limit.needed, limit.there)
    worst = int(np.nanargmax(needed - there))
    need, has = float(needed.ravel()[worst]), float(there.ravel()[worst])
    return need / max(has, 1e-30), replace(limit, needed=need, there=has).sentence


def count_reasons(devices: Devices, shape: tuple[int, ...], reasons: Reasons) -> None:
    """Count the points of a study whose device cannot be built, for the first reason that each has."""
    left = np.ones(devices.possible.shape, dtype=bool)
    each = int(np.prod(shape)) // devices.possible.size
    for sentence, where in devices.reasons:
        count = int(np.count_nonzero(where & left))
        if count:
            at_worst = "at worst, " if count > 1 else ""
            reasons.add(f"{TECHNOLOGY}: {at_worst}{sentence}", count * each)
        left &= ~where


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
        raise TypeError(f"{axis.key} is not a number")
    if not axis.is_multiple:
        return key.put(scenario, values)
    number = key.get(base)
    if number is None:
        raise InputError(f"axes.{axis.key} has multiples, but {base.cluster.device.name} does not state this number")
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
