"""Bars of a study: a figure or the parts of a whole for each name, factors that multiply, and elasticities."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from sightline.answers import units
from sightline.answers.study import NOUNS
from sightline.charts import study_table
from sightline.charts.drawing import FAINT, LINES, ROW_HEIGHT
from sightline.charts.figure import Axis, Group, Mark, Panel, Series, linear, logarithmic, mark, names, words
from sightline.profile import LEVELS

_FEWEST_COLUMNS = 4
"""Names from which short ones stand below columns in place of next to rows."""
_MOST_OF_IT = 0.7
"""Share from which an axis of shares ends at the whole."""
_THIN = 15
"""Height of one of several bars of a name."""
MORE, LESS, WHOLE = LINES[:3]
"""Colors of factors above and below 1, and of their product."""
PRODUCT = "all combined"
_COLOR = {"field": "color", "type": "nominal", "scale": None, "legend": None}


def bars(picture: study_table.Picture) -> Panel | Group:
    """Return a bar for each name, or one for each series of a name."""
    series = picture.figure.series
    keys = study_table.in_order([str(one) for one in picture.distinct(series)]) if series else list(picture.ys)
    labels = _labels(picture, keys)
    colors = study_table.colors_of([key if series else study_table.part_of(key) for key in keys])

    def values(rows: study_table.Rows) -> study_table.Rows:
        found = []
        for row in rows:
            for column in picture.ys:
                y = study_table.number(row.get(column))
                group = labels[keys.index(str(row[series]) if series else column)]
                text = picture.figure.missing if y is None else picture.quantity(column).text(y)
                if text:
                    found.append(_bar(picture, row, group, 0.0, y) | {"text": text, "group": group})
        return found

    axis = study_table.axis_of(picture, picture.ys, log=False, zero=True, count=5)
    return _panels(picture, axis, dict(zip(labels, colors, strict=True)), values, grouped=_is_grouped(picture))


def _is_grouped(picture: study_table.Picture) -> bool:
    """Whether a name has several bars."""
    if not picture.figure.series:
        return len(picture.ys) > 1
    keys = [(row[picture.figure.x], row.get(picture.figure.panel)) for row in picture.rows]
    return len({*keys}) < len(keys)


def stacks(picture: study_table.Picture) -> Panel | Group:
    """Return the parts of a whole, one behind the other, for each name."""
    keys = sorted(
        picture.ys, key=lambda one: LEVELS.index(study_table.part_of(one)) if study_table.part_of(one) in LEVELS else -1
    )
    labels = [picture.quantity(one).label for one in keys]
    quantity = picture.quantity(keys[0])
    wholes = [sum(study_table.number(row.get(one)) or 0.0 for one in keys) for row in picture.rows]

    def values(rows: study_table.Rows) -> study_table.Rows:
        found = []
        for row in rows:
            ends = list(accumulate(study_table.number(row.get(one)) or 0.0 for one in keys))
            for label, start, end in zip(labels, [0.0, *ends], ends, strict=False):
                found.append(_bar(picture, row, label, start, end) | {"text": "", "group": ""})
            found[-1]["text"] = "" if quantity.unit == "share" else quantity.text(ends[-1])
        return found

    colors = dict(zip(labels, study_table.colors_of([study_table.part_of(one) for one in keys]), strict=True))
    return _panels(picture, _axis_of_wholes(picture, wholes), colors, values, grouped=False)


def _axis_of_wholes(picture: study_table.Picture, wholes: Sequence[float]) -> Axis:
    """The axis of sums; that of shares ends at 100 %."""
    quantity = picture.quantity(picture.ys[0])
    largest = max(wholes, default=1.0) or 1.0
    divisor, unit = quantity.scaled(largest)
    named = picture.figure.names.get("y") or NOUNS.get(quantity.unit, "")
    whole = 1.0 if quantity.unit == "share" and largest > _MOST_OF_IT else largest * 1.04
    axis = linear(f"{named} ({unit})" if unit and named else named or unit, 0.0, whole, divisor)
    return replace(axis, ticks=study_table.ticks_of(axis, quantity, 5))


def _labels(picture: study_table.Picture, keys: Sequence[str]) -> list[str]:
    series = picture.figure.series
    if not series:
        return [picture.quantity(key).label for key in keys]
    return [next(picture.quantity(series).text(v) for v in picture.distinct(series) if str(v) == key) for key in keys]


def _bar(
    picture: study_table.Picture, row: dict[str, Any], part: str, start: float, end: float | None
) -> dict[str, Any]:
    """A bar; one without an end is a text alone."""
    name, key = picture.quantity(picture.figure.x).text(row[picture.figure.x]), picture.value_column
    return {"name": name, "part": part, f"{key}.start": start, key: end, "about": picture.about_row(row)}


def _panels(
    picture: study_table.Picture,
    axis: Axis,
    colors: Mapping[str, str],
    values: Callable[[study_table.Rows], study_table.Rows],
    *,
    grouped: bool,
) -> Panel | Group:
    """Panels of bars, as columns where their names are short, else as rows; ``values`` makes bars of rows."""
    layout, order, key = picture.layout(), picture.words(picture.figure.x), picture.value_column
    legend = picture.legend(list(colors), symbolType="square")
    color = Series(column="part", looks=colors, legend=legend)
    looks: dict[str, Any] = {"color": color, "tooltip": [("part", "", " "), ("about", "", "  ")]}
    longest = max(map(len, order), default=0) * study_table.CHARACTER + 8
    is_short = len(order) >= _FEWEST_COLUMNS and longest <= layout.width / len(order)
    if is_short and not (grouped or picture.figure.missing):
        title = picture.quantity(picture.figure.x).label
        below = names(order, scale={"domain": order, "paddingInner": 0.25}, labelAngle=0, labelOverlap=False)

        def upright(rows: study_table.Rows, place: study_table.Place) -> Panel:
            drawn = mark("bar", values(rows), x="name", y=f"{key}.start", y2=key, **looks)
            y = axis if place.first else replace(axis, title=None)
            return Panel(x=replace(below, title=title), y=y, marks=[drawn], height=220)

        return picture.panelled(upright, layout)
    named = study_table.names_of(order, picture.room)
    panels = max(len(picture.distinct(picture.figure.panel)), 1)
    wide = picture.layout(least=120, labels=named.width / min(panels, 3), shared=named.width)

    def lying(rows: study_table.Rows, place: study_table.Place) -> Panel:
        return _lying(picture, values(rows), named, axis, wide, looks, shown=place.first, grouped=grouped)

    return picture.panelled(lying, wide)


def _lying(
    picture: study_table.Picture,
    rows: study_table.Rows,
    named: study_table.Names,
    axis: Axis,
    layout: study_table.Layout,
    looks: Mapping[str, Any],
    *,
    shown: bool,
    grouped: bool,
) -> Panel:
    """Rows with their names next to them, and a text behind each."""
    width, key = layout.width, picture.value_column
    groups = list(dict.fromkeys(row["group"] for row in rows)) if grouped else [""]
    rows = [{**row, "name": named.lines[row["name"]]} for row in rows]
    texts = [{**row, key: row[key] or 0.0} for row in rows if row["text"]]
    characters = max((len(row["text"]) for row in texts), default=0)
    # The axis ends so that the text behind the longest bar has room.
    free = min(characters * study_table.CHARACTER + 8, 0.5 * width) / width if characters else 0.0
    _, high = axis.scale["domain"]
    ticks = study_table.ticks_of(axis, picture.quantity(picture.ys[0]), max(min(int(width // 48), 8), 2))
    x = replace(axis, scale={"domain": [0, high / (1 - free)], "nice": False}, ticks=ticks)
    order = list(named.lines.values())
    offset = {"field": "group", "type": "nominal", "sort": groups, "scale": {"domain": groups}} if grouped else None
    there = [row for row in rows if row[key] is not None]
    behind = words(texts, x=key, y="name", yOffset=offset, dx=4)
    return Panel(
        x=x,
        y=named.axis(order, {"paddingInner": 0.25, "paddingOuter": 0.1}, shown=shown),
        marks=[
            mark("bar", there, x=f"{key}.start", x2=key, y="name", yOffset=offset, **looks),
            *([behind] if texts else []),
        ],
        height=max(_THIN * len(groups) + 8, named.height, ROW_HEIGHT) * len(named.lines),
    )


def factors(picture: study_table.Picture) -> Panel | Group:
    """Return the factors of a product one below the other, each beginning where the one before it ended."""
    waterfalls = [_waterfall(picture, rows) for _, rows in picture.split(picture.rows)]
    named = study_table.names_of([*picture.words(picture.figure.x), PRODUCT], picture.room)
    layout = picture.layout(least=190, labels=named.width / 2, shared=named.width)
    ends = [bar[end] for bars in waterfalls for bar in bars for end in ("start", "end")]
    low, high = min(ends, default=1.0), max(ends, default=1.0)
    low = low / 1.08 if low < 1 else 1.0
    # Room for the text behind the longest bar.
    high = low * max(high / low, 1.2) ** (1 / (1 - 8.0 * study_table.CHARACTER / layout.width))
    x = logarithmic(f"{picture.quantity(picture.ys[0]).label} (logarithmic)", low, high)

    def panel(rows: study_table.Rows, place: study_table.Place) -> Panel:
        drawn = [{**bar, "name": named.lines[bar["name"]]} for bar in _waterfall(picture, rows)]
        order = [bar["name"] for bar in drawn]
        links = [{"at": one["end"], "name": one["name"], "below": after["name"]} for one, after in pairwise(drawn)]
        lower, upper = {"field": "name", "bandPosition": 1}, {"field": "below", "bandPosition": 0}
        marks = [
            mark("rule", [{"at": 1.0}], x="at", strokeWidth=1, color=FAINT),
            mark("rule", links, x="at", y=lower, y2=upper, strokeWidth=1, color=FAINT, strokeDash=[2, 2]),
            mark("bar", drawn, x="start", x2="end", y="name", color=_COLOR, tooltip=["name", ("text", "", "factor")]),
            words(drawn, x="far", y="name"),
        ]
        y = named.axis(order, {"paddingInner": 0.3}, shown=place.first)
        return Panel(x=x, y=y, marks=marks, height=max(26, named.height) * len(order))

    return picture.panelled(panel, layout)


def _waterfall(picture: study_table.Picture, rows: study_table.Rows) -> study_table.Rows:
    """The bars of factors and of their product."""
    quantity, drawn, reached = picture.quantity(picture.figure.x), [], 1.0
    for row in rows:
        factor = study_table.number(row.get(picture.ys[0]))
        if factor is not None and factor > 0:
            name, color = quantity.text(row[picture.figure.x]), MORE if factor >= 1 else LESS
            ends = {"start": reached, "end": reached * factor, "far": max(reached, reached * factor)}
            drawn.append({"name": name, **ends, "text": f"× {units.digits(factor)}", "color": color})
            reached *= factor
    whole = {"start": min(1.0, reached), "end": max(1.0, reached), "far": max(1.0, reached)}
    return [*drawn, {"name": PRODUCT, **whole, "text": units.digits(reached), "color": WHOLE}]


def tornado(picture: study_table.Picture) -> Panel | Group:
    """Return signed bars from zero, the longest first."""
    (column,), across = picture.ys, picture.figure.x
    named = study_table.names_of(picture.words(across), picture.room)
    layout = picture.layout(least=190, labels=named.width)
    axis = study_table.axis_of(picture, picture.ys, log=False, zero=True, count=max(int(layout.width // 60), 4))
    low, high = axis.scale["domain"]
    free = 8 * study_table.CHARACTER / layout.width * (high - low)
    x = replace(axis, scale={"domain": [low - free * (low < 0), high + free], "nice": False})

    def panel(rows: study_table.Rows, _: study_table.Place) -> Panel:
        drawn: study_table.Rows = []
        for row in rows:
            value = study_table.number(row.get(column))
            if value is not None:
                name = named.lines[picture.quantity(across).text(row[across])]
                # The sign that axes have.
                text = units.digits(value, 2).replace("-", "\N{MINUS SIGN}")
                drawn.append({across: name, column: value, "text": text, "color": MORE if value < 0 else LESS})
        drawn.sort(key=lambda bar: -abs(bar[column]))
        order = [bar[across] for bar in drawn]
        place = {"x": column, "y": across}
        marks: list[Mark] = [
            mark("bar", drawn, color=_COLOR, tooltip=[("text", "", " ")], **place),
            mark("rule", [{"at": 0.0}], x="at", color=FAINT),
        ]
        for align, dx, sign in (("left", 5, 1), ("right", -5, -1)):
            if texts := [bar for bar in drawn if bar["color"] == (LESS if sign > 0 else MORE)]:
                marks.append(words(texts, align=align, dx=dx, **place))
        return Panel(
            x=x, y=named.axis(order, {"paddingInner": 0.25}), marks=marks, height=max(24, named.height) * len(order)
        )

    return picture.panelled(panel, layout)
