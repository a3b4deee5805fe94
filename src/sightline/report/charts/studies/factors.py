"""Factors that multiply, as a waterfall on a logarithmic axis, and elasticities, as a tornado."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from sightline.report import units
from sightline.report.charts import drawing
from sightline.report.charts.axes import Axis
from sightline.report.charts.studies.data import CHARACTER, Picture, Rows, axis_of, number, panel_title
from sightline.report.charts.studies.rows import Names, names_of

MORE, LESS, WHOLE = "#174a8c", "#c4281f", "#179e5f"
"""Colors of factors above and below 1, and of their product."""
PRODUCT = "all together"
_STEP = 26


def factors(picture: Picture) -> Any:
    """Return the factors of a product one below the other, each beginning where the one before it ended."""
    panels = _panels(picture)
    waterfalls = [(title, _waterfall(steps)) for title, steps in panels]
    names = names_of([*dict.fromkeys(bar["name"] for _, bars in waterfalls for bar in bars)], picture.room)
    ends = [end for _, bars in waterfalls for bar in bars for end in (bar["start"], bar["end"])]
    low, high = min(ends, default=1.0), max(ends, default=1.0)
    columns = picture.columns(len(panels), least=190, beside=names.width / 2)
    width = (picture.whole - names.width - (columns - 1) * 30) / columns
    axis = _axis(picture, low, high, width)
    built = [
        _panel(bars, names, axis, width, first=position % columns == 0).properties(
            **({"title": panel_title(title, width)} if title else {})
        )
        for position, (title, bars) in enumerate(waterfalls)
    ]
    return picture.together(built, columns)


def _panels(picture: Picture) -> list[tuple[str, list[tuple[str, float]]]]:
    """The factors of each panel: rows of one column, or several columns of each row."""
    figure = picture.figure
    if len(picture.ys) == 1:
        split = picture.split(figure.panel or figure.series)
        return [(title, _named(picture, rows)) for title, rows in split]
    named = [(column, picture.quantity(column).label) for column in picture.ys]
    return [
        (
            picture.quantity(figure.x).text(row[figure.x]),
            [(label, factor) for column, label in named if (factor := number(row.get(column))) is not None],
        )
        for row in picture.rows
    ]


def _named(picture: Picture, rows: Rows) -> list[tuple[str, float]]:
    quantity = picture.quantity(picture.figure.x)
    found = ((quantity.text(row[picture.figure.x]), number(row.get(picture.ys[0]))) for row in rows)
    return [(name, factor) for name, factor in found if factor is not None and factor > 0]


def _waterfall(steps: list[tuple[str, float]]) -> Rows:
    """The bars of factors and of their product."""
    bars, reached = [], 1.0
    for name, factor in steps:
        color = MORE if factor >= 1 else LESS
        ends = {"start": reached, "end": reached * factor, "far": max(reached, reached * factor)}
        bars.append({"name": name, **ends, "text": f"× {units.digits(factor)}", "color": color})
        reached *= factor
    whole = {"start": min(1.0, reached), "end": max(1.0, reached), "far": max(1.0, reached)}
    return [*bars, {"name": PRODUCT, **whole, "text": units.digits(reached), "color": WHOLE}]


def _axis(picture: Picture, low: float, high: float, width: float) -> Axis:
    """A logarithmic axis with room for the text behind the longest bar."""
    label = picture.quantity(picture.ys[0]).label if len(picture.ys) == 1 else "gain"
    low = low / 1.08 if low < 1 else 1.0
    free = 8.0 * CHARACTER / width
    high = low * max(high / low, 1.2) ** (1 / (1 - free))
    return Axis(title=f"{label} (logarithmic)", low=low, high=high, is_log=True)


def _panel(bars: Rows, names: Names, axis: Axis, width: float, *, first: bool) -> Any:
    order = [names.lines[bar["name"]] for bar in bars]
    drawn = [{**bar, "name": names.lines[bar["name"]]} for bar in bars]
    ticks = axis.ticks(max(int(width // 60), 2))
    scale = alt.Scale(domain=order, paddingInner=0.3)
    x = alt.X("start:Q", title=axis.title, scale=axis.scale(), axis=ticks)
    y = alt.Y("name:N", sort=order, title=None, axis=names.axis(shown=first), scale=scale)
    source = drawing.of(drawn)
    color = alt.Color("color:N", scale=None, legend=None)
    tooltip = [alt.Tooltip("name:N"), alt.Tooltip("text:N", title="factor")]
    mark = source.mark_bar().encode(x=x, x2="end:Q", y=y, color=color, tooltip=tooltip)
    text = source.mark_text(align="left", dx=5, fontSize=11, color=drawing.INK).encode(x="far:Q", y=y, text="text:N")
    one = drawing.of([{"at": 1.0}]).mark_rule(strokeWidth=1, color=drawing.FAINT).encode(x="at:Q")
    links = [{"at": before["end"], "name": before["name"], "below": after["name"]} for before, after in pairwise(drawn)]
    link = drawing.of(links).mark_rule(strokeWidth=1, color=drawing.FAINT, strokeDash=[2, 2])
    linked = link.encode(x="at:Q", y=alt.Y("name:N", bandPosition=1, scale=scale), y2=alt.Y2("below", bandPosition=0))
    return alt.layer(one, linked, mark, text).properties(width=width, height=max(_STEP, names.height) * len(order))


def tornado(picture: Picture) -> Any:
    """Return signed bars from zero, the longest first; or from a low to a high end where y has two columns."""
    panels = picture.split(picture.figure.panel or picture.figure.series)
    named, ends = picture.figure.x, picture.ys
    if picture.is_number(named):
        named, ends = ends[0], (named,)
    axis = axis_of(picture, ends, log=False, zero=True)
    names = names_of(picture.words(named), picture.room)
    columns = picture.columns(len(panels), least=190, beside=names.width)
    width = (picture.whole - columns * names.width - (columns - 1) * 30) / columns
    free = 8 * CHARACTER / width * (axis.high - axis.low)
    axis = Axis(title=axis.title, low=axis.low - free * (axis.low < 0), high=axis.high + free, divisor=axis.divisor)
    built = []
    for title, rows in panels:
        panel = _sorted(_ends(picture, rows, named, ends, names, axis), names, axis, width)
        built.append(panel.properties(title=panel_title(title, width)) if title else panel)
    return picture.together(built, columns)


def _ends(picture: Picture, rows: Rows, named: str, ends: Sequence[str], names: Names, axis: Axis) -> Rows:
    """A bar for each row and end, the row of the longest first."""
    quantity = picture.quantity(named)
    bars: Rows = []
    for row in rows:
        for column, color in zip(ends, (MORE, drawing.PAIR[1]), strict=False):
            value = number(row.get(column))
            if value is not None:
                shade = color if len(ends) > 1 else MORE if value < 0 else drawing.PAIR[1]
                text = picture.quantity(column).text(value) if axis.divisor != 1 else units.digits(value, 2)
                name = names.lines[quantity.text(row[named])]
                bars.append({"name": name, "value": value / axis.divisor, "text": text, "color": shade})
    sizes: dict[str, float] = {}
    for bar in bars:
        sizes[bar["name"]] = max(sizes.get(bar["name"], 0.0), abs(bar["value"]))
    return sorted(bars, key=lambda bar: -sizes[bar["name"]])


def _sorted(bars: Rows, names: Names, axis: Axis, width: float) -> Any:
    """A panel of a tornado, whose rows have an order of its own."""
    order = list(dict.fromkeys(bar["name"] for bar in bars))
    x = alt.X("value:Q", title=axis.title, scale=axis.scale(), axis=axis.ticks(max(int(width // 70), 2)))
    y = alt.Y("name:N", sort=order, title=None, axis=names.axis(), scale=alt.Scale(domain=order, paddingInner=0.25))
    color = alt.Color("color:N", scale=None, legend=None)
    mark = drawing.of(bars).mark_bar().encode(x=x, y=y, color=color, tooltip=[alt.Tooltip("text:N", title=" ")])
    layers = [mark, drawing.of([{"at": 0.0}]).mark_rule(color=drawing.FAINT).encode(x="at:Q")]
    for align, dx, found in (
        ("left", 5, [bar for bar in bars if bar["value"] >= 0]),
        ("right", -5, [bar for bar in bars if bar["value"] < 0]),
    ):
        if found:
            text = drawing.of(found).mark_text(align=align, dx=dx, fontSize=11, color=drawing.INK)
            layers.append(text.encode(x="value:Q", y=y, text="text:N"))
    return alt.layer(*layers).properties(width=width, height=max(24, names.height) * len(order))
