"""Axes of a device's technology: all devices that nodes, memories, areas and splits make, as one of arrays.

What is a name or changes what others default to (node, memory, stacks, ...) makes a budget of its own; the numbers of
a budget (areas, power, shares, ...) are arrays in it. The devices of all budgets are stacked along their axes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.exploration.own.asked.axes import Axis, along
from sightline.exploration.own.asked.cells import Reasons
from sightline.exploration.own.asked.numbers import SPLIT, TECHNOLOGY
from sightline.loading.clusters.cluster import read_cluster
from sightline.loading.clusters.hardware import DEVICE, Values, read_part
from sightline.loading.clusters.technology import read_budget
from sightline.loading.input.checks import Complaints
from sightline.loading.input.dotted_keys import with_value
from sightline.loading.possible import Asked
from sightline.scenario import Device
from sightline.technology.law import with_area
from sightline.technology.limits import Limit, limits_of
from sightline.technology.synthesis import made_anyway

_FIELDS: Final[Mapping[str, str]] = {
    "die_area": "die_area_m2",
    "dies": "dies",
    "power": "power_w",
    "pin_rate": "pin_rate",
    "memory_capacity": "memory_bytes",
    "enabled": "enabled",
    "frequency": "frequency_hz",
}
"""Numbers of a budget that may be arrays, by key; all other keys make budgets of their own."""
_DEVICE_NUMBERS: Final = (
    *(
        "memory_bytes",
        "memory_bandwidth",
        "l2_bytes",
        "l2_bandwidth",
        "compute_units",
        "vector_flops",
        "tdp_w",
        "idle_w",
    ),
)
Array = NDArray[Any]


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

    def put(self, scenario: Asked, index: tuple[slice, ...], before: int = 0) -> Asked:
        """Return a scenario with the devices of a block, behind ``before`` further dimensions."""

        def part(array: Array) -> Array:
            own = tuple(one if n > 1 else slice(None) for one, n in zip(index, array.shape, strict=True))
            cut = array[own]
            return cut.reshape((1,) * before + cut.shape)

        fields: dict[str, Any] = {name: part(of) for name, of in self.fields.items() if name != "peak_flops"}
        peaks = {dtype: part(of) for dtype, of in self.fields["peak_flops"].items()}
        own = replace(self.device, usd_per_hour=scenario.cluster.device.usd_per_hour)
        device = replace(own, peak_flops=peaks, **fields)
        cluster = replace(scenario.cluster, device=device)
        if self.links is not None:
            cluster = replace(cluster, intra_node=replace(cluster.intra_node, bandwidth=part(self.links)))
        return replace(scenario, cluster=cluster)


def devices_of(base: Mapping[str, Any], axes: Sequence[Axis]) -> Devices | None:
    """Return the devices that the technology axes of a study make over its base; None without any such axis.

    Raises:
        InputError: every mistake in what is stated.
    """
    places = [i for i, axis in enumerate(axes) if axis.key.startswith(f"{TECHNOLOGY}.")]
    if not places:
        return None
    arrays = [i for i in places if _is_array(axes[i].key)]
    names = [i for i in places if i not in arrays]
    shape = tuple(len(axes[i].values) if i in places else 1 for i in range(len(axes)))
    stacked: dict[tuple[int, ...], _Built] = {}
    below = _below(base)
    for combination in np.ndindex(*(len(axes[i].values) for i in names)):
        mapping = base
        for i, place in zip(names, combination, strict=True):
            mapping = with_value(mapping, axes[i].key, axes[i].values[place])
        stacked[combination] = _built(mapping, below, axes, arrays)
    return _joined(stacked, shape, names)


def _is_array(key: str) -> bool:
    below = key.removeprefix(f"{TECHNOLOGY}.")
    return below in _FIELDS or below.startswith(SPLIT)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Built:
    """The devices of one combination of names."""

    device: Device
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


def _built(mapping: Mapping[str, Any], below: Values, axes: Sequence[Axis], arrays: Sequence[int]) -> _Built:
    """The devices of the numbers that are arrays, for one combination of names."""
    cluster: Any = mapping.get("cluster")
    device = cluster.get("device") if isinstance(cluster, Mapping) else None
    stated = dict(device["technology"]) if isinstance(device, Mapping) and "technology" in device else {}
    own = {axes[i].key.removeprefix(f"{TECHNOLOGY}."): i for i in arrays}
    given = {key: axes[i].values[0] for key, i in own.items() if not key.startswith(SPLIT)}
    complaints = Complaints()
    read = read_budget({**stated, **given}, below, TECHNOLOGY, complaints)
    complaints.raise_any()
    if read is None:
        raise InputError(f"{TECHNOLOGY} makes no device")
    budget, _, values = read
    arrayed = {key: along(axes[i].values, i, len(axes)) for key, i in own.items()}
    fields: dict[str, Any] = {_FIELDS[key]: arrayed[key] for key in given}
    budget = replace(budget, **fields)
    shares = {key.removeprefix(SPLIT): array for key, array in arrayed.items() if key.startswith(SPLIT)}
    if shares:
        budget = with_area(replace(budget, area=None), **{**values.get("split", {}), **shares})
    return _Built(device=made_anyway(budget).device, links=values.get("link_bandwidth"), limits=limits_of(budget))


def _joined(stacked: Mapping[tuple[int, ...], _Built], shape: tuple[int, ...], names: Sequence[int]) -> Devices:
    """The devices of all combinations along the dimensions of the names."""
    first = next(iter(stacked.values()))

    def joined(values: Mapping[tuple[int, ...], Any], dtype: Any = float) -> Array:
        out = np.empty(shape, dtype=dtype)
        for combination, value in values.items():
            out[_place(combination, len(shape), names)] = value
        return _reduced(out)

    fields: dict[str, Any] = {
        name: joined({at: getattr(one.device, name) for at, one in stacked.items()}) for name in _DEVICE_NUMBERS
    }
    fields["peak_flops"] = {
        dtype: joined({at: one.device.peak_flops.get(dtype, np.nan) for at, one in stacked.items()})
        for dtype in first.device.peak_flops
    }
    links = {at: one.links for at, one in stacked.items()}
    where: dict[str, Array] = {}
    worst: dict[str, tuple[float, str]] = {}
    for at, one in stacked.items():
        for limit in one.limits:
            exceeded = np.broadcast_to(limit.exceeded, _shape_at(shape, names))
            if exceeded.any():
                mask = where.setdefault(limit.reason, np.zeros(shape, dtype=bool))
                mask[_place(at, len(shape), names)] |= exceeded
                worst[limit.reason] = max(worst.get(limit.reason, (0.0, "")), _worst(limit))
    impossible = np.zeros(shape, dtype=bool)
    for mask in where.values():
        impossible |= mask
    return Devices(
        fields=fields,
        links=None if None in links.values() else joined(links),
        possible=~impossible,
        reasons=[(worst[reason][1], mask) for reason, mask in where.items()],
        device=first.device,
    )


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
            reasons.add(f"{TECHNOLOGY}: {sentence}", count * each)
        left &= ~where
