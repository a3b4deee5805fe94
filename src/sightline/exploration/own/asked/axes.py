"""``axes`` of a study: what is varied, and over which values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.exploration.own.asked.names import named
from sightline.exploration.own.asked.numbers import TECHNOLOGY, NumberKey, peak_key, technology_key
from sightline.loading.checks import Complaints
from sightline.quantities import LARGEST, show, significant

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
        """Return the axis with its first, middle and last value."""
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
            raise InputError(f"{place} is {show(stated)}; allowed: values, as {key} is no number to multiply")
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
    complaints = Complaints()
    found = []
    for one in stated:
        try:
            value = number.read(one)
            number_or_name = one if isinstance(value, Mapping) else value
            found.append(float(value) if isinstance(value, int | float) and not number.whole else number_or_name)
        except InputError as error:
            complaints.add(*(f"{place} {problem}" for problem in error.problems))
    complaints.raise_any()
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
            raise InputError(f"{place} is {show(dict(stated))}; allowed: a list of values, as {key} is no number")
        low, high = map(float, read)
    elif all(isinstance(one, int | float) and not isinstance(one, bool) and abs(one) <= LARGEST for one in ends):
        low, high = map(float, ends)
    else:
        raise InputError(f"{place} is {show(dict(stated))}; allowed: from and to are numbers")
    values = _spread(place, low, high, stated)
    if (number is not None and number.whole) or (number is None and low % 1 == high % 1 == 0):
        values = [round(one) for one in values]
    unit = "" if number is None else number.unit
    return Axis(key=key, values=_distinct(values), number=number, is_multiple=is_multiple, unit=unit)


def _spread(place: str, low: float, high: float, stated: Mapping[str, Any]) -> list[float]:
    """The values of a range, its ends among them."""
    factor, steps = stated.get("factor"), stated.get("steps")
    is_number = isinstance(factor or steps, int | float) and not isinstance(factor or steps, bool)
    if not is_number or not 0 < low <= high < np.inf:
        raise InputError(f"{place} is {show(dict(stated))}; allowed: from above 0 up to to, and a factor or steps")
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
