"""Factors that multiply, as a waterfall on a logarithmic axis, and elasticities, as a tornado."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from sightline.answers import units
from sightline.report.charts import drawing
from sightline.report.charts.axes import Axis
from sightline.report.charts.studies.data import CHARACTER, Picture, Place, Rows, axis_of, number
from sightline.report.charts.studies.rows import Names, names_of

MORE, LESS, WHOLE = "#174a8c", "#c4281f", "#179e5f"
"""Colors of factors above and below 1, and of their product."""
PRODUCT = "all combined"
_STEP = 26


def factors(picture: Picture) -> Any:
    """Return the factors of a product one below the other, each beginning where the one before it ended."""
    waterfalls = [_waterfall(_named(picture, rows)) for _, rows in picture.split(picture.rows)]
    names = names_of([*picture.words(picture.figure.x), PRODUCT], picture.room)
    layout = picture.layout(least=190, labels=names.width / 2, shared=names.width)
    axis = _axis(picture, [bar[end] for bars in waterfalls for bar in bars for end in ("start", "end")], layout.width)

    def panel(rows: Rows, place: Place) -> Any:
        return _panel(_waterfall(_named(picture, rows)), names, axis, layout.width, place)

    return picture.panelled(panel, layout)


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


def _axis(picture: Picture, ends: Sequence[float], width: float) -> Axis:
    """A logarithmic axis with room for the text behind the longest bar."""
    low, high = min(ends, default=1.0), max(ends, default=1.0)
    low = low / 1.08 if low < 1 else 1.0
    free = 8.0 * CHARACTER / width
    high = low * max(high / low, 1.2) ** (1 / (1 - free))
    return Axis(title=f"{picture.quantity(picture.ys[0]).label} (logarithmic)", low=low, high=high, is_log=True)


def _panel(bars: Rows, names: Names, axis: Axis, width: float, place: Place) -> Any:
    order = [names.lines[bar["name"]] for bar in bars]
    drawn = [{**bar, "name": names.lines[bar["name"]]} for bar in bars]
    ticks = axis.ticks(max(int(width // 60), 2))
    scale = alt.Scale(domain=order, paddingInner=0.3)
    x = alt.X("start:Q", title=axis.title, scale=axis.scale(), axis=ticks)
    y = alt.Y("name:N", sort=order, title=None, axis=names.axis(shown=place.first), scale=scale)
    source = drawing.of(drawn)
    color = alt.Color("color:N", scale=None, legend=None)
    tooltip = [alt.Tooltip("name:N"), alt.Tooltip("text:N", title="factor")]
    mark = source.mark_bar().encode(x=x, x2=alt.X2("end:Q"), y=y, color=color, tooltip=tooltip)
    text = source.mark_text(align="left", dx=5, fontSize=11, color=drawing.INK).encode(
        x=alt.X("far:Q"), y=y, text=alt.Text("text:N")
    )
    one = drawing.of([{"at": 1.0}]).mark_rule(strokeWidth=1, color=drawing.FAINT).encode(x=alt.X("at:Q"))
    links = [{"at": before["end"], "name": before["name"], "below": after["name"]} for before, after in pairwise(drawn)]
    link = drawing.of(links).mark_rule(strokeWidth=1, color=drawing.FAINT, strokeDash=[2, 2])
    linked = link.encode(
        x=alt.X("at:Q"), y=alt.Y("name:N", bandPosition=1, scale=scale), y2=alt.Y2("below", bandPosition=0)
    )
    return alt.layer(one, linked, mark, text).properties(height=max(_STEP, names.height) * len(order))


def tornado(picture: Picture) -> Any:
    """Return signed bars from zero, the longest first."""
    names = names_of(picture.words(picture.figure.x), picture.room)
    layout = picture.layout(least=190, labels=names.width)
    axis = axis_of(picture, picture.ys, log=False, zero=True)
    free = 8 * CHARACTER / layout.width * (axis.high - axis.low)
    axis = Axis(title=axis.title, low=axis.low - free * (axis.low < 0), high=axis.high + free, divisor=axis.divisor)

    def panel(rows: Rows, _: Place) -> Any:
        return _sorted(
            _signed(picture, rows, names, axis), (picture.figure.x, picture.ys[0]), names, axis, layout.width
        )

    return picture.panelled(panel, layout)


def _signed(picture: Picture, rows: Rows, names: Names, axis: Axis) -> Rows:
    """A bar for each row, the longest first."""
    quantity, (column,), bars = picture.quantity(picture.figure.x), picture.ys, []
    for row in rows:
        value = number(row.get(column))
        if value is not None:
            shade = MORE if value < 0 else drawing.PAIR[1]
            name = names.lines[quantity.text(row[picture.figure.x])]
            bars.append({"name": name, "value": value / axis.divisor, "text": _with_sign(value), "color": shade})
    return sorted(bars, key=lambda bar: -abs(bar["value"]))


def _with_sign(value: float) -> str:
    """The text of a signed figure, with the sign that axes have."""
    return units.digits(value, 2).replace("-", "\N{MINUS SIGN}")


def _sorted(bars: Rows, keys: tuple[str, str], names: Names, axis: Axis, width: float) -> Any:
    """A panel of a tornado, whose rows have an order of its own."""
    (column, value), order = keys, [bar["name"] for bar in bars]
    x = alt.X("value:Q", title=axis.title, scale=axis.scale(), axis=axis.ticks(max(int(width // 60), 4)))
    y = alt.Y("name:N", sort=order, title=None, axis=names.axis(), scale=alt.Scale(domain=order, paddingInner=0.25))
    color = alt.Color("color:N", scale=None, legend=None)
    scaled = {"name": (column, None), "value": (value, axis.divisor)}
    mark = drawing.of(bars, scaled).mark_bar().encode(x=x, y=y, color=color, tooltip=[alt.Tooltip("text:N", title=" ")])
    layers = [mark, drawing.of([{"at": 0.0}]).mark_rule(color=drawing.FAINT).encode(x=alt.X("at:Q"))]
    for align, dx, found in (
        ("left", 5, [bar for bar in bars if bar["value"] >= 0]),
        ("right", -5, [bar for bar in bars if bar["value"] < 0]),
    ):
        if found:
            text = drawing.of(found).mark_text(align=align, dx=dx, fontSize=11, color=drawing.INK)
            layers.append(text.encode(x=alt.X("value:Q"), y=y, text=alt.Text("text:N")))
    return alt.layer(*layers).properties(height=max(24, names.height) * len(order))
