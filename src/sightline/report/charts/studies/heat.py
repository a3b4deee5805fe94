"""Maps of a study: a level, or a figure, over two axes, with its text in each cell that has room for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import altair as alt

from sightline.report import units
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.studies.colors import DARK_TEXT, LIGHT_TEXT, colors_of, in_order, text_on
from sightline.report.charts.studies.data import CHARACTER, Picture, Rows, number, panel_title
from sightline.report.charts.studies.lines import about, break_even, names_axis
from sightline.report.charts.studies.rows import Names, names_of
from sightline.report.studies.levels import LEVELS
from sightline.report.studies.quantities import Quantity, numeric

_MOST_CELLS = 48
"""Values of an axis that are drawn; of more, evenly chosen ones."""
_CELL = 30
"""Height of a cell with a text."""
_SPREAD = 12.0
"""Largest over smallest value from which colors are logarithmic."""
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
    panels = picture.panels
    names = names_of(up.names, picture.room)
    columns = picture.columns(len(panels), least=min(len(across.names) * 34.0, 300.0), beside=names.width / 2 + 10)
    width = (picture.whole - names.width - 20 - (columns - 1) * 30) / columns
    step = _height_of_cell(len(up.names), names)
    if _is_figure(up):
        # The title of the axis runs along it.
        step = max(step, (len(up.title) * _TITLE + 10) / len(up.names))
    paint = _Levels(picture, value) if not numeric(picture.distinct(value)) else _Figures(picture, value)
    built = []
    for position, (title, rows) in enumerate(panels):
        cells = _cells(picture, rows, across, up, value, paint)
        layers = [
            _rectangles(
                cells,
                _x(across, width, named=position + columns >= len(panels)),
                _y(up, names, named=position % columns == 0),
                paint.color,
                edges=len(across.names) < _FINE,
            ),
            *_texts(cells, width / max(len(across.names), 1), step),
            *_borders(picture, cells, value),
        ]
        panel = alt.layer(*layers).properties(width=width, height=step * len(up.names))
        built.append(panel.properties(title=panel_title(title, width)) if title else panel)
    said = (
        f"line: break-even, where {picture.quantity(value).label} is {break_even(value):g}"
        if _crossed(picture, value)
        else ""
    )
    return picture.together(built, columns, said)


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


def _cells(picture: Picture, rows: Rows, across: _Side, up: _Side, value: str, paint: "_Levels | _Figures") -> Rows:
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
                "x": across.names[x],
                "y": up.names[y],
                "column": x,
                "row": y,
                "figure": number(row[value]),
                "about": about(picture, row),
            }
    return list(found.values())


class _Levels:
    """Cells in the colors of levels or other words."""

    def __init__(self, picture: Picture, value: str) -> None:
        keys = in_order([str(one) for one in picture.distinct(value)])
        self.colors = dict(zip(keys, colors_of(keys), strict=True))
        labels = [LEVELS.get(key, key) for key in keys]
        scale = drawing.palette(dict(zip(labels, self.colors.values(), strict=True)))
        legend = picture.legend([*labels, ""][: max(len(labels), 2)], symbolType="square")
        self.color = alt.Color("value:N", scale=scale, legend=legend)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        label = LEVELS.get(str(value), str(value))
        return {"value": label, "text": label, "short": label, "ink": text_on(self.colors[str(value)])}


class _Figures:
    """Cells in shades: more is darker, or both sides of break-even in a color of their own."""

    def __init__(self, picture: Picture, value: str) -> None:
        self.quantity: Quantity = picture.quantity(value)
        values = picture.values(value) or [0.0, 1.0]
        self.divisor, unit = self.quantity.scaled(max(map(abs, values)))
        self.low, self.high = min(values) / self.divisor, max(values) / self.divisor
        self.is_log = self.low > 0 and self.high / self.low > _SPREAD
        self.middle = break_even(value) if _crossed(picture, value) else None
        self.color = alt.Color(
            "value:Q",
            scale=self._scale(),
            legend=alt.Legend(
                title=self.quantity.titled(unit),
                orient="bottom",
                gradientLength=min(picture.whole * 0.5, 260),
                gradientThickness=10,
                titleFontWeight="normal",
                format="~s" if self.high >= 1e4 else "~g",
                labelOverlap="greedy",
                **self._ticks(),
            ),
        )

    def _scale(self) -> Any:
        if self.middle is None:
            kind: dict[str, Any] = {"type": "log"} if self.is_log else {}
            return alt.Scale(scheme="blues", domain=[self.low, self.high], nice=False, **kind)
        reach = max(self._from_middle(self.low), self._from_middle(self.high))
        if self.is_log or self.middle == 1.0:
            ends = [self.middle / 2.718281828**reach, self.middle * 2.718281828**reach]
            return alt.Scale(type="log", scheme="redblue", domain=ends, nice=False)
        return alt.Scale(scheme="redblue", domain=[-reach, reach], nice=False)

    def _ticks(self) -> dict[str, Any]:
        """Marks of the legend's colors."""
        return {"values": decade_ticks(self.low, self.high)} if self.is_log or self.middle == 1.0 else {"tickCount": 4}

    def _from_middle(self, value: float) -> float:
        """How far a value is from break-even, as colors see it."""
        if self.middle == 1.0:
            return abs(log(max(value, 1e-9)))
        return abs(value)

    def _place(self, value: float) -> float:
        """How dark a value is, from 0 to 1."""
        if self.middle is not None:
            return self._from_middle(value) / (max(self._from_middle(self.low), self._from_middle(self.high)) or 1.0)
        if self.high <= self.low:
            return 1.0
        if self.is_log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        figure = number(value)
        if figure is None:
            return None
        shown = figure / self.divisor
        text = f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:.2f}" if abs(shown) >= 0.1 else f"{shown:.2g}"
        short = units.count(float(f"{shown:.2g}")).replace(" ", "") if abs(shown) >= 1000 else text
        return {
            "value": shown,
            "text": text,
            "short": short,
            "ink": LIGHT_TEXT if self._place(shown) > 0.6 else DARK_TEXT,
        }


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
    return alt.X("column:O", title=title, axis=_named(axis, across.names), scale=_band(len(across.names)))


