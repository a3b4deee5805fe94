"""What a figure of a study draws: its rows, the names and units of its columns, its panels and their sizes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from sightline.exploration.answer import Figure, StudyAnswer
from sightline.quantities import as_python
from sightline.report.charts import drawing
from sightline.report.charts.axes import Axis
from sightline.report.charts.drawing import Room
from sightline.report.studies.quantities import Quantity, numeric, quantity_of, words_of

Rows = list[dict[str, Any]]

CHARACTER = 6.6
"""Pixels of a character of a label."""
_DATE = re.compile(r"(\d{4})-(\d{2})(-\d{2})?$")
_GAP = 30
"""Pixels between panels."""
_Y_LABELS = 46
"""Pixels of numbers and title next to a vertical axis."""
_PADDING = 0.07
_BILLION = 1e9
_IN_BILLIONS = ("", "USD", "tokens", "parameters", "requests")
"""Units of which a billion is B, in place of the G of SI units."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure with the answer whose table it draws, and the room for it."""

    answer: StudyAnswer
    figure: Figure
    room: Room

    @cached_property
    def rows(self) -> Rows:
        """The rows that are drawn, of the figure's own table if it has one."""
        table = _table(self.figure.columns) if self.figure.columns else self.answer.rows
        return [row for row in table if all(_is(row.get(k), v) for k, v in self.figure.where.items())]

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
        """Return all numbers of columns, dates as years."""
        found = (number(row.get(column)) for column in columns for row in self.rows)
        return [value for value in found if value is not None]

    def quantity(self, column: str) -> Quantity:
        """Return what a column holds, by the name that readers see."""
        return quantity_of(column, self.figure.names)

    def words(self, column: str) -> list[str]:
        """Return the distinct values of a column as text: numbers sorted, words as they come."""
        return list(dict.fromkeys(self.quantity(column).text(value) for value in self.distinct(column)))

    def distinct(self, column: str) -> list[Any]:
        """Return the distinct values of a column: numbers sorted, words as they come."""
        found = list(dict.fromkeys(row[column] for row in self.rows if row.get(column) is not None))
        return sorted(found) if numeric(found) else found

    def is_number(self, column: str) -> bool:
        """Return whether a column holds numbers or dates alone."""
        values = [row.get(column) for row in self.rows if row.get(column) is not None]
        return numeric(values) or (bool(values) and all(_DATE.match(str(value)) for value in values))

    @property
    def panels(self) -> list[tuple[str, Rows]]:
        """Title and rows of each panel; one without a title where the figure has a single one."""
        return self.split(self.figure.panel)

    def split(self, column: str) -> list[tuple[str, Rows]]:
        """Return the rows by the value of a column, with that value in words."""
        if not column:
            return [("", self.rows)]
        quantity = self.quantity(column)
        found = [
            (quantity.text(value), [row for row in self.rows if row[column] == value])
            for value in self.distinct(column)
        ]
        if numeric(self.distinct(column)):
            return [(f"{quantity.label} {text}", rows) for text, rows in found]
        return found

    def columns(self, panels: int, least: float = 150.0, beside: float = _Y_LABELS) -> int:
        """Return how many panels stand in a row: as few rows as panels of ``least`` pixels allow, evenly filled."""
        most = max(int((self.whole + _GAP) // (least + beside + _GAP)), 1)
        return ceil(panels / ceil(panels / most))

    def width(self, columns: int, beside: float = _Y_LABELS) -> float:
        """Return the width of each of several panels in a row, of which each has ``beside`` pixels of labels."""
        return (self.whole - (columns - 1) * _GAP) / columns - beside

    @property
    def whole(self) -> float:
        """Pixels of all panels in a row with their labels."""
        return self.room.panel + self.room.labels

    def together(self, panels: Sequence[Any], columns: int, subtitle: str = "") -> Any:
        """Return the panels below the figure's title."""
        title = drawing.heading(self.wrapped(words_of(self.figure.title)), subtitle)
        if len(panels) == 1:
            return panels[0].properties(title=title)
        joined = alt.concat(*panels, columns=columns, spacing=_GAP, title=title)
        return joined.resolve_scale(x="independent", y="independent", yOffset="independent")

    def wrapped(self, text: str) -> Any:
        """Return a title in as many lines as it needs."""
        lines = wrap(text, int(self.whole / 7.4))
        return lines if len(lines) > 1 else text

    def legend(self, labels: Sequence[str], title: str | None = None, **style: Any) -> Any:
        """Return a legend below, in as many columns as its labels have room for; None for a single entry."""
        if len(labels) < 2:
            return None
        longest = max(map(len, labels)) * CHARACTER + 34
        columns = max(min(int(self.whole // longest), len(labels)), 1)
        return alt.Legend(
            title=title,
            orient="bottom",
            columns=columns,
            offset=10,
            labelLimit=self.whole - 30,
            titleFontWeight="normal",
            **style,
        )


def _table(columns: Mapping[str, Any]) -> Rows:
    """A table by column, row by row, in Python's own numbers."""
    values = (np.asarray(column, dtype=object).tolist() for column in columns.values())
    return [dict(zip(columns, map(as_python, row), strict=True)) for row in zip(*values, strict=True)]


def panel_title(text: str, width: float) -> Any:
    """Return the title of one of several panels."""
    lines: Any = wrap(text, max(int(width / 6.4), 8))
    said = lines if len(lines) > 1 else text
    return drawing.heading(said, fontSize=12, fontWeight="normal", frame="group", offset=6)


def _is(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or one of several."""
    return value in wanted if isinstance(wanted, list | tuple | set | frozenset) else bool(value == wanted)


def number(value: Any) -> float | None:
    """Return a value as a number, a date as a year; None for what is not there."""
    if isinstance(value, str):
        date = _DATE.match(value)
        return int(date[1]) + (int(date[2]) - 1) / 12 if date else None
    if value is None or isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def axis_of(picture: Picture, columns: Sequence[str], *, log: bool, zero: bool = False, title: str = "") -> Axis:
    """Return the axis of the numbers of columns, in the unit that suits the largest.

    Args:
        picture: Whose rows have the numbers.
        columns: All of one unit.
        log: Whether it is logarithmic.
        zero: Whether it begins at zero, as bars do; others do where they come close to it.
        title: In place of the label of the first column.
    """
    values, quantity = picture.values(*columns) or [0.0, 1.0], picture.quantity(columns[0])
    divisor, unit = quantity.scaled(max(map(abs, values)))
    low, high = min(values) / divisor, max(values) / divisor
    named = Quantity(label=title or quantity.label).titled(unit)
    money = quantity.unit == "USD"
    if log:
        room = max((high / low) ** _PADDING, 1.1)
        return Axis(title=named, low=low / room, high=high * room, divisor=divisor, is_log=True, money=money)
    if zero or 0 <= low <= 0.6 * high:
        low, high = min(low, 0.0), max(high, 0.0)
    room = _PADDING * (high - low) or 0.1 * abs(high) or 1.0
    if low == high == 0:
        return Axis(title=named, low=0.0, high=1.0, divisor=divisor, money=money)
    low = low if low == 0 else low - room
    return Axis(title=named, low=low, high=high + room if high else high, divisor=divisor, money=money)


def ticks_of(axis: Axis, quantity: Quantity, count: int, values: Sequence[float] = ()) -> Any:
    """Return the ticks of an axis: at the values themselves where they are few and the axis is logarithmic."""
    if quantity.is_year:
        return alt.Axis(format="d", tickCount=count, labelOverlap=True)
    ticks = axis.ticks(count)
    if axis.is_log and 2 <= len(values) <= count:
        ticks.values = list(values)
    ticks.labelOverlap, ticks.labelSeparation = "greedy", 6
    if axis.high >= _BILLION and quantity.unit in _IN_BILLIONS:
        ticks.labelExpr = "replace(datum.label, 'G', 'B')"
    return ticks


def by(rows: Rows, key: Callable[[dict[str, Any]], Any]) -> dict[Any, Rows]:
    """Return rows by what a function says of them, in the order in which they come."""
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
