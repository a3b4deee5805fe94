"""Bars and stacks of a study: a figure, or the parts of a whole, for each of several names."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import altair as alt

from sightline.answers import units
from sightline.answers.study import NOUNS
from sightline.charts import drawing
from sightline.charts.axes import Axis
from sightline.charts.study_lines import about
from sightline.charts.study_table import (
    CHARACTER,
    Layout,
    Names,
    Picture,
    Place,
    Rows,
    axis_of,
    colors_of,
    in_order,
    names_of,
    number,
    part_of,
    ticks_of,
    units_of,
)
from sightline.profile import LEVELS

_COLUMNS_HEIGHT = 220
_FEWEST_COLUMNS = 4
"""Names from which short ones stand below columns in place of next to rows."""
_TEXT = 0.24
"""Share of the width of a panel that is left for texts behind its bars."""
_MOST_OF_IT = 0.7
"""Share from which an axis of shares ends at the whole."""
_THIN = 15
"""Height of one of several bars of a name."""


def bars(picture: Picture) -> Any:
    """Return a bar for each name, or one for each series of a name."""
    series = picture.figure.series
    keys = in_order([str(one) for one in picture.distinct(series)]) if series else list(picture.ys)
    labels = _labels(picture, keys)
    colors = colors_of([key if series else part_of(key) for key in keys])
    axis = axis_of(picture, picture.ys, log=False, zero=True)

    def values(rows: Rows) -> Rows:
        found = []
        for row in rows:
            for column in picture.ys:
                y = number(row.get(column))
                key = str(row[series]) if series else column
                group = labels[keys.index(key)]
                text = picture.figure.missing if y is None else picture.quantity(column).text(y)
                end = None if y is None else y / axis.divisor
                if text:
                    found.append(_bar(picture, row, group, 0.0, end) | {"text": text, "group": group})
        return found

    return _Bars(picture, axis, labels, colors, grouped=_is_grouped(picture)).drawn(values)


def _is_grouped(picture: Picture) -> bool:
    """Whether a name has several bars."""
    if not picture.figure.series:
        return len(picture.ys) > 1
    keys = [(row[picture.figure.x], row.get(picture.figure.panel)) for row in picture.rows]
    return len({*keys}) < len(keys)


def stacks(picture: Picture) -> Any:
    """Return the parts of a whole, one behind the other, for each name."""
    keys = sorted(picture.ys, key=lambda one: LEVELS.index(part_of(one)) if part_of(one) in LEVELS else -1)
    labels = [picture.quantity(one).label for one in keys]
    quantity = picture.quantity(keys[0])
    wholes = [sum(number(row.get(one)) or 0.0 for one in keys) for row in picture.rows]
    axis = _axis_of_wholes(picture, wholes)

    def values(rows: Rows) -> Rows:
        found = []
        for row in rows:
            ends = list(accumulate((number(row.get(one)) or 0.0) / axis.divisor for one in keys))
            for label, start, end in zip(labels, [0.0, *ends], ends, strict=False):
                found.append(_bar(picture, row, label, start, end) | {"text": "", "group": ""})
            found[-1]["text"] = "" if quantity.unit == "share" else quantity.text(ends[-1] * axis.divisor)
        return found

    return _Bars(picture, axis, labels, colors_of([part_of(one) for one in keys]), grouped=False).drawn(values)


def _axis_of_wholes(picture: Picture, wholes: Sequence[float]) -> Axis:
    """The axis of sums; that of shares ends at 100 %."""
    quantity = picture.quantity(picture.ys[0])
    largest = max(wholes, default=1.0) or 1.0
    divisor, unit = quantity.scaled(largest)
    named = picture.figure.names.get("y") or NOUNS.get(quantity.unit, "")
    if quantity.unit == "share":
        whole = 100.0 if largest > _MOST_OF_IT else 104.0 * largest
        return Axis(title=f"{named} (%)", low=0.0, high=whole, divisor=0.01)
    title = f"{named} ({unit})" if unit and named else named or unit
    return Axis(title=title, low=0.0, high=largest / divisor * 1.04, divisor=divisor)


def _labels(picture: Picture, keys: Sequence[str]) -> list[str]:
    series = picture.figure.series
    if not series:
        return [picture.quantity(key).label for key in keys]
    return [next(picture.quantity(series).text(v) for v in picture.distinct(series) if str(v) == key) for key in keys]


def _bar(picture: Picture, row: dict[str, Any], part: str, start: float, end: float | None) -> dict[str, Any]:
    """A bar; one without an end is a text alone."""
    name = picture.quantity(picture.figure.x).text(row[picture.figure.x])
    return {"name": name, "part": part, "start": start, "end": end, "about": about(picture, row)}


class _Bars:
    """Panels of bars, as rows or as columns."""

    def __init__(
        self, picture: Picture, axis: Axis, parts: Sequence[str], colors: Sequence[str], *, grouped: bool
    ) -> None:
        self.picture, self.axis, self.grouped = picture, axis, grouped
        self.units = units_of(picture, axis, "start", "end")
        self.words = picture.words(picture.figure.x)
        scale = drawing.palette(dict(zip(parts, colors, strict=True)))
        self.color = alt.Color("part:N", scale=scale, legend=picture.legend(parts, symbolType="square"))

    def drawn(self, values: Callable[[Rows], Rows]) -> Any:
        """Return the panels; ``values`` makes bars of rows."""
        picture, layout = self.picture, self.picture.layout()
        longest = max(map(len, self.words), default=0) * CHARACTER + 8
        is_short = len(self.words) >= _FEWEST_COLUMNS and longest <= layout.width / len(self.words)
        if is_short and not (self.grouped or picture.figure.missing):
            return picture.panelled(lambda rows, place: self._upright(values(rows), place), layout)
        names = names_of(self.words, picture.room)
        panels = max(len(picture.distinct(picture.figure.panel)), 1)
        layout = picture.layout(least=120, labels=names.width / min(panels, 3), shared=names.width)
        return picture.panelled(lambda rows, place: self._lying(values(rows), names, layout, place), layout)

    def _upright(self, rows: Rows, place: Place) -> Any:
        """Columns with their names below."""
        quantity = self.picture.quantity(self.picture.figure.x)
        x = alt.X(
            "name:N",
            sort=self.words,
            title=quantity.label,
            axis=alt.Axis(grid=False, labelAngle=0, labelOverlap=False),
            scale=alt.Scale(domain=self.words, paddingInner=0.25),
        )
        title = self.axis.title if place.first else None
        y = alt.Y(
            "start:Q",
            title=title,
            scale=self.axis.scale(),
            axis=ticks_of(self.axis, self.picture.quantity(self.picture.ys[0]), 5),
        )
        mark = (
            drawing.of(rows, self.units)
            .mark_bar()
            .encode(x=x, y=y, y2=alt.Y2("end:Q"), color=self.color, tooltip=_tooltip())
        )
        return mark.properties(height=_COLUMNS_HEIGHT)

    def _lying(self, rows: Rows, names: Names, layout: Layout, place: Place) -> Any:
        """Rows with their names next to them, and a text behind each."""
        width, groups = layout.width, list(dict.fromkeys(row["group"] for row in rows)) if self.grouped else [""]
        step = max(_THIN * len(groups) + 8, names.height, drawing.ROW_HEIGHT)
        named = [{**row, "name": names.lines[row["name"]]} for row in rows]
        drawn = [row for row in named if row["end"] is not None]
        texts = [{**row, "end": row["end"] or 0.0} for row in named if row["text"]]
        reach = self._reach(width, max((len(row["text"]) for row in texts), default=0))
        scale = alt.Scale(domain=[0, reach], nice=False)
        ticks = ticks_of(self.axis, self.picture.quantity(self.picture.ys[0]), max(min(int(width // 48), 8), 2))
        x = alt.X("start:Q", title=self.axis.title, scale=scale, axis=ticks)
        order = list(names.lines.values())
        y = alt.Y(
            "name:N",
            sort=order,
            title=None,
            axis=names.axis(shown=place.first),
            scale=alt.Scale(domain=order, paddingInner=0.25, paddingOuter=0.1),
        )
        offset = (
            {"yOffset": alt.YOffset("group:N", sort=groups, scale=alt.Scale(domain=groups))} if self.grouped else {}
        )
        bars_ = (
            drawing.of(drawn, self.units)
            .mark_bar()
            .encode(x=x, x2=alt.X2("end:Q"), y=y, color=self.color, tooltip=_tooltip(), **offset)
        )
        text = drawing.of(texts, self.units).mark_text(align="left", dx=4, fontSize=11, color=drawing.INK)
        said = text.encode(x=alt.X("end:Q", scale=scale), y=y, text=alt.Text("text:N"), **offset)
        panel = alt.layer(bars_, said) if texts else bars_
        return panel.properties(height=step * len(self.words))

    def _reach(self, width: float, characters: int) -> float:
        """Where the axis ends so that the text behind the longest bar has room."""
        free = min(characters * CHARACTER + 8, 0.5 * width) / width if characters else 0.0
        return self.axis.high / (1 - free)


def _tooltip() -> Any:
    return [alt.Tooltip("part:N", title=" "), alt.Tooltip("about:N", title="  ")]


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
