"""What limits the time: a bar for each limit with a tick at what it would take alone, and modules split by limit."""

from collections.abc import Mapping
from typing import Any

import altair as alt

from sightline.answers import units
from sightline.answers.analyses import interval_of, whole_name
from sightline.charts import drawing
from sightline.charts.drawing import SCREEN, Room
from sightline.charts.stacks import names_of
from sightline.explanation.answer import Explanation
from sightline.profile import IDLE_PHASES

COLORS: Mapping[str, str] = {
    "compute": "#174a8c",
    "memory": "#5cbcf0",
    "network": "#c4281f",
    "host": "#a3a3a3",
    "bubble": "#eeb41e",
    "input": "#9a6096",
    "launches": "#7d7d7d",
    "imbalance": "#d4570c",
    "unmatched": "#edcf3c",
}
"""Of limits: communication, the host and bubbles have the colors of their phases."""
MOST_MODULES = 8
_ROOM = 1.35
"""Width of a panel over its longest bar: the text behind it needs the rest."""


def explained_chart(explanation: Explanation, room: Room = SCREEN, *, titled: bool = True) -> dict[str, Any]:
    """Return the chart of an explanation: limits with their distance, and time by module stacked by limit.

    A page that has the title above it needs none that is ``titled``.
    """
    whole = whole_name(explanation)
    panels = [_limits(explanation, whole, room)]
    if any(row.module and float(row.exposed_s) > 0 for row in explanation.rows):
        panels.append(_modules(explanation, whole, room))
    joined = alt.vconcat(*panels).resolve_scale(color="independent")
    lines = [_line(explanation, whole)]
    if any(one.alone_s is not None for one in explanation.limits):
        lines.append("tick: time if nothing else limited it")
    return drawing.configure(joined, explanation.title if titled else f"What limits the {whole}", lines, room)


def _line(explanation: Explanation, whole: str) -> str:
    said = f"{explanation.source} {whole} {units.seconds(explanation.whole_s)}"
    span = interval_of(explanation)
    return f"{said}, {span}" if span else said


def _limits(explanation: Explanation, whole: str, room: Room) -> Any:
    limits = explanation.limits
    ends = [max(one.time_s, one.alone_s or 0.0) for one in limits]
    divisor, unit = units.time_unit(max(ends, default=1.0))
    bars = [
        {
            "row": one.limit,
            "limit": one.limit,
            "start": 0.0,
            "end": one.time_s / divisor,
            "alone": None if one.alone_s is None else one.alone_s / divisor,
            "text_at": end / divisor,
            "text": f"{units.seconds(one.time_s)} · {units.percent(one.share)}"
            if room.side_by_side
            else units.seconds(one.time_s),
        }
        for one, end in zip(limits, ends, strict=True)
    ]
    longest = max(ends, default=1.0) / divisor
    return _panel(bars, bars, f"What limits the {whole} ({unit})", longest, room, _units(divisor), ticks=True)


def _modules(explanation: Explanation, whole: str, room: Room) -> Any:
    by: dict[str, dict[str, float]] = {}
    for row in explanation.rows:
        if row.module and row.phase not in IDLE_PHASES and float(row.exposed_s) > 0:
            cell = by.setdefault(row.module, {})
            cell[row.bound] = cell.get(row.bound, 0.0) + float(row.exposed_s)
    ranked = sorted(by.items(), key=lambda item: -sum(item[1].values()))[:MOST_MODULES]
    divisor, unit = units.time_unit(max(sum(cell.values()) for _, cell in ranked))
    bars: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for module, cell in ranked:
        start = 0.0
        for limit in (name for name in COLORS if name in cell):
            end = start + cell[limit] / divisor
            bars.append({"row": module, "limit": limit, "start": start, "end": end})
            start = end
        texts.append({"row": module, "text_at": start, "text": units.seconds(start * divisor)})
    longest = max(text["text_at"] for text in texts)
    return _panel(
        bars, texts, f"Time by module and limit ({whole}, {unit})", longest, room, _units(divisor), ticks=False
    )


def _units(divisor: float) -> drawing.Units:
    return drawing.in_si("s", divisor, "start", "end", "alone", "text_at")


def _panel(
    bars: list[dict[str, Any]],
    texts: list[dict[str, Any]],
    title: str,
    longest: float,
    room: Room,
    scaled: drawing.Units,
    *,
    ticks: bool,
) -> Any:
    used = {bar["limit"] for bar in bars}
    shown = drawing.palette({name: color for name, color in COLORS.items() if name in used})
    legend = None if ticks else alt.Legend(title=None, orient="bottom", columns=5 if room.side_by_side else 3)
    names = alt.Axis(grid=False, minExtent=room.labels, maxExtent=room.labels, **names_of(room))
    scale = alt.Scale(domain=[0, longest * _ROOM or 1.0], nice=False)
    x = alt.X("start:Q", title=None, scale=scale, axis=alt.Axis(tickCount=room.ticks, labelFlush=False))
    rows = [text["row"] for text in texts]
    y = alt.Y("row:N", sort=rows, title=None, axis=names, scale=alt.Scale(paddingInner=0.25))
    tooltip = [alt.Tooltip("row:N"), alt.Tooltip("limit:N")]
    color = alt.Color("limit:N", scale=shown, legend=legend)
    drawn = drawing.of(bars, scaled).mark_bar().encode(x=x, x2=alt.X2("end:Q"), y=y, color=color, tooltip=tooltip)
    text = drawing.of(texts, scaled).mark_text(align="left", dx=8, fontSize=11, color=drawing.INK)
    layers = [drawn, text.encode(x=alt.X("text_at:Q"), y=y, text=alt.Text("text:N"))]
    alone = [bar for bar in bars if ticks and bar["alone"] is not None]
    if alone:
        mark = drawing.of(alone, scaled).mark_tick(thickness=3, opacity=1, size=drawing.ROW_HEIGHT, color=drawing.INK)
        layers.append(mark.encode(x=alt.X("alone:Q"), y=y))
    panel = alt.layer(*layers).properties(height=drawing.ROW_HEIGHT * len(rows), width=room.panel)
    return panel.properties(title=drawing.heading(title, frame="bounds"))
