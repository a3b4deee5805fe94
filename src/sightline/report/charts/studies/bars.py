"""Bars and stacks of a study: a figure, or the parts of a whole, for each of several names."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import altair as alt

from sightline.answers.study import NOUNS
from sightline.profile import LEVELS
from sightline.report.charts import drawing
from sightline.report.charts.axes import Axis
from sightline.report.charts.studies.colors import colors_of, in_order, part_of
from sightline.report.charts.studies.data import (
    CHARACTER,
    Layout,
    Picture,
    Place,
    Rows,
    axis_of,
    number,
    ticks_of,
    units_of,
)
from sightline.report.charts.studies.lines import about
from sightline.report.charts.studies.rows import Names, names_of

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
