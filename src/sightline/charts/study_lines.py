"""Lines and points of a study: figures over a number, a date, or names in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from sightline.answers.study import NOUNS
from sightline.charts import drawing
from sightline.charts.axes import Axis
from sightline.charts.plan_chart import Point, placed
from sightline.charts.study_table import (
    CHARACTER,
    DASHES,
    Picture,
    Place,
    Rows,
    axis_of,
    colors_of,
    dashes_of,
    in_order,
    number,
    ticks_of,
    units_of,
)
from sightline.exploration.growth import records

_HEIGHT, _LOW = 280, 200
"""Height of a single panel, and of one of several."""
_MOST_MARKED = 24
"""Values of x up to which lines mark each of their points."""
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_SCATTERED = 3
"""Points above which they may have names."""
_MOST_NAMED = 24
"""Points of which all may have names; of more, those above all before them."""


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """Both axes of all panels of a figure."""

    x: Axis | None
    """None where x has names."""
    y: Axis
    across: Any
    up: Any


def lines(picture: Picture) -> Any:
    """Return lines of y over x, one for each series."""
    return _drawn(picture, joined=True)


def points(picture: Picture) -> Any:
    """Return points of y over x, with the names of those that have room for it."""
    return _drawn(picture, joined=False)


def _drawn(picture: Picture, *, joined: bool) -> Any:
    layout, names = picture.layout(), _series(picture)
    several = bool(picture.figure.panel)

    def panel(rows: Rows, place: Place) -> Any:
        sides = _sides(picture, layout.width, names_y=place.first)
        values = _values(picture, rows, sides, names)
        layers = [*_break_even(picture, sides), *_fitted(picture, rows, sides, names)]
        layers += _marks(picture, values, names, sides, joined=joined)
        if not joined and not several:
            layers += _labels(picture, rows, sides, layout.width)
        return alt.layer(*layers).properties(height=_LOW if several else _HEIGHT)

    return picture.panelled(panel, layout)


def _series(picture: Picture) -> dict[str, str]:
    """What tells lines apart, by key its name in the legend: values of the series, or columns of y."""
    series = picture.figure.series
    if not series:
        return {key: picture.quantity(key).label for key in picture.ys}
    quantity = picture.quantity(series)
    named = {str(value): quantity.text(value) for value in picture.distinct(series)}
    return {key: named[key] for key in in_order(list(named))}


def _sides(picture: Picture, width: float, *, names_y: bool) -> _Sides:
    figure = picture.figure
    common = "" if len(picture.ys) == 1 else NOUNS.get(picture.quantity(picture.ys[0]).unit, "value")
    title = figure.names.get("y", common)
    y = axis_of(picture, picture.ys, log=picture.is_log("y", picture.ys), title=title)
    up = alt.Y(
        "y:Q", title=y.title if names_y else None, scale=y.scale(), axis=ticks_of(y, picture.quantity(picture.ys[0]), 6)
    )
    x, across = x_side(picture, width)
    return _Sides(x=x, y=y, across=across, up=up)


def x_side(picture: Picture, width: float) -> tuple[Axis | None, Any]:
    """Return the horizontal axis of numbers, or of names (no `Axis`), and its encoding."""
    column = picture.figure.x
    quantity = picture.quantity(column)
    if picture.is_number(column):
        x = axis_of(picture, [column], log=picture.is_log("x", [column]))
        if picture.figure.kind == "lines" and not x.is_log:
            values = [value / x.divisor for value in picture.values(column)]
            margin = 0.03 * (max(values) - min(values)) or 1.0
            x = Axis(title=x.title, low=min(values) - margin, high=max(values) + margin, divisor=x.divisor)
        marks = sorted({value / x.divisor for value in picture.values(column)})
        fits = int(width // 55)
        axis = ticks_of(x, quantity, max(fits, 2), marks)
        return x, alt.X("x:Q", title=x.title, scale=x.scale(), axis=axis)
    words = picture.words(column)
    return None, alt.X("x:N", sort=words, title=quantity.label, axis=names_axis(words, width), scale=alt.Scale())


def names_axis(words: Sequence[str], width: float) -> Any:
    """Return an axis of names, which are slanted where they would overlap."""
    wide = max(map(len, words), default=0) * CHARACTER + 2 > width / max(len(words), 1)
    slanted: dict[str, Any] = {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle"}
    return alt.Axis(
        grid=False, labelOverlap=False, labelLimit=170, labelFontSize=11, **(slanted if wide else {"labelAngle": 0})
    )


def _values(picture: Picture, rows: Rows, sides: _Sides, names: Mapping[str, str]) -> Rows:
    """A value for each row and each column of y that has one."""
    figure, found = picture.figure, []
    for column in picture.ys:
        for row in rows:
            x, y = _place(picture, row.get(figure.x), sides.x), number(row.get(column))
            if x is None or y is None:
                continue
            found.append(
                {
                    "x": x,
                    "y": y / sides.y.divisor,
                    "series": names[str(row[figure.series]) if figure.series else column],
                    "part": picture.quantity(column).label,
                    "about": about(picture, row),
                }
            )
    return found


def _units(picture: Picture, sides: _Sides) -> drawing.Units:
    """The study's columns along the axes of a panel."""
    across = {"x": (picture.figure.x, sides.x.divisor if sides.x else None)}
    return {**across, **units_of(picture, sides.y, "y")}


