"""``axes`` of a study: what is varied, over which values, and how numbers are laid out as arrays."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, noted, refuse
from sightline.loading.checks import Complaints, with_value
from sightline.loading.clusters.hardware import DEVICE, HOST, INTERCONNECT, NETWORK, Part
from sightline.loading.loader import Asked, is_impossible
from sightline.quantities import FLOPS, LARGEST, WATTS, show, significant
from sightline.scenario.space import Space
from sightline.validators import Kind, fraction, quantity

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberKey:
    """A key of a scenario that takes an array."""

    key: str
    read: Kind
    """Returns a value as it is written as a number in SI units."""
    get: Callable[[Asked], Any]
    """The number that a scenario has: a float, or rates by dtype; None where it is not known."""
    put: Callable[[Asked, Any], Asked]
    """The scenario with another."""
    of_device: bool = False
    """Whether prices of operators depend on it, which are shared by all points with the same value."""
    whole: bool = False
    """Whether only whole numbers make sense."""
    unit: str = ""
    """SI unit, or ``share``; empty for a count."""


_DEVICE: Final = {
    "memory": ("memory_bytes", "B"),
    "memory_bandwidth": ("memory_bandwidth", "B/s"),
    "l2": ("l2_bytes", "B"),
    "l2_bandwidth": ("l2_bandwidth", "B/s"),
    "compute_units": ("compute_units", ""),
    "vector_flops": ("vector_flops", "FLOP/s"),
    "tdp": ("tdp_w", "W"),
    "idle_power": ("idle_w", "W"),
    "price": ("usd_per_hour", "USD/hour"),
}
_LINKS: Final = {"bandwidth": ("bandwidth", "B/s"), "latency": ("latency_s", "s")}
_NETWORK: Final = {
    "bandwidth_per_node": ("bandwidth_per_node", "B/s"),
    "latency": ("latency_s", "s"),
    "oversubscription": ("oversubscription", ""),
}
_HOST: Final = {"launch_time": ("launch_time_s", "s"), "device_bandwidth": ("device_bandwidth", "B/s")}
_PARTS: Final[Mapping[str, tuple[Part, Mapping[str, tuple[str, str]]]]] = {
    "device": (DEVICE, _DEVICE),
    "intra_node": (INTERCONNECT, _LINKS),
    "network": (NETWORK, _NETWORK),
    "host": (HOST, _HOST),
}
"""By part of a cluster: the field and the unit of each key."""
_TRAINING_PLAN: Final = (
    *("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel", "expert_parallel"),
    *("micro_batch", "zero_stage", "sequence_parallel"),
)
"""Fields of a training plan that may be arrays. A number of virtual stages is none: it changes the schedule."""
_TRAINING_WORK: Final = ("global_batch",)
_GENERATION_WORK: Final = ("batch", "prompt_tokens", "output_tokens")
TECHNOLOGY: Final = "cluster.device.technology"
"""The key of what a device is made of."""
SPLIT: Final = "split."
_UNITS: Final[Mapping[str, str]] = {
    "die_area": "m2",
    "power": "W",
    "pin_rate": "bit/s",
    "memory_capacity": "B",
    "link_bandwidth": "B/s",
    "frequency": "Hz",
    "voltage": "V",
}
TRAINING_TASKS: Final = ("pretrain", "finetune")


def stated_device(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a scenario states of its device, where it does so in a mapping."""
    cluster: Any = mapping.get("cluster")
    device = cluster.get("device") if isinstance(cluster, Mapping) else None
    return device if isinstance(device, Mapping) else {}


def number_keys(task: str) -> dict[str, NumberKey]:
    """Return the keys that take arrays in scenarios of a task."""
    found = [_of_part(name, field) for name, (_, fields) in _PARTS.items() for field in fields]
    found += [_power_cap(), _peaks(), *([] if task in ("operator", "serve") else _of_plan_and_work(task))]
    return {one.key: one for one in found}


def peak_key(dtype: str) -> NumberKey:
    """Return the key of a device's peak in one dtype."""

    def put(scenario: Asked, value: Any) -> Asked:
        rates = {**scenario.cluster.device.peak_flops, dtype: value}
        return _with_part(scenario, "device", {"peak_flops": rates})

    return NumberKey(
        key=f"cluster.device.peak_flops.{dtype}",
        read=quantity(FLOPS),
        get=lambda scenario: scenario.cluster.device.peak_flops.get(dtype),
        put=put,
        of_device=True,
        unit="FLOP/s",
    )


