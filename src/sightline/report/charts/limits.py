"""Bars against a limit: what each of several plans takes of something, and what may be taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from sightline.report.charts import drawing
from sightline.report.charts.axes import Axis, axis
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.stacks import names_of

WITHIN, BEYOND = "within the limit", "beyond the limit"
_TEXT = 60
"""Pixels of the text behind a bar."""
_COLORS = {WITHIN: "#5cbcf0", BEYOND: "#d4570c"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a plan takes, in SI units."""

    row: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


def limit_panel(key: str, label: str, bars: Sequence[Bar], limit: float, said: str, room: Room = SCREEN) -> Any:
    """Return the panel of one result key: a bar per plan with its interval, and the limit as a line that says so."""
    values = [limit, *(bar.value for bar in bars), *(end for bar in bars for end in bar.interval or ())]
    shown = axis(key, label, [0.0, *values], log=False)
    reach = max(values) / shown.divisor * room.with_text
    rows = [room.row(bar.row) for bar in bars]
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, reach], nice=False), axis=shown.ticks(room.ticks))
    names = alt.Axis(grid=False, **({} if room.side_by_side else names_of(room)))
    y = alt.Y("row:N", sort=rows, title=None, axis=names, scale=alt.Scale(paddingInner=0.25))
    colors = drawing.palette(_COLORS)
    scaled = {name: (f"{key}.{name}", shown.divisor) for name in ("value", "low", "high", "end")}
    there = [_row(bar, row, shown, limit, reach / room.panel) for bar, row in zip(bars, rows, strict=True)]
    drawn = drawing.of(there, scaled).mark_bar().encode(x=x, y=y, color=alt.Color("kind:N", scale=colors, legend=None))
    spans = drawing.of([row for row in there if row["low"] < row["high"]], scaled).mark_rule(
        strokeWidth=1.5, color=drawing.INK
    )
    text = drawing.of(there, scaled).mark_text(align="left", dx=5, fontSize=11, color=drawing.INK)
    layers = [
        drawn,
        spans.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y),
        text.encode(x=alt.X("end:Q"), y=y, text=alt.Text("text:N")),
    ]
    heading = drawing.heading(shown.title, frame="bounds")
    panel = alt.layer(*layers, *_limit(limit / shown.divisor, said))
    return panel.properties(width=room.panel, height=drawing.ROW_HEIGHT * len(bars), title=heading)


def _row(bar: Bar, row: str, shown: Axis, limit: float, pixel: float) -> dict[str, Any]:
    """A bar with its text, which stands behind the limit where it would run into it; ``pixel`` is the width of one."""
    low, high = (end / shown.divisor for end in bar.interval or (bar.value, bar.value))
    value = bar.value / shown.divisor
    end = clear_of(limit / shown.divisor, max(value, high), _TEXT * pixel)
    kind = WITHIN if bar.value <= limit else BEYOND
    return {"row": row, "value": value, "low": low, "high": high, "end": end, "text": bar.text, "kind": kind}


def clear_of(line: float, end: float, width: float) -> float:
    """Return where the text behind a bar begins so that no ``line`` runs through it: at the bar's end, or behind it."""
    return line if end <= line < end + width else end


def _limit(limit: float, said: str) -> list[Any]:
    """The line of the limit with its words above it."""
    mark = drawing.of([{"x": limit, "text": said}])
    rule = mark.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=drawing.WARNING).encode(x=alt.X("x:Q"))
    words = mark.mark_text(align="center", baseline="bottom", color=drawing.WARNING, fontSize=11)
    return [rule, words.encode(x=alt.X("x:Q"), y=alt.value(-4), text=alt.Text("text:N"))]
