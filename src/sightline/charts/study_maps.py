"""Maps of a study: a level, or a figure, over two axes, with its text in each cell that has room for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import ceil, e, log
from typing import Any

import numpy as np

from sightline.answers import units
from sightline.answers.study import numeric
from sightline.charts import study_table
from sightline.charts.drawing import DARK_TEXT, FAINT, LIGHT_TEXT, LINE, text_on
from sightline.charts.figure import Axis, Group, Mark, Panel, Series, decade_ticks, mark, names, words
from sightline.charts.study_lines import names_below

_MOST_CELLS = 48
"""Values of an axis that are drawn; of more, evenly chosen ones."""
_CELL = 30
"""Height of a cell with a text."""
_TITLE = 5.6
"""Pixels of a character of an axis's title."""
_FINE = 30
"""Cells in a row from which they have no edges."""
_SPREAD = 12.0
"""Largest over smallest value from which colors are logarithmic."""


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One axis of the map: values that are drawn and their names."""

    values: Sequence[Any]
    names: Sequence[str]
    title: str

    @cached_property
    def name_of(self) -> dict[Any, str]:
        return dict(zip(self.values, self.names, strict=True))

    @property
    def is_figure(self) -> bool:
        """Whether its values are numbers, which grow upward; words stand in order."""
        return numeric(self.values)


def heat_map(picture: study_table.Picture) -> Panel | Group:
    """Return the map: y by x, in the colors of the series."""
    figure = picture.figure
    value = figure.series or picture.ys[-1]
    across, up = _side(picture, figure.x), _side(picture, picture.ys[0])
    named = study_table.names_of(up.names, picture.room)
    layout = picture.layout(
        least=min(len(across.names) * 34.0, 300.0), labels=named.width / 2 + 10, shared=named.width + 20
    )
    count = len(up.names)
    step = max(min(_CELL, 420 / count), 5) if count > 14 else max(_CELL, named.height)
    if up.is_figure:
        # The title of the axis runs along it.
        step = max(step, (len(up.title) * _TITLE + 10) / count)
    paint = (_FigureShades if picture.is_number(value) else _LevelShades)(picture, value)
    shown = np.isin(picture.columns[figure.x], across.values) & np.isin(picture.columns[picture.ys[0]], up.values)
    rows = picture.rows_of(shown)
    wide = layout.width / max(len(across.names), 1)
    style = _style(_cells(picture, rows, across, up, value, paint), wide, step)
    x, lines = _below(across, layout.width), [named.lines[name] for name in up.names]
    level = picture.crossed([value])
    blanks = (cell["about"] for _, part in picture.split(rows) for cell in _blank(picture, part, across, up))
    grey = ", ".join(dict.fromkeys(blanks))

    def panel(rows_of_panel: study_table.Rows, place: study_table.Place) -> Panel:
        cells = _cells(picture, rows_of_panel, across, up, value, paint)
        cells = [{**cell, "at_y": named.lines[cell["at_y"]]} for cell in cells]
        edge = 0.5 if len(across.names) < _FINE else 0
        looks = {"color": paint.color, "stroke": "white", "strokeWidth": edge, "tooltip": [("about", "", " ")]}
        marks = [mark("rect", cells, x="at_x", y="at_y", **looks), *_texts(cells, style)]
        if blank := _blank(picture, rows_of_panel, across, up):
            blank = [{**cell, "at_y": named.lines[cell["at_y"]]} for cell in blank]
            marks += [
                mark("rect", blank, x="at_x", y="at_y", **{**looks, "color": LINE}),
                *_texts(blank, _style(blank, wide, step)),
            ]
        if level is not None:
            marks += _borders(cells, x.names or (), lines, {(c["at_x"], c["at_y"]): c[value] >= level for c in cells})
        title = up.title if place.first and up.is_figure else None
        order = lines[::-1] if up.is_figure else lines
        many = {} if count <= 30 else {"labelOverlap": True}
        y = replace(named.axis(order, {"padding": 0}, shown=place.first, **many), title=title, names=None)
        bottom = x if place.last else replace(x, title=None, ticks={**x.ticks, "labels": False})
        return Panel(x=bottom, y=y, marks=marks, height=step * count)

    about = [f"line: break-even, where {picture.quantity(value).label} is {level:g}"] if level is not None else []
    about += [f"grey: {grey}"] if grey else []
    return picture.panelled(panel, layout, rows=rows, subtitle="; ".join(about))


def _below(across: _Side, width: float) -> Axis:
    scale = {"domain": list(across.names), "padding": 0}
    if len(across.names) * 14 > width:
        x = names(across.names, scale=scale, labelOverlap=True, labelAngle=0)
    else:
        x = names_below(across.names, width, scale)
    return replace(x, title=across.title)


def _side(picture: study_table.Picture, column: str) -> _Side:
    values, quantity = picture.distinct(column), picture.quantity(column)
    if len(values) > _MOST_CELLS:
        values = values[:: ceil(len(values) / _MOST_CELLS)]
    if not numeric(values):
        return _Side(values=values, names=[quantity.text(value) for value in values], title=quantity.label)
    divisor, unit = quantity.scaled(max(map(abs, values)))
    scaled = [value / divisor for value in values]
    short = [f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" for value in scaled]
    if len({*short}) < len(short):
        short = [f"{value:.6g}" for value in scaled]
    return _Side(values=values, names=short, title=quantity.titled(unit))


def _cells(
    picture: study_table.Picture, rows: study_table.Rows, across: _Side, up: _Side, value: str, paint: "_Shades"
) -> study_table.Rows:
    """A cell for each row that is drawn; where several rows have one place, the first."""
    x, y = picture.figure.x, picture.ys[0]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        place = across.name_of.get(row[x], ""), up.name_of.get(row[y], "")
        if not all(place) or row.get(value) in (None, "") or place in found:
            continue
        looks = paint.of(row[value])
        if looks is not None:
            at = {"at_x": place[0], "at_y": place[1], "about": picture.about_row(row)}
            found[place] = {**looks, x: row[x], y: row[y], value: row[value], **at}
    return list(found.values())


def _blank(picture: study_table.Picture, rows: study_table.Rows, across: _Side, up: _Side) -> study_table.Rows:
    """The cells without a value and why: what the figure calls a missing one, or that there is no such point."""
    value = picture.figure.series or picture.ys[-1]
    known = {(across.name_of.get(row[picture.figure.x]), up.name_of.get(row[picture.ys[0]])): row for row in rows}
    return [
        {"at_x": x, "at_y": y, "about": why, "text": why, "short": "\n".join(why.rsplit(" ", 1)), "ink": FAINT}
        for x in across.names
        for y in up.names
        if (known.get((x, y)) or {}).get(value) in (None, "")
        for why in [picture.figure.missing or "no value" if (x, y) in known else "not possible"]
    ]


def _style(cells: study_table.Rows, width: float, height: float) -> tuple[str, int] | None:
    """Which text all cells have room for, and its size; None where they have room for none."""
    for key, size in (("text", 11), ("text", 9), ("short", 10), ("short", 9)):
        lines = [line for cell in cells for line in cell[key].split("\n")]
        longest, most = max(map(len, lines), default=0), len(lines) / max(len(cells), 1)
        if longest * study_table.CHARACTER * size / 12 + 4 <= width and height >= study_table.LINE * most + 3:
            return key, size
    return None


def _texts(cells: study_table.Rows, style: tuple[str, int] | None) -> list[Mark]:
    """The text of each cell."""
    if style is None:
        return []
    key, size = style
    raised = -0.55 * size * cells[0][key].count("\n") if cells else 0
    looks = {"x": "at_x", "y": "at_y", "text": key, "align": None, "dx": 0, "dy": raised, "fontSize": size}
    inks = {ink: [cell for cell in cells if cell["ink"] == ink] for ink in (LIGHT_TEXT, DARK_TEXT, FAINT)}
    return [words(rows, color=ink, **looks) for ink, rows in inks.items() if rows]


def _borders(
    cells: study_table.Rows, across: Sequence[str], up: Sequence[str], is_above: Mapping[tuple[str, str], bool]
) -> list[Mark]:
    """The line between cells on either side of break-even."""
    right, upper = dict(pairwise(across)), dict(pairwise(up))
    begin, end = ({"field": "at_x", "bandPosition": place} for place in (0, 1))
    top, bottom = ({"field": "at_y", "bandPosition": place} for place in (0, 1))
    sides = (
        ([c for c in cells if _differs(is_above, c, (right.get(c["at_x"]), c["at_y"]))], end, top, {"y2": bottom}),
        ([c for c in cells if _differs(is_above, c, (c["at_x"], upper.get(c["at_y"])))], begin, top, {"x2": end}),
    )
    return [
        mark(
            "rule",
            [{"at_x": c["at_x"], "at_y": c["at_y"]} for c in edges],
            x=x,
            y=y,
            strokeWidth=2.5,
            color=DARK_TEXT,
            **other,
        )
        for edges, x, y, other in sides
        if edges
    ]


def _differs(is_above: Mapping[tuple[str, str], bool], cell: Mapping[str, Any], next_to: Any) -> bool:
    here = is_above[cell["at_x"], cell["at_y"]]
    return is_above.get(next_to, here) != here


class _LevelShades:
    """Cells in the colors of levels or other words."""

    def __init__(self, picture: study_table.Picture, value: str) -> None:
        self.quantity = picture.quantity(value)
        keys = study_table.in_order([str(one) for one in picture.distinct(value) if one != ""])
        self.colors = dict(zip(keys, study_table.colors_of(keys), strict=True))
        looks = {self.quantity.text(key): color for key, color in self.colors.items()}
        legend = picture.legend([*looks, ""][: max(len(looks), 2)], symbolType="square")
        self.color: Series | dict[str, Any] = Series(column="shade", looks=looks, legend=legend)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        label = self.quantity.text(value)
        return {"shade": label, "text": label, "short": label, "ink": text_on(self.colors[str(value)])}


class _FigureShades:
    """Cells in shades: more is darker, or the ratios on both sides of break-even in a color of their own."""

    def __init__(self, picture: study_table.Picture, value: str) -> None:
        quantity = picture.quantity(value)
        values = picture.values(value) or [0.0, 1.0]
        self.divisor, unit = quantity.scaled(max(map(abs, values)))
        self.low, self.high = min(values) / self.divisor, max(values) / self.divisor
        self.counts = all((value / self.divisor).is_integer() for value in values)
        self.is_log = self.low > 0 and self.high / self.low > _SPREAD
        self.middle = picture.crossed([value])
        if self.middle is not None:
            reach = max(self._from_middle(self.low), self._from_middle(self.high))
            self.low, self.high = self.middle / e**reach, self.middle * e**reach
        is_linear = self.middle is None and not self.is_log
        legend = {
            "title": quantity.titled(unit),
            "orient": "bottom",
            "gradientLength": min(picture.whole * 0.5, 260),
            "gradientThickness": 10,
            "titleFontWeight": "normal",
            "format": "~s" if self.high >= 1e4 else ",~f" if is_linear else "~g",
            "labelOverlap": "greedy",
            **({"tickCount": 4} if is_linear else {"values": decade_ticks(self.low, self.high)}),
        }
        scheme = "blues" if self.middle is None else "redblue"
        scale = {"scheme": scheme, "domain": [self.low, self.high], "nice": False}
        scale |= {} if is_linear else {"type": "log"}
        self.color: Series | dict[str, Any] = {
            "field": "shade",
            "type": "quantitative",
            "scale": scale,
            "legend": legend,
        }

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
        figure = study_table.number(value)
        if figure is None:
            return None
        shown = figure / self.divisor
        decimals = ",.0f" if self.counts or abs(shown) >= 100 else ".2f" if abs(shown) >= 0.1 else ".2g"
        text = f"{shown:{decimals}}"
        short = units.count(float(f"{shown:.2g}")).replace(" ", "") if abs(shown) >= 1000 else text
        ink = LIGHT_TEXT if self._place(shown) > 0.6 else DARK_TEXT
        return {"shade": shown, "text": text, "short": short, "ink": ink}


_Shades = _LevelShades | _FigureShades