def technology_key(key: str) -> NumberKey | None:
    """Return the key of a device's technology, None for any other; all axes of it are put in together."""
    below = key.removeprefix(f"{TECHNOLOGY}.")
    if below == key:
        return None
    from sightline.loading.clusters.technology import KEYS
    from sightline.technology.budget import PARTS

    kind: Kind | None = KEYS.get(below)
    is_share = below.startswith(SPLIT) and below.removeprefix(SPLIT) in PARTS
    if is_share:
        kind = fraction
    if kind is None:
        return None
    return NumberKey(
        key=key,
        read=kind,
        get=lambda _: None,
        put=lambda scenario, _: scenario,
        of_device=True,
        unit="share" if is_share else _UNITS.get(below, ""),
    )


def _with_part(scenario: Asked, part: str, fields: Mapping[str, Any]) -> Asked:
    cluster = scenario.cluster
    changed: Any = replace(getattr(cluster, part), **fields)
    return replace(scenario, cluster=replace(cluster, **{part: changed}))


def _of_part(name: str, key: str) -> NumberKey:
    part, fields = _PARTS[name]
    field, unit = fields[key]
    return NumberKey(
        key=f"cluster.{name}.{key}",
        read=part.keys[key],
        get=lambda scenario: getattr(getattr(scenario.cluster, name), field),
        put=lambda scenario, value: _with_part(scenario, name, {field: value}),
        of_device=name == "device",
        unit=unit,
    )


def _power_cap() -> NumberKey:
    def put(scenario: Asked, value: Any) -> Asked:
        return replace(scenario, cluster=replace(scenario.cluster, power_cap_w=value))

    return NumberKey(
        key="cluster.power_cap",
        read=quantity(WATTS),
        get=lambda scenario: scenario.cluster.power_cap_w,
        put=put,
        of_device=True,
        unit="W",
    )


def _peaks() -> NumberKey:
    """All peaks of a device together, of which a study states multiples."""
    return NumberKey(
        key="cluster.device.peak_flops",
        read=quantity(FLOPS),
        get=lambda scenario: scenario.cluster.device.peak_flops,
        put=lambda scenario, value: _with_part(scenario, "device", {"peak_flops": value}),
        of_device=True,
        unit="FLOP/s",
    )


def _of_plan_and_work(task: str) -> list[NumberKey]:
    from sightline.loading.plans import plan_keys

    if task in TRAINING_TASKS:
        declared = plan_keys()
        from sightline.loading.training import WORKLOAD

        plan = [_below("plan", name, declared[name]) for name in _TRAINING_PLAN]
        return [*plan, *(_below("workload", name, WORKLOAD[name]) for name in _TRAINING_WORK)]
    from sightline.loading.generation import GENERATE

    return [_below("workload", name, GENERATE[name]) for name in _GENERATION_WORK]


def _below(part: str, name: str, kind: Kind) -> NumberKey:
    """A field of the plan or the workload."""

    def put(scenario: Any, value: Any) -> Asked:
        changed = replace(getattr(scenario, part), **{name: np.asarray(value) * 1.0 if np.ndim(value) else value})
        scenario = replace(scenario, **{part: changed})
        answered: Asked = scenario
        return answered

    return NumberKey(
        key=f"{part}.{name}",
        read=kind,
        get=lambda scenario: getattr(getattr(scenario, part), name),
        put=put,
        whole=True,
    )


def named(values: Sequence[Any]) -> list[Any]:
    """Return values as a table has them, no two alike: words and numbers as they are, a mapping by a short name.

    That is its ``name``, else its device with their number ("1024x 3nm-hbm4"), else what only this mapping states.
    """
    mappings = [one for one in values if isinstance(one, Mapping)]
    names = [_name(one, mappings) for one in values]
    alike = [isinstance(one, Mapping | list) and names.count(name) > 1 for one, name in zip(values, names, strict=True)]
    told = [
        f"{name}, {own}" if again and (own := _own(one, mappings)) else name
        for one, name, again in zip(values, names, alike, strict=True)
    ]
    return [
        f"{name} ({place + 1})" if isinstance(one, Mapping | list) and told.count(name) > 1 else name
        for place, (one, name) in enumerate(zip(values, told, strict=True))
    ]


