"""Lines and points of a study: figures over a number, a date, or names in order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sightline.answers.study import NOUNS
from sightline.charts import study_table
from sightline.charts.drawing import WARNING
from sightline.charts.figure import Axis, Group, Mark, Panel, Series, linear, mark, names, shaped, threshold, words
from sightline.charts.plan_chart import Point, point_labels
from sightline.exploration.growth import records

_HEIGHT, _LOW = 280, 200
"""Height of a single panel, and of one of several."""
_MOST_MARKED = 24
"""Values of x up to which lines mark each of their points."""
_SCATTERED = 3
"""Points above which they may have names."""
_MOST_NAMED = 24
"""Points of which all may have names; of more, those above all before them."""


def lines(picture: study_table.Picture) -> Panel | Group:
    """Return lines of y over x, one for each series."""
    return _drawn(picture, joined=True)


def points(picture: study_table.Picture) -> Panel | Group:
    """Return points of y over x, with the names of those that have room for it."""
    return _drawn(picture, joined=False)


def _drawn(picture: study_table.Picture, *, joined: bool) -> Panel | Group:
    layout, named, figure = picture.layout(), _series(picture), picture.figure
    common = "" if len(picture.ys) == 1 else NOUNS.get(picture.quantity(picture.ys[0]).unit, "value")
    title = figure.names.get("y", common)
    y = study_table.axis_of(picture, picture.ys, log=picture.is_log("y", picture.ys), count=6, title=title)
    x = _across(picture, layout.width)

    def panel(rows: study_table.Rows, place: study_table.Place) -> Panel:
        marks = [*_break_even(picture), *_fitted(picture, rows, named)]
        marks += _marks(picture, _values(picture, rows, named), named, joined=joined)
        if not joined and not figure.panel and x.kind == "quantitative":
            marks += _labels(picture, rows, x, y, layout.width)
        height = _LOW if figure.panel else _HEIGHT
        return Panel(x=x, y=y if place.first else replace(y, title=None), marks=marks, height=height)

    return picture.panelled(panel, layout)


def _series(picture: study_table.Picture) -> dict[str, str]:
    """What tells lines apart, by key its name in the legend: values of the series, or columns of y."""
    series = picture.figure.series
    if not series:
        return {key: picture.quantity(key).label for key in picture.ys}
    named = {str(value): picture.quantity(series).text(value) for value in picture.distinct(series)}
    return {key: named[key] for key in study_table.in_order(list(named))}


def _across(picture: study_table.Picture, width: float) -> Axis:
    """The horizontal axis of numbers, or of names."""
    column = picture.figure.x
    quantity = picture.quantity(column)
    if not picture.is_number(column):
        order = picture.words(column)
        return replace(names_below(order, width), title=quantity.label)
    values, count = picture.values(column), max(int(width // 55), 2)
    x = study_table.axis_of(picture, [column], log=picture.is_log("x", [column]), count=count, marks=sorted({*values}))
    if picture.figure.kind == "lines" and not x.is_log:
        margin = 0.03 * (max(values) - min(values)) or x.divisor
        x = linear(x.title, min(values) - margin, max(values) + margin, x.divisor)
        x = replace(x, ticks=study_table.ticks_of(x, quantity, count))
    return x


def names_below(order: Sequence[str], width: float, scale: Mapping[str, Any] | None = None) -> Axis:
    """Return an axis of names below a panel, which are slanted where they would overlap."""
    is_tight = max(map(len, order), default=0) * study_table.CHARACTER + 2 > width / max(len(order), 1)
    slanted = {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle"}
    looks = {"labelOverlap": False, "labelLimit": 170, "labelFontSize": 11}
    return names(order, scale=scale or {}, **looks, **(slanted if is_tight else {"labelAngle": 0}))


def _values(picture: study_table.Picture, rows: study_table.Rows, named: Mapping[str, str]) -> study_table.Rows:
    """A value for each row and each column of y that has one."""
    figure, found, key = picture.figure, [], picture.value_column
    is_number = picture.is_number(figure.x)
    for column in picture.ys:
        for row in rows:
            x = (
                study_table.number(row.get(figure.x))
                if is_number
                else picture.quantity(figure.x).text(row.get(figure.x))
            )
            y = study_table.number(row.get(column))
            if x is not None and y is not None:
                series = named[str(row[figure.series]) if figure.series else column]
                about = {"series": series, "part": picture.quantity(column).label, "about": picture.about_row(row)}
                found.append({figure.x: x, key: y, **about})
    return found


def _marks(
    picture: study_table.Picture, values: study_table.Rows, named: Mapping[str, str], *, joined: bool
) -> list[Mark]:
    """Lines with their points, or points alone."""
    labels, figure, key = list(named.values()), picture.figure, picture.value_column
    style = {"symbolType": "stroke", "symbolStrokeWidth": 3} if joined else {}
    series = figure.series
    is_number = bool(series) and picture.is_number(series)
    legend = picture.legend(labels, picture.quantity(series).label if is_number else None, **style)
    color = Series(
        column="series", looks=dict(zip(labels, study_table.colors_of(list(named)), strict=True)), legend=legend
    )
    looks: dict[str, Any] = {"x": figure.x, "y": key, "color": color}
    tooltip = [("about", "", " ")]
    if not joined:
        shape = shaped("series", labels, legend)
        return [mark("point", values, **looks, shape=shape, tooltip=tooltip, filled=True, opacity=0.9, size=56)]
    order = {"order": {"field": figure.x, "type": "quantitative"}} if picture.is_number(figure.x) else {}
    dash = _dash(picture, labels, legend)
    drawn = [mark("line", values, **looks, **order, strokeDash=dash, detail="part", strokeWidth=2, clip=True)]
    if len({value[figure.x] for value in values}) <= _MOST_MARKED:
        drawn.append(mark("point", values, **looks, tooltip=tooltip, filled=True, size=30, opacity=1))
    return drawn


def _dash(picture: study_table.Picture, labels: Sequence[str], legend: Mapping[str, Any] | None) -> Series | None:
    """Dashes tell columns of y apart where colors tell series, or lines where colors begin again."""
    if picture.figure.series and len(picture.ys) > 1:
        parts = [picture.quantity(column).label for column in picture.ys]
        return Series(
            column="part", looks=dict(zip(parts, study_table.DASHES, strict=False)), legend=picture.legend(parts)
        )
    dashes = study_table.dashes_of(len(labels))
    if len({tuple(dash) for dash in dashes}) == 1:
        return None
    return Series(column="series", looks=dict(zip(labels, dashes, strict=True)), legend=legend)


def _fitted(picture: study_table.Picture, rows: study_table.Rows, named: Mapping[str, str]) -> list[Mark]:
    """The lines that were fitted to points, in the color of their series."""
    figure = picture.figure
    if not figure.line or not picture.is_number(figure.x):
        return []
    places = [
        {figure.x: x, figure.line: y, "series": named[str(row[figure.series]) if figure.series else picture.ys[0]]}
        for row in rows
        if (x := study_table.number(row.get(figure.x))) is not None
        and (y := study_table.number(row.get(figure.line))) is not None
    ]
    colors = dict(zip(named.values(), study_table.colors_of(list(named)), strict=True))
    color = Series(column="series", looks=colors, legend=picture.legend(list(colors)))
    looks = {"strokeWidth": 1.5, "opacity": 0.7, "clip": True, "order": {"field": figure.x, "type": "quantitative"}}
    return [mark("line", places, x=figure.x, y=figure.line, color=color, **looks)] if places else []


def _break_even(picture: study_table.Picture) -> list[Mark]:
    """A dashed line at break-even, where values lie on both sides of it."""
    level = picture.crossed(picture.ys)
    if level is None:
        return []
    row = {"level": level, "text": "break-even"}
    looks = {"x": {"value": 0}, "baseline": "bottom", "dx": 4, "dy": -3, "color": WARNING}
    return [threshold(row, y="level"), words([row], y="level", **looks)]


def _labels(picture: study_table.Picture, rows: study_table.Rows, x: Axis, y: Axis, width: float) -> list[Mark]:
    """The names of points, as far as they overlap neither each other nor a point."""
    name, (across, up) = _names_rows(picture, rows), (picture.figure.x, picture.ys[0])
    if name is None:
        return []
    places = [(study_table.number(row.get(across)), study_table.number(row.get(up)), str(row[name])) for row in rows]
    there = [(at_x, at_y, label) for at_x, at_y, label in places if at_x is not None and at_y is not None]
    best = records([at_x for at_x, _, _ in there], [at_y for _, at_y, _ in there])
    shown = [
        Point(x=at_x, y=at_y, label=label if is_best or len(there) <= _MOST_NAMED else "", is_first=bool(is_best))
        for (at_x, at_y, label), is_best in zip(there, best, strict=True)
    ]
    return point_labels(shown, x, y, width, (across, picture.value_column), size=10)


def _names_rows(picture: study_table.Picture, rows: study_table.Rows) -> str | None:
    """The column of words that names each row, other than the series."""
    for key, value in (rows[0] if rows else {}).items():
        if key not in (picture.figure.series, picture.figure.x) and isinstance(value, str):
            values = [row[key] for row in rows]
            if len({*values}) == len(rows) > _SCATTERED and not picture.is_number(key):
                return str(key)
    return None
