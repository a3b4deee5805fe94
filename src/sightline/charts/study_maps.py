"""Maps of a study: a level, or a figure, over two axes, with its text in each cell that has room for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, e, log
from typing import Any, Literal

import altair as alt
import numpy as np

from sightline.answers import units
from sightline.answers.study import Quantity, numeric
from sightline.charts import drawing
from sightline.charts.axes import decade_ticks
from sightline.charts.study_lines import about, crossed, names_axis
from sightline.charts.study_table import (
    CHARACTER,
    DARK_TEXT,
    LIGHT_TEXT,
    LINE,
    Names,
    Picture,
    Place,
    Rows,
    colors_of,
    in_order,
    names_of,
    number,
    text_on,
)

_SPREAD = 12.0
"""Largest over smallest value from which colors are logarithmic."""


class LevelShades:
    """Cells in the colors of levels or other words."""

    def __init__(self, picture: Picture, value: str) -> None:
        self.quantity: Quantity = picture.quantity(value)
        keys = in_order([str(one) for one in picture.distinct(value)])
        self.colors = dict(zip(keys, colors_of(keys), strict=True))
        labels = [self.quantity.text(key) for key in keys]
        scale = drawing.palette(dict(zip(labels, self.colors.values(), strict=True)))
        legend = picture.legend([*labels, ""][: max(len(labels), 2)], symbolType="square")
        self.color = alt.Color("shade:N", scale=scale, legend=legend)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        label = self.quantity.text(value)
        return {"shade": label, "text": label, "short": label, "ink": text_on(self.colors[str(value)])}


class FigureShades:
    """Cells in shades: more is darker, or the ratios on both sides of break-even in a color of their own."""

    def __init__(self, picture: Picture, value: str) -> None:
        quantity: Quantity = picture.quantity(value)
        values = picture.values(value) or [0.0, 1.0]
        self.divisor, unit = quantity.scaled(max(map(abs, values)))
        self.low, self.high = min(values) / self.divisor, max(values) / self.divisor
        self.counts = all((value / self.divisor).is_integer() for value in values)
        self.is_log = self.low > 0 and self.high / self.low > _SPREAD
        self.middle = crossed(picture, [value])
        if self.middle is not None:
            reach = max(self._from_middle(self.low), self._from_middle(self.high))
            self.low, self.high = self.middle / e**reach, self.middle * e**reach
        self.color = alt.Color(
            "shade:Q",
            scale=self._scale(),
            legend=alt.Legend(
                title=quantity.titled(unit),
                orient="bottom",
                gradientLength=min(picture.whole * 0.5, 260),
                gradientThickness=10,
                titleFontWeight="normal",
                format="~s" if self.high >= 1e4 else ",~f" if self._is_linear else "~g",
                labelOverlap="greedy",
                **({"tickCount": 4} if self._is_linear else {"values": decade_ticks(self.low, self.high)}),
            ),
        )

    @property
    def _is_linear(self) -> bool:
        return self.middle is None and not self.is_log

    def _scale(self) -> Any:
        kind: dict[str, Any] = {} if self._is_linear else {"type": "log"}
        scheme: Literal["blues", "redblue"] = "blues" if self.middle is None else "redblue"
        return alt.Scale(scheme=scheme, domain=[self.low, self.high], nice=False, **kind)

    def _from_middle(self, value: float) -> float:
        """How far a value is from break-even, as colors see it."""
        return abs(log(value / (self.middle or 1.0)))

    def _place(self, value: float) -> float:
        """How dark a value is, from 0 to 1."""
        if self.high <= self.low:
            return 1.0
        if self.middle is not None:
            return self._from_middle(value) / self._from_middle(self.high)
        if self.is_log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        figure = number(value)
        if figure is None:
            return None
        shown = figure / self.divisor
        text = (
            f"{shown:,.0f}"
            if self.counts or abs(shown) >= 100
            else f"{shown:.2f}"
            if abs(shown) >= 0.1
            else f"{shown:.2g}"
        )
        short = units.count(float(f"{shown:.2g}")).replace(" ", "") if abs(shown) >= 1000 else text
        ink = LIGHT_TEXT if self._place(shown) > 0.6 else DARK_TEXT
        return {"shade": shown, "text": text, "short": short, "ink": ink}


Shades = LevelShades | FigureShades


_MOST_CELLS = 48
"""Values of an axis that are drawn; of more, evenly chosen ones."""
_CELL = 30
"""Height of a cell with a text."""
_LEAST_TEXT = 16
"""Height of a cell that has room for a text."""
_TITLE = 5.6
"""Pixels of a character of an axis's title."""
_FINE = 30
"""Cells in a row from which they have no edges."""


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One axis of the map: values that are drawn and their names."""

    values: Sequence[Any]
    names: Sequence[str]
    title: str

    @property
    def index(self) -> dict[Any, int]:
        return {value: position for position, value in enumerate(self.values)}


def heat_map(picture: Picture) -> Any:
    """Return the map: y by x, in the colors of the series."""
    figure = picture.figure
    value = figure.series or picture.ys[-1]
    across, up = _side(picture, figure.x), _side(picture, picture.ys[0])
    names = names_of(up.names, picture.room)
    layout = picture.layout(
        least=min(len(across.names) * 34.0, 300.0), labels=names.width / 2 + 10, shared=names.width + 20
    )
    step = _height_of_cell(len(up.names), names)
    if _is_figure(up):
        # The title of the axis runs along it.
        step = max(step, (len(up.title) * _TITLE + 10) / len(up.names))
    paint: Shades = (FigureShades if picture.is_number(value) else LevelShades)(picture, value)
    shown = np.isin(picture.columns[figure.x], across.values) & np.isin(picture.columns[picture.ys[0]], up.values)
    rows = picture.rows_of(shown)
    style = _style(_cells(picture, rows, across, up, value, paint), layout.width / max(len(across.names), 1), step)

    def panel(of_panel: Rows, place: Place) -> Any:
        cells = _cells(picture, of_panel, across, up, value, paint)
        x, y = _x(across, layout.width, named=place.last), _y(up, names, named=place.first)
        rectangles = _rectangles(cells, x, y, paint.color, edges=len(across.names) < _FINE)
        layers = alt.layer(rectangles, *_texts(cells, style), *_borders(cells, value, crossed(picture, [value])))
        return layers.properties(height=step * len(up.names))

    return picture.panelled(panel, layout, rows=rows, subtitle=_about_line(picture, value))


def _about_line(picture: Picture, value: str) -> str:
    """What the line through a map is; empty where there is none."""
    level = crossed(picture, [value])
    return "" if level is None else f"line: break-even, where {picture.quantity(value).label} is {level:g}"


def _height_of_cell(count: int, names: Names) -> float:
    return max(min(_CELL, 420 / count), 5) if count > 14 else max(_CELL, names.height)


def _side(picture: Picture, column: str) -> _Side:
    values, quantity = picture.distinct(column), picture.quantity(column)
    if len(values) > _MOST_CELLS:
        values = values[:: ceil(len(values) / _MOST_CELLS)]
    if not numeric(values):
        return _Side(values=values, names=[quantity.text(value) for value in values], title=quantity.label)
    divisor, unit = quantity.scaled(max(map(abs, values)))
    names = [_short(value / divisor) for value in values]
    if len({*names}) < len(names):
        names = [f"{value / divisor:.6g}" for value in values]
    return _Side(values=values, names=names, title=quantity.titled(unit))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _cells(picture: Picture, rows: Rows, across: _Side, up: _Side, value: str, paint: Shades) -> Rows:
    """A cell for each row that is drawn; where several rows have one place, the first."""
    xs, ys = across.index, up.index
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        place = (xs.get(row[picture.figure.x], -1), ys.get(row[picture.ys[0]], -1))
        if min(place) < 0 or row.get(value) is None or place in found:
            continue
        said = paint.of(row[value])
        if said is not None:
            x, y = place
            found[place] = {
                **said,
                picture.figure.x: row[picture.figure.x],
                picture.ys[0]: row[picture.ys[0]],
                value: row[value],
                "at_x": x,
                "at_y": y,
                "about": about(picture, row),
            }
    return list(found.values())


def _rectangles(cells: Rows, x: Any, y: Any, color: Any, *, edges: bool) -> Any:
    mark = drawing.of(cells).mark_rect(stroke="white", strokeWidth=0.5 if edges else 0)
    return mark.encode(x=x, y=y, color=color, tooltip=alt.Tooltip("about:N", title=" "))


def _x(across: _Side, width: float, *, named: bool) -> Any:
    """The horizontal axis, with names below the last row of panels alone."""
    axis = names_axis(across.names, width)
    if len(across.names) * 14 > width:
        axis = alt.Axis(grid=False, labelOverlap=True, labelAngle=0)
    axis.labels = named
    title = across.title if named else None
    return alt.X("at_x:O", title=title, axis=_named(axis, across.names), scale=_band(len(across.names)))


def _y(up: _Side, names: Names, *, named: bool) -> Any:
    """The vertical axis, with names in the first column of panels alone; numbers grow upward, words stand in order."""
    axis = names.axis(shown=named) if len(up.names) <= 30 else alt.Axis(grid=False, labelOverlap=True, labels=named)
    lines = [names.lines[name] for name in up.names]
    title = up.title if named and _is_figure(up) else None
    scale = _band(len(up.names), upward=_is_figure(up))
    return alt.Y("at_y:O", title=title, axis=_named(axis, lines), scale=scale)


def _is_figure(side: _Side) -> bool:
    return numeric(side.values)


def _band(count: int, *, upward: bool = False) -> Any:
    """Positions from left to right or from top to bottom; ``upward``, from bottom to top."""
    return alt.Scale(domain=list(range(count))[:: -1 if upward else 1], padding=0)


def _named(axis: Any, names: Sequence[str]) -> Any:
    """An axis of positions with the names that stand there."""
    import json

    axis.labelExpr = f"{json.dumps(list(names))}[datum.value]"
    if any("\n" in name for name in names):
        # A label of several lines begins at the middle of its row, if it is not raised.
        lines = {count: [i for i, name in enumerate(names) if name.count("\n") + 1 == count] for count in (2, 3, 4)}
        axis.labelOffset = {
            "condition": [
                {"test": f"indexof({json.dumps(those)}, datum.value) >= 0", "value": -LINE / 2 * (count - 1)}
                for count, those in lines.items()
            ],
            "value": 0,
        }
    return axis


def _style(cells: Rows, width: float, height: float) -> tuple[str, int] | None:
    """Which text all cells have room for, and its size; None where they have room for none."""
    for key, size in (("text", 11), ("text", 9), ("short", 10), ("short", 9)):
        longest = max((len(cell[key]) for cell in cells), default=0)
        if longest * CHARACTER * size / 12 + 4 <= width and height >= _LEAST_TEXT:
            return key, size
    return None


def _texts(cells: Rows, style: tuple[str, int] | None) -> list[Any]:
    """The text of each cell."""
    if style is None:
        return []
    texts = []
    for ink in (LIGHT_TEXT, DARK_TEXT):
        found = [cell for cell in cells if cell["ink"] == ink]
        if found:
            mark = drawing.of(found).mark_text(fontSize=style[1], color=ink)
            texts.append(mark.encode(x=alt.X("at_x:O"), y=alt.Y("at_y:O"), text=alt.Text(f"{style[0]}:N")))
    return texts


def _borders(cells: Rows, value: str, level: float | None) -> list[Any]:
    """The line between cells on either side of break-even."""
    if level is None:
        return []
    at = {(cell["at_x"], cell["at_y"]): cell[value] >= level for cell in cells}
    right = [{"at_x": x, "at_y": y} for (x, y), above in at.items() if at.get((x + 1, y), above) != above]
    upper = [{"at_x": x, "at_y": y} for (x, y), above in at.items() if at.get((x, y + 1), above) != above]
    column, row = alt.X("at_x:O", bandPosition=0), alt.Y("at_y:O", bandPosition=0)
    down = {"x": alt.X("at_x:O", bandPosition=1), "y": row, "y2": alt.Y2("at_y", bandPosition=1)}
    along = {"x": column, "y": row, "x2": alt.X2("at_x", bandPosition=1)}
    return [
        drawing.of(edges).mark_rule(strokeWidth=2.5, color=DARK_TEXT).encode(**sides)
        for edges, sides in ((right, down), (upper, along))
        if edges
    ]