def _name(value: Any, among: Sequence[Mapping[str, Any]]) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(str(_name(one, ())) for one in value)
    if not isinstance(value, Mapping):
        return value
    return _stated(value) or _own(value, among) or show(dict(value))


def _stated(value: Mapping[str, Any]) -> str:
    """The name that a mapping states, of itself or of the device that it has or is."""
    if value.get("name"):
        return str(value["name"])
    if "device" in value:
        device = value["device"]
        name = _stated(device) if isinstance(device, Mapping) else str(device)
        return f"{value['devices']}x {name}" if name and "devices" in value else name
    technology = value.get("technology")
    if isinstance(technology, Mapping):
        return "-".join(str(technology[key]) for key in ("node", "memory") if technology.get(key))
    return str(value.get("same_as", ""))


def _own(value: Any, among: Sequence[Mapping[str, Any]]) -> str:
    """What a mapping states and not every other does: "stacks 8"."""
    if not isinstance(value, Mapping):
        return ""
    mine, others = _flat_name(value), [_flat_name(one) for one in among if one is not value]
    own = {key: of for key, of in mine.items() if not others or any(one.get(key) != of for one in others)}
    return ", ".join(f"{key.rpartition('.')[2].replace('_', ' ')} {of}" for key, of in own.items())


def _flat_name(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, of in value.items():
        found |= _flat_name(of, f"{above}{key}.") if isinstance(of, Mapping) else {f"{above}{key}": of}
    return found


MOST_VALUES: Final = 10_000
"""Values of one axis."""
_RANGE: Final = frozenset({"from", "to", "factor", "steps"})
_FORMS: Final = "a list of values, {from, to, factor} or {from, to, steps}"
_MULTIPLE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*[xX×]\s*", re.ASCII)
_PEAKS: Final = "cluster.device.peak_flops"


def along(values: Sequence[Any], dimension: int, dimensions: int) -> NDArray[np.float64]:
    """Return values as an array along one dimension of several."""
    shape = [-1 if i == dimension else 1 for i in range(dimensions)]
    return np.asarray(values, dtype=float).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axis:
    """What one key takes."""

    key: str
    values: tuple[Any, ...]
    """Numbers in SI units, multiples of the base's number, or values as they were written."""
    number: NumberKey | None = None
    """How they are laid out as an array; None where every value makes scenarios of its own."""
    is_multiple: bool = False
    is_range: bool = False
    """Whether only the ends were typed."""
    is_searched: bool = False
    """Whether the best value is taken at every point, so that a table has no rows for the others."""
    unit: str = ""
    """SI unit of numbers; empty for counts, and for what is no number."""

    @property
    def is_number(self) -> bool:
        """Whether the values have an order of their own."""
        return all(isinstance(one, int | float) and not isinstance(one, bool) for one in self.values)

    @property
    def named(self) -> list[Any]:
        """The values as a table has them: of mappings and lists their names."""
        return named(self.values) if self.number is None else list(self.values)

    @property
    def shown(self) -> list[Any]:
        """The values as an answer lists them: multiples as a file states them."""
        return [f"{one:g}x" for one in self.values] if self.is_multiple else self.named

    def one_by_one(self) -> "Axis":
        """Return the axis with a scenario of its own for every value."""
        return replace(self, number=None)

    def shortened(self) -> "Axis":
        """Return a range with its first, middle and last value; values that were typed stay."""
        if not self.is_range:
            return self
        places = sorted({0, (len(self.values) - 1) // 2, len(self.values) - 1})
        return replace(self, values=tuple(self.values[i] for i in places))


def read_axes(stated: object, numbers: Mapping[str, NumberKey], complaints: Complaints) -> list[Axis]:
    """Return the axes that a study states; note every mistake.

    ``numbers`` are the keys that may be arrays.
    """
    if not isinstance(stated, Mapping) or not stated:
        complaints.add(f"axes is {show(stated)}; allowed: dotted keys of the base, each with {_FORMS}")
        return []
    read = (complaints.note(_read_axis, key, values, numbers) for key, values in _flat(stated))
    return [axis for axis in read if axis is not None]


def _flat(stated: Mapping[Any, Any], above: str = "") -> list[tuple[str, Any]]:
    """Axes by dotted key; keys may be nested too."""
    found: list[tuple[str, Any]] = []
    for key, value in stated.items():
        name = f"{above}.{key}" if above else str(key)
        is_nested = isinstance(value, Mapping) and value and not value.keys() & _RANGE
        found += _flat(value, name) if is_nested else [(name, value)]
    return found


def _read_axis(key: str, stated: Any, numbers: Mapping[str, NumberKey]) -> Axis:
    number = numbers.get(key)
    dtype = key.removeprefix(f"{_PEAKS}.") if key.startswith(f"{_PEAKS}.") else ""
    if number is None and dtype and _PEAKS in numbers:
        number = peak_key(dtype)
    number = number or technology_key(key)
    place = f"axes.{key}"
    if isinstance(stated, Mapping):
        return _ranged(key, stated, number)
    if not isinstance(stated, list | tuple) or not stated:
        single = "" if isinstance(stated, list | tuple) else f"; {key} of the base has a single value"
        raise InputError(f"{place} is {show(stated)}; allowed: {_FORMS}{single}")
    if len(stated) > MOST_VALUES:
        raise InputError(f"{place} has {len(stated):,} values; allowed: up to {MOST_VALUES:,}")
    if number is None:
        if any(_multiple(one) is not None for one in stated):
            raise InputError(f"{place} is {show(stated)}; allowed: values, because {key} is not a number")
        return Axis(key=key, values=_distinct(stated))
    multiples = [_multiple(one) if _has_multiples(key) else None for one in stated]
    if all(one is not None for one in multiples):
        return Axis(key=key, values=_distinct(multiples), number=number, is_multiple=True, unit=number.unit)
    if key == _PEAKS:
        raise InputError(
            f"{place} is {show(stated)}; allowed: multiples such as [0.5x, 1x, 2x], or {place}.bf16 for one dtype"
        )
    return Axis(key=key, values=_distinct(_read_values(place, stated, number)), number=number, unit=number.unit)


def _has_multiples(key: str) -> bool:
    """Whether a number of the base can be multiplied."""
    return key.startswith("cluster.") and not key.startswith(TECHNOLOGY)


def _read_values(place: str, stated: Sequence[Any], number: NumberKey) -> list[Any]:
    found: list[Any] = []
    problems: list[str] = []
    for one in stated:
        with noted(problems, f"{place} "):
            value = number.read(one)
            number_or_name = one if isinstance(value, Mapping) else value
            found.append(float(value) if isinstance(value, int | float) and not number.whole else number_or_name)
    refuse(problems)
    return found


def _ranged(key: str, stated: Mapping[str, Any], number: NumberKey | None) -> Axis:
    """The axis of ``{from, to, factor}`` (each value that many times the one before) or ``{from, to, steps}``."""
    place = f"axes.{key}"
    unknown = [name for name in stated if name not in _RANGE]
    ends: list[Any] = [stated.get("from"), stated.get("to")]
    if unknown or None in ends or ("factor" in stated) == ("steps" in stated):
        raise InputError(f"{place} is {show(dict(stated))}; allowed: {_FORMS}")
    multiples = [_multiple(one) for one in ends]
    is_multiple = number is not None and None not in multiples and _has_multiples(key)
    if is_multiple:
        low, high = (float(one or 0.0) for one in multiples)
    elif number is not None and key != _PEAKS:
        read = _read_values(place, ends, number)
        if not all(isinstance(one, int | float) for one in read):
            raise InputError(
                f"{place} is {show(dict(stated))}; allowed: a list of values, because {key} is not a number"
            )
        low, high = map(float, read)
    elif all(isinstance(one, int | float) and not isinstance(one, bool) and abs(one) <= LARGEST for one in ends):
        low, high = map(float, ends)
    else:
        raise InputError(f"{place} is {show(dict(stated))}; allowed: from and to are numbers")
    values = _spread(place, low, high, stated)
    if (number is not None and number.whole) or (number is None and low % 1 == high % 1 == 0):
        values = [round(one) for one in values]
    unit = "" if number is None else number.unit
    found = Axis(key=key, values=_distinct(values), number=number, is_multiple=is_multiple, unit=unit)
    return replace(found, is_range=True)


def _spread(place: str, low: float, high: float, stated: Mapping[str, Any]) -> list[float]:
    """The values of a range, its ends among them."""
    factor, steps = stated.get("factor"), stated.get("steps")
    is_number = isinstance(factor or steps, int | float) and not isinstance(factor or steps, bool)
    if not is_number or not 0 < low <= high < np.inf:
        raise InputError(
            f"{place} is {show(dict(stated))}; allowed: `from` above 0 and up to `to`, with factor or steps"
        )
    if steps is not None:
        if steps % 1 or not 2 <= steps <= MOST_VALUES:
            raise InputError(f"{place}.steps is {show(steps)}; allowed: a whole number from 2 to {MOST_VALUES:,}")
        return [significant(one, 12) for one in np.linspace(low, high, int(steps))]
    if not factor or not 1 < factor <= LARGEST:
        raise InputError(f"{place}.factor is {show(factor)}; allowed: a number above 1")
    count = int(np.floor(np.log(high / low) / np.log(factor) + 1e-9)) + 1
    if count > MOST_VALUES:
        raise InputError(f"{place} has {count:,} values; allowed: up to {MOST_VALUES:,}")
    return [significant(low * factor**i, 12) for i in range(count)]


def _multiple(value: object) -> float | None:
    """The number of a multiple such as ``2x``; None for anything else."""
    found = _MULTIPLE.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found and float(found[1]) > 0 else None


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values in order, each once; some may be lists or mappings."""
    return tuple({show(one) if isinstance(one, list | dict) else (type(one), one): one for one in values}.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One combination."""

    values: Mapping[str, Any]
    """Of each axis that is no number, mappings by their names."""
    mapping: Mapping[str, Any]
    """The scenario's."""


@dataclass(slots=True, kw_only=True, eq=False)
class Reasons:
    """Why points are not there, counted."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, sentence: str, count: int = 1) -> None:
        """Count points for a sentence."""
        self.counts[sentence] += count


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """No scenario: why a cell cannot be."""

    reason: str


NO_PLAN: Final = "search finds no valid plan; run `sightline plan` on the base for the reasons"
"""The reason of points for which a search has none, whatever their device."""
Open: TypeAlias = "Asked | Space[Any]"
"""A scenario, or what is searched of one."""
Read: TypeAlias = "Open | Impossible"
"""What a cell asks for, or why there is nothing."""


def cells(base: Mapping[str, Any], axes: Sequence[Axis]) -> Iterator[Cell]:
    """Yield the base with every combination of the axes' values, the last axis fastest."""
    keys, names = [axis.key for axis in axes], [axis.named for axis in axes]
    for places in product(*(range(len(axis.values)) for axis in axes)):
        mapping = dict(base)
        # Shorter keys first: a device's name before one of its numbers.
        for axis, place in sorted(zip(axes, places, strict=True), key=lambda one: one[0].key.count(".")):
            mapping = with_value(mapping, axis.key, axis.values[place])
        values = [of[place] for of, place in zip(names, places, strict=True)]
        yield Cell(values=dict(zip(keys, values, strict=True)), mapping=mapping)


def loaded(cell: Cell, numbers: Sequence[Axis], folder: Path, complaints: Complaints, *, free: bool) -> "Read | None":
    """Return the scenario of a cell, or why it cannot be; mistakes are noted, and None returned.

    Plans and workloads that are arrays are read with their first values that are possible together: degrees that are
    stated with them need fit no other. ``free`` leaves the search's fields open.
    """
    reason = ""
    for mapping in _with_first(cell.mapping, numbers):
        try:
            return _read(mapping, folder, free=free)
        except InputError as error:
            if not is_impossible(error):
                complaints.add(*error.problems)
                return None
            reason = reason or error.problems[0]
    return Impossible(reason=reason)


_MOST_TRIED = 256
"""Combinations of plans among which a possible one is looked for."""


def _with_first(mapping: Mapping[str, Any], numbers: Sequence[Axis]) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping with values of the axes of plan and workload, which a loader has to find possible."""
    below = [axis for axis in numbers if not axis.key.startswith("cluster.") and not axis.is_multiple]
    for tried, values in enumerate(product(*(axis.values for axis in below))):
        if tried >= _MOST_TRIED:
            return
        one = dict(mapping)
        for axis, value in zip(below, values, strict=True):
            one = with_value(one, axis.key, value)
        yield one


def _read(mapping: Mapping[str, Any], folder: Path, *, free: bool) -> Open:
    if free:
        from sightline.loading.spaces import spaces_of

        spaces = spaces_of(mapping, folder)
        if len(spaces) > 1:
            raise InputError("base restricts a field to several values that is not searched; use axes or search")
        return spaces[0]
    from sightline.loading.loader import read_scenario

    return read_scenario(mapping, folder)
