"""What a study found, and lines of it: the results along one axis, all others at their first value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline import quantities
from sightline.exploration.own.axes import TECHNOLOGY, Axis
from sightline.exploration.own.grid import Part
from sightline.exploration.own.reports import COST, THROUGHPUT
from sightline.exploration.own.request import StudyFile
from sightline.exploration.study_answer import BOUND_BY, Column, View, memories, result_columns
from sightline.profile import task_of
from sightline.profile.metrics import Task

_DIMENSIONS: Final[Mapping[str, quantities.Dimension]] = {
    "B": quantities.BYTES,
    "B/s": quantities.BYTES_PER_SECOND,
    "s": quantities.SECONDS,
    "FLOP/s": quantities.FLOPS,
    "W": quantities.WATTS,
    "J": quantities.JOULES,
    "m2": quantities.SQUARE_METRES,
    "bit/s": quantities.BITS_PER_SECOND,
    "Hz": quantities.HERTZ,
    "V": quantities.VOLTS,
}


_LONGEST: Final = 1e7
"""Counts below are written out."""


def in_unit(value: float, unit: str) -> str:
    """Return a number in SI units as people write it."""
    if unit in _DIMENSIONS:
        return quantities.format_quantity(value, _DIMENSIONS[unit])
    if unit == "share":
        return quantities.percent(value, 1)
    exact = float(value).is_integer() and abs(value) < _LONGEST
    shown = f"{value:,.0f}" if exact or abs(value) >= _LONGEST else f"{quantities.significant(value, 3):,g}"
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
        return value if isinstance(value, str) else quantities.show(value)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """A study's points."""

    study: StudyFile
    axes: Sequence[Axis]
    """In the order of the table's columns."""
    views: Sequence[View]
    parts: Sequence[Part]
    columns: Mapping[str, NDArray[Any]]
    reasons: Mapping[str, int]
    """Why points are not there, with their counts."""
    bases: Mapping[View, Any]
    """The first scenario of each view."""
    stopped: bool = False
    """Whether somebody stopped the study, perhaps at its end."""

    @property
    def points(self) -> int:
        """Rows of the table."""
        return len(next(iter(self.columns.values())))

    @property
    def whole(self) -> int:
        """Rows of the table of a study that nobody stops."""
        return self.study.points * len(self.views)

    @property
    def is_part(self) -> bool:
        """Whether points are missing because the study was stopped."""
        return self.stopped and self.points < self.whole

    @property
    def task(self) -> Task:
        """The task of all scenarios."""
        task = task_of(self.study.task)
        if task is None:
            raise TypeError(f"no profile for task {self.study.task}")
        return task

    @property
    def headline(self) -> str:
        """The time that readers compare first: the first that is reported, else the whole."""
        known = self.task.figures
        times = [key for key in self.study.report if key in known and known[key].unit == "s"]
        return next((key for key in times if key in self.task.times), next(iter(times), self.task.whole))

    @property
    def rate(self) -> str:
        """Work per second, by which points are better or worse; empty for a single operator."""
        return THROUGHPUT.get(self.task.name, "")

    @property
    def has_views(self) -> bool:
        """Whether rows differ in the view of devices."""
        return len(self.views) > 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Results along one axis of numbers."""

    view: View
    axis: Axis
    values: Sequence[float]
    """In SI units."""
    part: Part
    place: tuple[Any, ...]
    """Where the line lies among the part's points."""

    def of(self, key: str) -> NDArray[Any]:
        """Return a result along the line; NaN where a point is none or does not fit."""
        points = self.part.points
        if points is None:
            return np.full(len(self.values), np.nan)
        column = points.columns[key][self.place]
        return np.where(points.possible[self.place], column, np.nan) if column.dtype.kind == "f" else column

    @property
    def where(self) -> str:
        """The values of the other axes, in words; without those of the base itself."""
        others = [axis for axis in self.part_axes if axis.key != self.axis.key and not _is_base(axis)]
        return ", ".join(f"{name_of(axis.key)} {value_of(axis, axis.values[0])}" for axis in others)

    part_axes: Sequence[Axis] = ()
    """All axes of the study, those that are no numbers with the part's value."""


