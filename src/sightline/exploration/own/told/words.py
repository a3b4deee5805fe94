"""Names and figures of a study of one's own: in sentences each in the unit that people would choose."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sightline.exploration.answer import Column
from sightline.exploration.columns import BOUND_BY, memories, result_columns
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.numbers import TECHNOLOGY
from sightline.profile import task_of
from sightline.quantities import (
    BITS_PER_SECOND,
    BYTES,
    BYTES_PER_SECOND,
    FLOPS,
    HERTZ,
    JOULES,
    SECONDS,
    SQUARE_METRES,
    VOLTS,
    WATTS,
    Dimension,
    format_quantity,
    percent,
    show,
    significant,
)

_DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "B": BYTES,
    "B/s": BYTES_PER_SECOND,
    "s": SECONDS,
    "FLOP/s": FLOPS,
    "W": WATTS,
    "J": JOULES,
    "m2": SQUARE_METRES,
    "bit/s": BITS_PER_SECOND,
    "Hz": HERTZ,
    "V": VOLTS,
}


_LONGEST: Final = 1e7
"""Counts below are written out."""


def in_unit(value: float, unit: str) -> str:
    """Return a number in SI units as people write it."""
    if unit in _DIMENSIONS:
        return format_quantity(value, _DIMENSIONS[unit])
    if unit == "share":
        return percent(value, 1)
    exact = float(value).is_integer() and abs(value) < _LONGEST
    shown = f"{value:,.0f}" if exact or abs(value) >= _LONGEST else f"{significant(value, 3):,g}"
    return f"{shown} {unit}".strip()


_WRITTEN: Final = {"l2": "L2", "dram": "DRAM", "flops": "FLOP/s", "tdp": "TDP", "zero": "ZeRO"}
_NAMES: Final = dict.fromkeys(("cluster.device.l2", "cluster.device.l2_bytes"), "L2 capacity")
_PARTS: Final = {"device": "", "intra_node": "link ", "network": "network ", "host": "host "}
"""Words before the name of a number, by part of a cluster."""


def name_of(key: str) -> str:
    """Return a dotted key as words: ``memory bandwidth`` of a device's."""
    if key in _NAMES:
        return _NAMES[key]
    head, *below = key.split(".")
    if head == "cluster" and below[:1] and below[0] in _PARTS and below[1:]:
        return _PARTS[below[0]] + _written(" ".join(below[1:]))
    return _written(" ".join(below) or head)


def _written(key: str) -> str:
    words = key.removeprefix("technology ").removesuffix("_s").removesuffix("_bytes").replace("_", " ").split()
    return " ".join(_WRITTEN.get(word, word) for word in words)


def about(task: str, axes: Sequence[Axis], keys: Sequence[str]) -> dict[str, Column]:
    """Return what the columns of a table hold: axes and what is searched by their keys, else results of the task."""
    of_axes = {axis.key: _of_axis(axis) for axis in axes}
    return {key: of_axes.get(key) or column_of(task, key) for key in keys}


def _of_axis(axis: Axis) -> Column:
    if axis.key == f"{TECHNOLOGY}.memory":
        return memories(axis.values)
    money = axis.unit == "USD/hour"
    return Column(label=name_of(axis.key), unit="USD" if money else axis.unit, per="per hour" if money else "")


@cache
def _results(task: str) -> Mapping[str, Column]:
    declared = task_of(task)
    return {"bound_level": BOUND_BY} if declared is None else result_columns(declared)


def column_of(task: str, key: str) -> Column:
    """Return what readers see of a result."""
    return _results(task).get(key) or Column(label=name_of(key))


def label_of(task: str, key: str) -> str:
    """Return what readers call a result."""
    column = column_of(task, key)
    return f"{column.label} {column.per}".strip()


def sentence_case(words: str) -> str:
    """Return words with a capital first letter, whatever the others are."""
    return words[:1].upper() + words[1:]


def value_of(axis: Axis, value: Any) -> str:
    """Return a value of an axis as text."""
    if axis.is_multiple:
        return f"{value:g}x"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value if isinstance(value, str) else show(value)
    return in_unit(value, axis.unit)


def result(task: str, key: str, value: float) -> str:
    """Return a result with its name: ``step time 1.2 s``."""
    return f"{label_of(task, key)} {in_unit(value, column_of(task, key).unit)}"


def in_words(axis: Axis, value: Any) -> str:
    """Return a value of an axis as the table has it: multiples in SI units."""
    return in_unit(float(value), axis.unit) if axis.is_multiple else value_of(axis, value)


def of_view(view: str) -> str:
    """Return how a sentence about one view begins."""
    return f"{view.capitalize()} view"
