"""What a figure of a study draws: its rows, the names, units and colors of its columns, its panels and their sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, isfinite, log2
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.answers.study import Quantity, numeric, quantity_of
from sightline.charts import drawing
from sightline.charts.drawing import Room
from sightline.charts.figure import Axis, Group, Panel, linear, logarithmic, names
from sightline.exploration.study_answer import Column, Figure
from sightline.profile import LEVELS
from sightline.quantities import as_python

Rows = list[dict[str, Any]]

CHARACTER = 6.6
"""Pixels of a character of a label."""
GAP = 30
"""Pixels between panels."""
_Y_LABELS = 46
"""Pixels of numbers and title next to a vertical axis."""
LINE = 13
"""Pixels of a line of a name."""
_PADDING = 0.07
_SPREAD_OF_SIZES = 2.0**12
"""Largest over smallest size from which each tick of an axis has a unit of its own."""
_STEPS = (1, 2, 5, 10)
"""Powers of two between ticks of sizes."""
_IN_ITS_UNIT = (
    "datum.value < 1024 ? datum.value + ' B' : datum.value < 1048576 ? datum.value / 1024 + ' KiB'"
    " : datum.value < 1073741824 ? datum.value / 1048576 + ' MiB' : datum.value / 1073741824 + ' GiB'"
)
"""The label of a tick of bytes, as Vega's expression."""
_THOUSANDS, _BILLION = 1e4, 1e9
_IN_BILLIONS = ("", "USD", "tokens", "parameters", "requests")
"""Units of which a billion is B, in place of the G of SI units."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the panels of a figure stand."""

    columns: int
    width: float
    """Of the plot of each."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a panel stands."""

    first: bool
    """Whether it is the first of its row, and has what all panels of a row share."""
    last: bool
    """Whether no panel stands below it."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure with the table that it draws, and the room for it."""

    table: Mapping[str, Sequence[Any] | NDArray[Any]]
    """Columns of equal length."""
    about: Mapping[str, Column]
    """What the columns hold."""
    shown: Sequence[str] = ()
    """The columns that a row says when it is pointed at; all by default."""
    figure: Figure
    room: Room

    @cached_property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns of the rows that are drawn, of the figure's own table if it has one."""
        table = {key: _array(values) for key, values in (self.figure.columns or self.table).items()}
        drawn = np.ones(len(next(iter(table.values()), ())), dtype=bool)
        for key, wanted in self.figure.where.items():
            drawn &= _is(table[key], wanted) if key in table else False
        return table if drawn.all() else {key: values[drawn] for key, values in table.items()}

    @cached_property
    def rows(self) -> Rows:
        """The rows that are drawn."""
        return self.rows_of(slice(None))

    def rows_of(self, chosen: Any) -> Rows:
        """Return some of the rows that are drawn, in Python's own numbers."""
        values = (column[chosen].tolist() for column in self.columns.values())
        return [dict(zip(self.columns, map(as_python, row), strict=True)) for row in zip(*values, strict=True)]

    @property
    def ys(self) -> tuple[str, ...]:
        """The columns of y."""
        return (self.figure.y,) if isinstance(self.figure.y, str) else tuple(self.figure.y)

    def is_log(self, side: str, columns: Sequence[str]) -> bool:
        """Return whether a side is logarithmic; one with values that have no logarithm is not."""
        values = self.values(*columns)
        asked = side in self.figure.log or bool(self.figure.log & {*columns})
        return asked and bool(values) and min(values) > 0

    def values(self, *columns: str) -> list[float]:
        """Return all numbers of columns."""
        return [value for column in columns if column in self.columns for value in _numbers(self.columns[column])]

    def quantity(self, column: str) -> Quantity:
        """Return what a column holds, by the name that readers see."""
        return quantity_of(column, self.about, self.figure.names.get(column, ""))

    def words(self, column: str) -> list[str]:
        """Return the distinct values of a column as text: numbers sorted, words as they come."""
        return list(dict.fromkeys(self.quantity(column).text(value) for value in self.distinct(column)))

    def distinct(self, column: str) -> list[Any]:
        """Return the distinct values of a column: numbers sorted, words as they come."""
        values = self.columns.get(column, np.empty(0))
        if values.dtype.kind in "fiu":
            numbers: list[Any] = np.unique(values[np.isfinite(values)]).tolist()
            return numbers
        found = [value for value in dict.fromkeys(values.tolist()) if value is not None]
        return sorted(found) if numeric(found) else found

    def is_number(self, column: str) -> bool:
        """Return whether a column holds numbers alone."""
        return numeric(self.distinct(column))

    def layout(self, least: float = 150.0, labels: float = _Y_LABELS, shared: float | None = None) -> Layout:
        """Return how the panels stand: in as few rows as their least width allows, evenly filled.

        Args:
            least: Pixels that the plot of each has at least.
            labels: Pixels of the names next to each, as far as they count for the number of columns.
            shared: Pixels of names that only the first of a row has, in place of ``labels``.
        """
        panels = len(self.distinct(self.figure.panel)) if self.figure.panel else 1
        most = max(int((self.whole + GAP) // (least + labels + GAP)), 1)
        columns = ceil(panels / ceil(panels / most))
        free = self.whole - (columns - 1) * GAP
        width = free / columns - labels if shared is None else (free - shared) / columns
        return Layout(columns=columns, width=width)

    def panelled(
        self, panel: Callable[[Rows, Place], Panel], layout: Layout, *, rows: Rows | None = None, subtitle: str = ""
    ) -> Panel | Group:
        """Return the panels of the figure, each below its title; ``panel`` draws the rows of one in its place."""
        panels, columns, built = self.split(self.rows if rows is None else rows), layout.columns, []
        for position, (title, rows_of_panel) in enumerate(panels):
            place = Place(first=position % columns == 0, last=position + columns >= len(panels))
            drawn = replace(panel(rows_of_panel, place), width=layout.width)
            small = {"fontSize": 12, "fontWeight": "normal", "frame": "group", "offset": 6}
            lines = wrap(title, max(int(layout.width / 6.4), 8))
            built.append(replace(drawn, title=lines, heading=small) if title else drawn)
        heading = wrap(self.figure.title, int(self.whole / 7.4))
        if len(built) == 1:
            return replace(built[0], title=heading, heading={}, subtitle=subtitle)
        apart = ("x", "y", "yOffset")
        return Group(parts=built, columns=columns, spacing=GAP, title=heading, subtitle=subtitle, apart=apart)

    def split(self, rows: Rows) -> list[tuple[str, Rows]]:
        """Return title and rows of each panel; one without a title where the figure has a single one."""
        column = self.figure.panel
        if not column:
            return [("", rows)]
        quantity, values = self.quantity(column), self.distinct(column)
        label = f"{quantity.label} " if numeric(values) else ""
        return [(f"{label}{quantity.text(one)}", [row for row in rows if row[column] == one]) for one in values]

    @property
    def whole(self) -> float:
        """Pixels of all panels in a row with their labels."""
        return self.room.panel + self.room.labels

    def legend(self, labels: Sequence[str], title: str | None = None, **style: Any) -> dict[str, Any] | None:
        """Return a legend below, in as many columns as its labels have room for; None for a single entry."""
        if len(labels) < 2:
            return None
        longest = max(map(len, labels)) * CHARACTER + 34
        columns = max(min(int(self.whole // longest), len(labels)), 1)
        looks = {"offset": 10, "labelLimit": self.whole - 30, "titleFontWeight": "normal"}
        return {"title": title, "columns": columns, **looks, **style}

    def crossed(self, columns: Sequence[str]) -> float | None:
        """Return break-even, if values of columns lie on both sides of it."""
        level, values = self.figure.break_even, self.values(*columns)
        return level if level is not None and values and min(values) < level < max(values) else None

    @property
    def value_column(self) -> str:
        """The name of what marks show along y: the study's column, or where several share it their unit."""
        unit = self.quantity(self.ys[0]).unit.replace("/", "_per_").replace(" ", "_")
        return self.ys[0] if len(self.ys) == 1 else f"value_{unit}".rstrip("_")

    def about_row(self, row: Mapping[str, Any]) -> str:
        """Return what a row says when it is pointed at: every column that the study shows."""
        keys = [key for key in self.figure.columns or self.shown or self.table if row.get(key) is not None][:8]
        return ", ".join(f"{self.quantity(key).heading} {self.quantity(key).text(row[key])}" for key in keys)


def _array(values: Sequence[Any] | np.ndarray) -> NDArray[Any]:
    """A column as an array: of numbers or words as they are, of anything else as objects."""
    if isinstance(values, np.ndarray):
        return values
    found = np.asarray(values)
    same = found.ndim == 1 and (found.dtype.kind in "fiu" or len({type(value) for value in values}) == 1)
    return found if same and found.dtype.kind in "fiuU" else np.asarray(values, dtype=object)


def _is(values: NDArray[Any], wanted: Any) -> Any:
    """Which values are the wanted one, or one of several."""
    several = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
    found = np.zeros(len(values), dtype=bool)
    for one in several:
        found |= np.asarray(values == one, dtype=bool)
    return found


def _numbers(values: NDArray[Any]) -> list[float]:
    """The numbers among values."""
    if values.dtype.kind in "fiu":
        finite: list[float] = values[np.isfinite(values)].tolist()
        return finite
    found = (number(value) for value in values.tolist())
    return [value for value in found if value is not None]


def number(value: Any) -> float | None:
    """Return a value as a number; None for what is not there."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def axis_of(
    picture: Picture,
    columns: Sequence[str],
    *,
    log: bool,
    count: int,
    zero: bool = False,
    title: str = "",
    marks: Sequence[float] = (),
) -> Axis:
    """Return the axis of the numbers of columns, in the unit that suits the largest.

    Args:
        picture: Whose rows have the numbers.
        columns: All of one unit.
        log: Whether it is logarithmic.
        count: About how many ticks there are.
        zero: Whether it begins at zero, as bars do; others do where they come close to it.
        title: In place of the label of the first column.
        marks: Values at which a logarithmic axis has its ticks, where they are few.
    """
    values, quantity = picture.values(*columns) or [0.0, 1.0], picture.quantity(columns[0])
    quantity = replace(quantity, label=title or quantity.label)
    divisor, unit = quantity.scaled(max(map(abs, values)))
    named, low, high = quantity.titled(unit), min(values), max(values)
    if log:
        room = max((high / low) ** _PADDING, 1.1)
        if quantity.unit == "B" and high / low > _SPREAD_OF_SIZES:
            found = logarithmic(quantity.label, low / room, high * room)
            sizes = {"values": _powers_of_two(low / room, high * room, count), "labelExpr": _IN_ITS_UNIT}
            return replace(found, ticks=ticks_of(replace(found, ticks=sizes), quantity, count, marks))
        found = logarithmic(named, low / room, high * room, divisor)
    elif low == high == 0:
        found = linear(named, 0.0, divisor, divisor)
    else:
        if zero or 0 <= low <= 0.6 * high:
            low, high = min(low, 0.0), max(high, 0.0)
        room = _PADDING * (high - low) or 0.1 * abs(high) or 1.0
        found = linear(named, low if low == 0 else low - room, high + room if high else high, divisor)
    return replace(found, ticks=ticks_of(found, quantity, count, marks))


def _powers_of_two(low: float, high: float, count: int) -> list[float]:
    """At most about ``count`` sizes on an axis of bytes, evenly apart."""
    for step in _STEPS:
        first, last = ceil(log2(low) / step), floor(log2(high) / step)
        if last - first < count:
            break
    return [2.0 ** (step * power) for power in range(first, last + 1)]


def ticks_of(axis: Axis, quantity: Quantity, count: int, marks: Sequence[float] = ()) -> dict[str, Any]:
    """Return the ticks of an axis: at the values themselves where they are few and the axis is logarithmic."""
    if quantity.is_year:
        return {"format": "d", "tickCount": count, "labelOverlap": True}
    _, high = axis.scale["domain"]
    plain = "~g" if axis.is_log else ",~f"
    form = "$" * (quantity.unit == "USD") + ("~s" if high >= _THOUSANDS else plain)
    ticks = {**axis.ticks, "format": form, "labelOverlap": "greedy", "labelSeparation": 6}
    if not axis.is_log:
        ticks["tickCount"] = count
    elif 2 <= len(marks) <= count:
        ticks["values"] = [mark / axis.divisor for mark in marks]
    if high >= _BILLION and quantity.unit in _IN_BILLIONS:
        ticks["labelExpr"] = "replace(datum.label, 'G', 'B')"
    return ticks


_FAMILIES = (drawing.LEVEL_COLORS, drawing.PHASE_COLORS, drawing.MEMORY_COLORS)
_PARTS = {**drawing.MEMORY_COLORS, **drawing.PHASE_COLORS, **drawing.LEVEL_COLORS}
_ALIKE = {
    "memory": "dram",
    "kv": "kv_cache",
    "communication_exposed": "communication",
    "bubble": "pipeline_bubble",
    "exposed": "communication_exposed",
}
"""Parts that have the color of another one."""
_FILLING = ("share", "time", "s", "bytes", "energy", "j", "cost", "usd", "fraction", "seconds", "exposed")
"""Words of a column's name that do not say which part it holds."""
DASHES: tuple[list[int], ...] = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
"""Dashes of lines, in the order in which they are taken."""


def part_of(column: str) -> str:
    """Return which part of a whole a column holds: the level, the phase or the part of memory in its name."""
    key = column.rpartition(".")[2]
    if key in _PARTS:
        return key
    words = key.split("_")
    while len(words) > 1 and words[-1] in _FILLING:
        words.pop()
    while len(words) > 1 and words[0] in _FILLING:
        words.pop(0)
    return "_".join(words)


def colors_of(keys: Sequence[str]) -> list[str]:
    """Return a color for each of several parts, levels or lines.

    Where all are parts that have a color everywhere, each gets it; else they get those of lines, in order.
    """
    for family in (*_FAMILIES, _PARTS):
        known = [family.get(_ALIKE.get(key, key), family.get(key, "")) for key in keys]
        if all(known) and len(set(known)) == len(known):
            return known
    return [drawing.LINES[position % len(drawing.LINES)] for position in range(len(keys))]


def dashes_of(count: int) -> list[list[int]]:
    """Return a dash for each of ``count`` lines: another one where colors begin again."""
    return [DASHES[(position // len(drawing.LINES)) % len(DASHES)] for position in range(count)]


def in_order(keys: Sequence[str]) -> list[str]:
    """Return keys in the order of levels where they are levels, else as they are."""
    return sorted(keys, key=LEVELS.index) if set(keys) <= set(LEVELS) else list(keys)


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of rows, in the lines that they have room for."""

    lines: dict[str, str]
    """Each name in its lines."""
    width: float
    """Pixels of the longest line."""

    @property
    def height(self) -> float:
        """Pixels that the name of a row needs."""
        return LINE * max((text.count("\n") + 1 for text in self.lines.values()), default=1) + 7

    def axis(self, order: Sequence[str], scale: Mapping[str, Any], *, shown: bool = True, **looks: Any) -> Axis:
        """Return the axis with names in their order, or with none."""
        if not shown:
            return names(order, scale={"domain": order, **scale}, labels=False)
        style = {"labelLimit": self.width + 20, "labelOverlap": False, "labelFontSize": 11, **looks}
        return names(order, line=LINE, scale={"domain": order, **scale}, **style)


def names_of(words: Sequence[str], room: Room) -> Names:
    """Return the names of rows, folded to what the room has for labels."""
    most = int((room.labels + (30 if room.side_by_side else 0)) / CHARACTER)
    lines = {
        word: "\n".join(wrap(word, most, break_on_hyphens=max(map(len, word.split()), default=0) > most) or [word])
        for word in words
    }
    longest = max((len(line) for text in lines.values() for line in text.split("\n")), default=0)
    return Names(lines=lines, width=longest * CHARACTER * 0.95 + 12)