def _is_base(axis: Axis) -> bool:
    return axis.is_multiple and axis.values[0] == 1.0


def change_of(values: NDArray[Any]) -> float:
    """Return by which share results along a line change at most."""
    known = values[~np.isnan(values)]
    return float(known.max() / known.min() - 1.0) if len(known) and known.min() > 0 else 0.0


def lines(found: Found) -> Iterator[Line]:
    """Yield a line for each view and axis of numbers with several values, in the first cell that has points."""
    for view in found.views:
        of_view = (one for one in found.parts if one.view == view)
        part = next((one for one in of_view if one.points is not None and one.points.done.any()), None)
        if part is None:
            continue
        own = [
            axis if axis.number is not None else Axis(key=axis.key, values=(part.values[axis.key],))
            for axis in found.axes
        ]
        numbers = [axis for axis in own if axis.number is not None]
        for i, axis in enumerate(numbers):
            if len(axis.values) > 1:
                place = tuple(slice(None) if i == j else 0 for j in range(len(numbers)))
                values = part.numbers[axis.key]
                yield Line(view=view, axis=axis, values=values, part=part, place=place, part_axes=own)


PER: Final = {
    "B/s": (1e12, "TB/s"),
    "B": (1e9, "GB"),
    "FLOP/s": (1e12, "TFLOP/s"),
    "bit/s": (1e9, "Gbit/s"),
    "m2": (1e-6, "mm2"),
}
"""What is bought, by SI unit: the unit that a price is said for, and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """A step from one value of a number to the next."""

    view: str
    key: str
    low: Any
    high: Any
    """Numbers; names where technology has names: another memory in place of the first."""
    gain: float
    """The rate at the higher value over that at the lower."""
    usd_per_hour: float | None
    """What the step may add to a device's rent; None where that is not known."""
    where: str

    @property
    def usd_per_hour_per_unit(self) -> float | None:
        """The same for one SI unit of the number; None of names."""
        if self.usd_per_hour is None or isinstance(self.low, str) or isinstance(self.high, str):
            return None
        return self.usd_per_hour / float(self.high - self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return what an answer says."""
        return {
            "view": self.view,
            "key": self.key,
            "from": self.low,
            "to": self.high,
            "gain": self.gain,
            "usd_per_hour": self.usd_per_hour,
            "usd_per_hour_per_unit": self.usd_per_hour_per_unit,
            "where": self.where,
        }


def break_evens(found: Found) -> Iterator[BreakEven]:
    """Yield every step along the numbers of the hardware, and from the first to each other name of its technology.

    All other axes are at their first values.
    """
    for line in lines(found) if found.rate else ():
        rate, rent = line.of(found.rate), _rent(line, found)
        for i, j in _steps(line):
            gain = float(rate[j] / rate[i])
            if np.isfinite(gain):
                yield BreakEven(
                    view=line.view,
                    key=line.axis.key,
                    low=quantities.as_python(line.values[i]),
                    high=quantities.as_python(line.values[j]),
                    gain=gain,
                    usd_per_hour=None if rent is None else max(0.0, rent * (gain - 1.0)),
                    where=line.where,
                )


def _steps(line: Line) -> Iterator[tuple[int, int]]:
    """Places of the ends of all steps along a line; none of what is not bought."""
    if line.axis.key.startswith(TECHNOLOGY) and all(isinstance(one, str) for one in line.values):
        yield from ((0, place) for place in range(1, len(line.values)))
    elif line.axis.key.startswith("cluster.") and line.axis.unit in PER:
        ordered = pairwise(int(place) for place in np.argsort(line.values))
        yield from ((i, j) for i, j in ordered if line.values[j] > line.values[i])


def _rent(line: Line, found: Found) -> float | None:
    """Rent of a device at the first values of all axes, before what stated prices add."""
    price = next((axis for axis in found.axes if axis.key == "cluster.device.price"), None)
    if price is not None and not price.is_multiple:
        return float(price.values[0])
    rent = found.bases[line.view].cluster.usd_per_hour
    return None if rent is None else float(rent) * (price.values[0] if price is not None else 1.0)


_NOTHING: Final = 0.001
"""Gain below which a step brings nothing."""
_LEAST: Final = quantities.percent(_NOTHING, 1)
_MOST_SAID: Final = 4
"""Steps of a sentence."""


def sentences(found: Found, steps: Sequence[BreakEven]) -> Iterator[str]:
    """Yield a sentence for each number and view: what its steps may cost, and what stated prices come to."""
    units = {axis.key: axis.unit for axis in found.axes}
    verdicts = dict(_verdicts(found))
    groups: dict[tuple[str, str], list[BreakEven]] = {}
    for step in steps:
        groups.setdefault((step.view, step.key), []).append(step)
    nothing: dict[str, list[str]] = {}
    for (view, key), several in groups.items():
        if max(step.gain for step in several) - 1.0 < _NOTHING:
            nothing.setdefault(view, []).append(name_of(key))
            continue
        where = f", {several[0].where}" if several[0].where else ""
        said = _of_names if isinstance(several[0].low, str) else _of_numbers
        yield f"{of_view(view)}{where}: {said(several, units[key])}{verdicts.get((view, key), '')}."
    for view, names in nothing.items():
        listed = ", ".join(names)
        yield f"{of_view(view)}: no step along {listed} pays off at any price (each gain is below {_LEAST})."


def _of_numbers(steps: Sequence[BreakEven], unit: str) -> str:
    """What the steps of a number may cost, and from where on none pays."""
    name = name_of(steps[0].key)
    paying = [i for i, step in enumerate(steps) if step.gain - 1.0 >= _NOTHING]
    said = [steps[paying[i]] for i in sorted({*np.linspace(0, len(paying) - 1, _MOST_SAID).round().astype(int)})]
    ends = [f"from {_value(step.low, unit)} to {_value(step.high, unit)}" for step in said]
    listed = ", ".join(f"{_worth(step, unit)} {between}" for step, between in zip(said, ends, strict=True))
    end = steps[paying[-1]]
    nothing = f"; beyond {_value(end.high, unit)} not at any extra cost (the gain is below {_LEAST})"
    beyond = "" if end is steps[-1] else nothing
    per = f" in USD/hour per {PER[unit][1]}" if end.usd_per_hour is not None else ""
    return f"{name} pays off below this extra cost{per}: {listed}{beyond}"


def _worth(step: BreakEven, unit: str) -> str:
    each = step.usd_per_hour_per_unit
    return quantities.percent(step.gain - 1.0, 1) if each is None else f"{each * PER[unit][0]:.3g}"


def _value(value: Any, unit: str) -> str:
    return value if isinstance(value, str) else in_unit(value, unit)


def _of_names(steps: Sequence[BreakEven], _: str) -> str:
    """What devices of other names of a technology may cost more than those of the first."""

    def worth(step: BreakEven) -> str:
        if step.gain - 1.0 < _NOTHING:
            return f"{step.high} not at any extra cost"
        return f"{step.high} {_more(step)}"

    listed = ", ".join(map(worth, steps))
    return f"compared with {name_of(steps[0].key)} {steps[0].low}, a device pays off below this extra cost: {listed}"


def _more(step: BreakEven) -> str:
    gain = quantities.percent(step.gain - 1.0, 1)
    return gain if step.usd_per_hour is None else f"{step.usd_per_hour:.2g} USD/hour ({gain})"


def _verdicts(found: Found) -> Iterator[tuple[tuple[str, str], str]]:
    """By view and key, at which value work costs least where a price is stated; the smallest of those that tie."""
    prices = {price.number.key: price for price in found.study.prices}
    for line in lines(found):
        price = prices.get(line.axis.key)
        if price is None or line.part.points is None or COST not in line.part.points.columns:
            continue
        cost, unit = line.of(COST), price.number.unit
        if not np.isfinite(cost).any() or unit not in PER:
            continue
        ties = np.flatnonzero(cost <= (1.0 + _NOTHING) * np.nanmin(cost)).tolist()
        least = min(float(line.values[i]) for i in ties)
        scale, name = PER[unit]
        rate = in_unit(price.usd_per_hour_per_unit * scale, "USD/hour")
        said = f"; at its price of {rate} per {name}, work is cheapest at {in_unit(least, unit)}"
        yield (line.view, line.axis.key), said