def _y(up: _Side, names: Names, *, named: bool) -> Any:
    """The vertical axis, with names in the first column of panels alone; numbers grow upward, words stand in order."""
    axis = names.axis(shown=named) if len(up.names) <= 30 else alt.Axis(grid=False, labelOverlap=True, labels=named)
    lines = [names.lines[name] for name in up.names]
    title = up.title if named and _is_figure(up) else None
    scale = _band(len(up.names), upward=_is_figure(up))
    return alt.Y("row:O", title=title, axis=_named(axis, lines), scale=scale)


def _is_figure(side: _Side) -> bool:
    return numeric(side.values)


def _band(count: int, *, upward: bool = False) -> Any:
    """Positions from left to right or from top to bottom; ``upward``, from bottom to top."""
    return alt.Scale(domain=list(range(count))[:: -1 if upward else 1], padding=0)


def _named(axis: Any, names: Sequence[str]) -> Any:
    """An axis of positions with the names that stand there."""
    import json

    axis.labelExpr = f"{json.dumps(list(names))}[datum.value]"
    return axis


def _texts(cells: Rows, width: float, height: float) -> list[Any]:
    """The text of each cell, if all have room for theirs."""
    for key, size in (("text", 11), ("text", 9), ("short", 10), ("short", 9)):
        longest = max((len(cell[key]) for cell in cells), default=0)
        if longest * CHARACTER * size / 12 + 4 <= width and height >= _LEAST_TEXT:
            break
    else:
        return []
    texts = []
    for ink in (LIGHT_TEXT, DARK_TEXT):
        found = [cell for cell in cells if cell["ink"] == ink]
        if found:
            mark = drawing.of(found).mark_text(fontSize=size, color=ink)
            texts.append(mark.encode(x="column:O", y="row:O", text=f"{key}:N"))
    return texts


def _crossed(picture: Picture, value: str) -> bool:
    """Whether a figure lies on both sides of its break-even."""
    level, values = break_even(value), picture.values(value)
    return level is not None and bool(values) and min(values) < level < max(values)


def _borders(picture: Picture, cells: Rows, value: str) -> list[Any]:
    """The line between cells on either side of break-even."""
    if not _crossed(picture, value):
        return []
    level = break_even(value)
    at = {(cell["column"], cell["row"]): cell["figure"] >= level for cell in cells}
    found = []
    for (x, y), above in at.items():
        if at.get((x + 1, y), above) != above:
            found.append((drawing.of([{"column": x, "row": y}]), "x"))
        if at.get((x, y + 1), above) != above:
            found.append((drawing.of([{"column": x, "row": y}]), "y"))
    return _edges(found)


def _edges(found: Sequence[tuple[Any, str]]) -> list[Any]:
    layers = []
    for source, side in found:
        mark = source.mark_rule(strokeWidth=2.5, color=DARK_TEXT)
        if side == "x":
            layers.append(
                mark.encode(
                    x=alt.X("column:O", bandPosition=1),
                    y=alt.Y("row:O", bandPosition=0),
                    y2=alt.Y2("row", bandPosition=1),
                )
            )
        else:
            layers.append(
                mark.encode(
                    y=alt.Y("row:O", bandPosition=0),
                    x=alt.X("column:O", bandPosition=0),
                    x2=alt.X2("column", bandPosition=1),
                )
            )
    return layers