def _place(picture: Picture, value: Any, axis: Axis | None) -> float | str | None:
    """Where a value stands: a number in the axis's unit, or a name."""
    if axis is None:
        return picture.quantity(picture.figure.x).text(value)
    found = number(value)
    return None if found is None else found / axis.divisor


def about(picture: Picture, row: dict[str, Any]) -> str:
    """Return what a row says when it is pointed at: every column that the study shows."""
    table = picture.figure.columns or picture.answer.shown or picture.answer.columns
    keys = [key for key in table if row.get(key) is not None][:8]
    return ", ".join(f"{picture.quantity(key).heading} {picture.quantity(key).text(row[key])}" for key in keys)


def _marks(picture: Picture, values: Rows, names: Mapping[str, str], sides: _Sides, *, joined: bool) -> list[Any]:
    """Lines with their points, or points alone."""
    labels = list(names.values())
    style = {"symbolType": "stroke", "symbolStrokeWidth": 3} if joined else {}
    scale = drawing.palette(dict(zip(labels, colors_of(list(names)), strict=True)))
    series = picture.figure.series
    is_number = bool(series) and picture.is_number(series)
    legend = picture.legend(labels, picture.quantity(series).label if is_number else None, **style)
    color = alt.Color("series:N", scale=scale, legend=legend)
    several = bool(picture.figure.series) and len(picture.ys) > 1
    scaled = _units(picture, sides)
    source = drawing.of(values, scaled)
    if not joined:
        shapes = alt.Scale(domain=labels, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(labels))])
        drawn = source.mark_point(filled=True, opacity=0.9, size=56)
        shape = alt.Shape("series:N", scale=shapes, legend=legend)
        return [drawn.encode(x=sides.across, y=sides.up, color=color, shape=shape, tooltip=_tooltip())]
    dash = _dash(picture, labels, legend, several=several)
    line = source.mark_line(strokeWidth=2, clip=True)
    order = {"order": "x:Q"} if sides.x else {}
    drawn = [line.encode(x=sides.across, y=sides.up, color=color, detail=alt.Detail("part:N"), **dash, **order)]
    if len({value["x"] for value in values}) <= _MOST_MARKED:
        dots = source.mark_point(filled=True, size=30, opacity=1)
        drawn.append(dots.encode(x=sides.across, y=sides.up, color=color, tooltip=_tooltip()))
    return drawn


