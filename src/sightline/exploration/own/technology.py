"""Axes of a device's technology: all devices that nodes, memories, areas and splits make, as one of arrays.

What is a name or changes what others default to (node, memory, stacks, ...) makes a budget of its own; the numbers of
a budget (areas, power, shares, ...) are arrays in it. The devices of all budgets are stacked along their axes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.exploration.own.axes import Axis, Reasons, along
from sightline.exploration.own.numbers import SPLIT, TECHNOLOGY, stated_device
from sightline.exploration.own.reports import MADE
from sightline.loading.checks import Complaints, with_value
from sightline.loading.clusters.cluster import read_cluster
from sightline.loading.clusters.hardware import DEVICE, Values, read_part, stated_fields
from sightline.loading.clusters.technology import read_budget, usual_clock
from sightline.loading.loader import Asked
from sightline.scenario import Device
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
    return _joined(stacked, shape, names, device)


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
        raise InputError(f"{TECHNOLOGY} makes no device")
    fields: dict[str, Any] = {_FIELDS[key]: array for key, array in numbers.items()}
    budget = replace(read.budget, **fields)
    if "frequency" not in read.values:
        budget = replace(budget, frequency_hz=usual_clock(budget, read.die))
    shares = {key.removeprefix(SPLIT): array for key, array in own.items() if key.startswith(SPLIT)}
    if shares:
        budget = with_area(replace(budget, area=None), **{**read.values.get("split", {}), **shares})
    links = read.values.get("link_bandwidth")
    return _Built(budget=budget, made=made_anyway(budget), links=links, limits=limits_of(budget))


def _joined(
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
