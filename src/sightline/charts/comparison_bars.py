"""The picture of a comparison: both sides' bars by phase, module and memory part, and the ratio with its interval."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sightline.answers import comparison as words
from sightline.answers import units
from sightline.charts import drawing
from sightline.charts.drawing import SCREEN, Room
from sightline.charts.stacks import names_of
from sightline.explanation.compared import UNKNOWN
from sightline.explanation.comparison import NO_DIFFERENCE, Comparison, Difference

_WIDTH, _RATIO_WIDTH, _LABELS = 360, 230, 240
_SHORT_LABELS = 138
_MOST = 14
_DRAWN = ("step", "request", "phase", "module", "operator", "memory")
_SIDES = ("A", "B")
_FURTHEST = 4.0
"""Larger ratios are drawn at the edge."""


def comparison_bars(comparison: Comparison, room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification: a pair of panels per level; of very many rows the longest are drawn."""
    panels = [_panel(level, rows, room) for level in _DRAWN if (rows := _longest(comparison, level))]
    chart = alt.vconcat(*panels, spacing=24)
    lines = [f"{letter}: {words.side_line(s)}" for letter, s in zip(_SIDES, (comparison.a, comparison.b), strict=True)]
    lines += [comparison.about] if comparison.about else []
    drawn = (row for level in _DRAWN for row in _longest(comparison, level) if row.ratio)
    if room.side_by_side and any(not 1 / _FURTHEST <= row.ratio <= _FURTHEST for row in drawn if row.ratio):
        lines.append(f"Ratios beyond {_FURTHEST:g} are drawn at the edge.")
    return drawing.configure(chart, _title(comparison), [*lines, words.footnote(comparison)], room)


def _title(comparison: Comparison) -> str:
    names = list(dict.fromkeys(filter(None, (comparison.a.title, comparison.b.title))))
    return names[0] if len(names) == 1 else f"{comparison.a.name} vs {comparison.b.name}"


def _longest(comparison: Comparison, level: str) -> list[Difference]:
    """The level's rows in order, the longest of very many; of the key figures only times, which share an axis."""
    rows = [row for row in comparison.rows if row.level == level]
    if level == "step":
        rows = [row for row in rows if words.is_time(row)]
    chosen = sorted(rows, key=lambda row: -_larger(row))[:_MOST]
    return [row for row in rows if row in chosen]


def _larger(row: Difference) -> float:
    return max(row.a or 0.0, row.b or 0.0)


def _panel(level: str, rows: Sequence[Difference], room: Room) -> Any:
    divisor, unit = (2**30, "GiB") if level == "memory" else units.time_unit(max(map(_larger, rows)))
    order = [_name(row, room) for row in rows]
    height = 26 * len(rows)
    title = drawing.heading(f"{words.LEVEL_TITLES[level]} ({unit})")
    bars = _bars(rows, order, ("bytes" if level == "memory" else "s", divisor), room)
    if not room.side_by_side:
        return bars.properties(width=room.panel + room.labels - _SHORT_LABELS - 4, height=height, title=title)
    bars = bars.properties(width=_WIDTH, height=height, title=title)
    return alt.hconcat(bars, _ratios(rows, order).properties(width=_RATIO_WIDTH, height=height), spacing=18)


def _name(row: Difference, room: Room) -> str:
    """The name of a row; where there is little room, its last part on a line of its own."""
    name = words.label(row)
    return name if room.side_by_side else ":\n".join(name.rsplit(": ", 1))


def _style(extent: int, room: Room) -> dict[str, Any]:
    return {"labelLimit": extent} if room.side_by_side else names_of(room) | {"labelLimit": extent}


def _text(row: Difference, of: float, side: str, room: Room) -> str:
    """The figure of a side; B has the ratio too where that has no panel."""
    said = words.value(row, of)
    return f"{said}, × {units.digits(row.ratio)}" if side == "B" and row.ratio and not room.side_by_side else said


def _bars(rows: Sequence[Difference], order: list[str], unit: tuple[str, float], room: Room) -> Any:
    si, divisor = unit
    values: list[dict[str, Any]] = [
        {
            "level": row.level,
            "row": _name(row, room),
            "side": side,
            "value": of / divisor,
            "text": _text(row, of, side, room),
        }
        for row in rows
        for side, of in zip(_SIDES, (row.a, row.b), strict=True)
        if of is not None
    ]
    reach = max(value["value"] for value in values) * (1.3 if room.side_by_side else 1.75)
    extent = _LABELS if room.side_by_side else _SHORT_LABELS
    y = alt.Y(
        "row:N",
        sort=order,
        title=None,
        axis=alt.Axis(grid=False, minExtent=extent, maxExtent=extent, **_style(extent, room)),
    )
    offset = alt.YOffset("side:N", sort=list(_SIDES))
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, reach], nice=False), axis=alt.Axis(tickCount=4))
    legend = alt.Legend(title=None, orient="top", direction="horizontal", symbolOpacity=1)
    color = alt.Color("side:N", scale=drawing.palette(dict(zip(_SIDES, drawing.PAIR, strict=True))), legend=legend)
    base = drawing.of(values, {"value": (f"value_{si}", divisor)})
    drawn = base.mark_bar(opacity=1).encode(x=x, y=y, yOffset=offset, color=color)
    text = base.mark_text(align="left", dx=4, fontSize=10, color=drawing.INK)
    return alt.layer(drawn, text.encode(x=alt.X("value:Q"), y=y, yOffset=offset, text=alt.Text("text:N")))


def _ratios(rows: Sequence[Difference], order: list[str]) -> Any:
    """A dot per ratio on a logarithmic axis around 1, its interval as a line; filled in where there is a difference."""
    values = [_ratio(row) for row in rows if row.ratio]
    furthest = min(max((max(v["high"], 1 / v["low"]) for v in values), default=1.0) * 1.1, _FURTHEST)
    domain = [1 / max(furthest, 1.2), max(furthest, 1.2)]
    scale = drawing.logarithmic(*domain, clamp=True)
    there = (0.25, 0.5, 0.7, 1, 1.4, 2, 4) if furthest > _FURTHEST / 2 else (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2)
    ticks = [tick for tick in there if domain[0] <= tick <= domain[1]]
    x = alt.X("ratio:Q", title="B / A", scale=scale, axis=alt.Axis(values=ticks, format="~g"))
    y = alt.Y("row:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labels=False, grid=False))
    one = drawing.of([{"ratio": 1}]).mark_rule(color=drawing.FAINT, strokeDash=[4, 4]).encode(x=x)
    base = drawing.of(values, {"low": ("ratio.low", 1.0), "high": ("ratio.high", 1.0)})
    color = alt.Color("color:N", scale=None)
    line = base.mark_rule(strokeWidth=2.5, opacity=0.55)
    line = line.encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), y=y, color=color)
    dots = base.mark_circle(size=46, opacity=1).encode(x=x, y=y, color=color)
    text = base.mark_text(align="left", dx=8, dy=-8, fontSize=10, color=drawing.INK).encode(
        x=x, y=y, text=alt.Text("text:N")
    )
    return alt.layer(one, line, dots, text)


def _ratio(row: Difference) -> dict[str, Any]:
    ratio = row.ratio or 1.0
    low, high = row.interval or (ratio, ratio)
    color = drawing.FAINT if row.verdict in (NO_DIFFERENCE, UNKNOWN) else drawing.INK
    at = {"level": row.level, "row": words.label(row), "color": color}
    return at | {"ratio": ratio, "low": low, "high": high, "text": units.digits(ratio)}