def _fitted(picture: Picture, rows: Rows, sides: _Sides, names: Mapping[str, str]) -> list[Any]:
    """The lines that were fitted to points, in the color of their series."""
    figure = picture.figure
    if not figure.line or sides.x is None:
        return []
    colors = dict(zip(names.values(), colors_of(list(names)), strict=True))
    places = [
        {
            "x": x / sides.x.divisor,
            "y": y / sides.y.divisor,
            "series": names[str(row[figure.series]) if figure.series else picture.ys[0]],
        }
        for row in rows
        if (x := number(row.get(figure.x))) is not None and (y := number(row.get(figure.line))) is not None
    ]
    if not places:
        return []
    fitted = {**_units(picture, sides), "y": (figure.line, sides.y.divisor)}
    drawn = drawing.of(places, fitted).mark_line(strokeWidth=1.5, opacity=0.7, clip=True)
    color = alt.Color("series:N", scale=drawing.palette(colors), legend=picture.legend(list(colors)))
    return [drawn.encode(x=sides.across, y=sides.up, color=color, order=alt.Order("x:Q"))]


def _dash(picture: Picture, labels: Sequence[str], legend: Any, *, several: bool) -> dict[str, Any]:
    """Dashes tell columns of y apart where colors tell series, or lines where colors begin again."""
    if several:
        parts = [picture.quantity(column).label for column in picture.ys]
        scale = alt.Scale(domain=parts, range=list(DASHES[: len(parts)]))
        return {"strokeDash": alt.StrokeDash("part:N", scale=scale, legend=picture.legend(parts))}
    dashes = dashes_of(len(labels))
    if len({tuple(dash) for dash in dashes}) == 1:
        return {}
    return {"strokeDash": alt.StrokeDash("series:N", scale=alt.Scale(domain=labels, range=dashes), legend=legend)}


def _tooltip() -> Any:
    return alt.Tooltip("about:N", title=" ")


def _break_even(picture: Picture, sides: _Sides) -> list[Any]:
    """A dashed line at break-even, where values lie on both sides of it."""
    level = crossed(picture, picture.ys)
    if level is None:
        return []
    mark = drawing.of([{"y": level / sides.y.divisor, "text": "break-even"}])
    rule = mark.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=drawing.WARNING)
    words = mark.mark_text(align="left", baseline="bottom", dx=4, dy=-3, fontSize=11, color=drawing.WARNING)
    up = alt.Y("y:Q", scale=sides.y.scale())
    return [rule.encode(y=up), words.encode(x=alt.value(0), y=up, text=alt.Text("text:N"))]


def crossed(picture: Picture, columns: Sequence[str]) -> float | None:
    """Return break-even, if values of columns lie on both sides of it."""
    level, values = picture.figure.break_even, picture.values(*columns)
    return level if level is not None and values and min(values) < level < max(values) else None


def _labels(picture: Picture, rows: Rows, sides: _Sides, width: float) -> list[Any]:
    """The names of points, as far as they overlap neither each other nor a point."""
    name = _names_rows(picture, rows)
    if name is None or sides.x is None:
        return []
    found = [(number(row.get(picture.figure.x)), number(row.get(picture.ys[0])), str(row[name])) for row in rows]
    there = [(x, y, label) for x, y, label in found if x is not None and y is not None]
    best = records([x for x, _, _ in there], [y for _, y, _ in there])
    several = len(there) > _MOST_NAMED
    shown = [
        Point(x=x, y=y, label=label if is_best or not several else "", on_front=bool(is_best))
        for (x, y, label), is_best in zip(there, best, strict=True)
    ]
    layers = []
    for point, (right, down, align, baseline) in placed(shown, sides.x, sides.y, width):
        if not point.label:
            continue
        text = drawing.of([{"x": point.x / sides.x.divisor, "y": point.y / sides.y.divisor, "text": point.label}])
        marks = text.mark_text(
            align=align, baseline=baseline, dx=right * 4, dy=down * 4, fontSize=10, color=drawing.INK
        )
        layers.append(marks.encode(x=sides.across, y=sides.up, text=alt.Text("text:N")))
    return layers


def _names_rows(picture: Picture, rows: Rows) -> str | None:
    """The column of words that names each row, other than the series."""
    for key, value in (rows[0] if rows else {}).items():
        if key not in (picture.figure.series, picture.figure.x) and isinstance(value, str):
            values = [row[key] for row in rows]
            if len({*values}) == len(rows) > _SCATTERED and not picture.is_number(key):
                return str(key)
    return None
