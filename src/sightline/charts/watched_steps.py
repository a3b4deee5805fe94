"""A watched job over its steps: what a step takes next to what was predicted, and what else was seen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from sightline.charts import drawing
from sightline.charts.axes import axis
from sightline.charts.drawing import SCREEN, Room

if TYPE_CHECKING:
    from sightline.watching import WatchRecord

MOST_POINTS = 600
"""Lines about steps that are drawn; of more every n-th."""
_HEIGHT = 200
_SMALL = 110
_FIGURES = {"mfu": "MFU", "tokens_per_s": "Tokens per second", "memory_bytes": "Memory", "loss": "Loss"}
"""What is drawn below the step time where it was seen."""


def watched_chart(
    lines: Sequence[Mapping[str, Any]], predicted: Mapping[str, Any] | None = None, room: Room = SCREEN
) -> dict[str, Any] | None:
    """Return the step time over the steps, with the predicted time and its 80 % interval, and further figures below.

    Args:
        lines: About steps, as a watch keeps them; None is returned for fewer than two.
        predicted: Result keys of the prediction, if there is one.
        room: How large it may be.
    """
    if len(lines) < 2:
        return None
    shown = lines[:: -(-len(lines) // MOST_POINTS)]
    panels = [_times(shown, predicted or {}, room)]
    panels += [
        _figure(shown, key, title, room)
        for key, title in _FIGURES.items()
        if sum(line.get(key) is not None for line in shown) >= 2
    ]
    said = ["Bars: middle 50 % of the steps behind each point."]
    if predicted:
        said.append("Dashed: the predicted time with its 80 % interval.")
    return drawing.configure(alt.vconcat(*panels, spacing=20), "Step time", said, room)


def record_chart(record: "WatchRecord", room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the chart of a watched job; None before its second step."""
    return watched_chart(record.steps, record.about.get("predicted") or {}, room)


def _times(lines: Sequence[Mapping[str, Any]], predicted: Mapping[str, Any], room: Room) -> Any:
    span = [float(end) for end in (predicted.get("interval") or {}).get("step_time_s", ())]
    ends = [float(end) for line in lines for end in (line["step_time_s"], *line["spread_s"])]
    shown = axis("step_time_s", "step time", [0.0, *ends, *span], log=False)
    y = alt.Y("value:Q", title=shown.title, scale=shown.scale(), axis=shown.ticks(5))
    points = [
        {"line": "seen", "step": line["step"], "value": line["step_time_s"] / shown.divisor}
        | dict(zip(("low", "high"), (end / shown.divisor for end in line["spread_s"]), strict=True))
        for line in lines
    ]
    scaled = drawing.in_si("s", shown.divisor, "value", "low", "high")
    source, x = drawing.of(points, scaled), _steps(lines, room)
    color = alt.value(drawing.PAIR[0])
    layers = [
        source.mark_rule(strokeWidth=1, opacity=0.5).encode(
            x=x, y=alt.Y("low:Q", title=shown.title), y2="high:Q", color=color
        ),
        source.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color),
    ]
    if span:
        told = drawing.of([
            {"line": "predicted", "low": span[0] / shown.divisor, "high": span[1] / shown.divisor,
             "value": float(predicted["step_time_s"]) / shown.divisor}
        ], scaled)  # fmt: skip
        other = alt.value(drawing.PAIR[1])
        band = told.mark_rect(opacity=0.18).encode(y=alt.Y("low:Q", title=shown.title), y2="high:Q", color=other)
        line = told.mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(y=y, color=other)
        layers = [band, line, *layers]
    return alt.layer(*layers).properties(width=room.panel, height=_HEIGHT)


def _figure(lines: Sequence[Mapping[str, Any]], key: str, title: str, room: Room) -> Any:
    values = [(line["step"], float(line[key])) for line in lines if line.get(key) is not None]
    # Of bytes the whole matters, not how the last of them move.
    start = [0.0] if key == "memory_bytes" else []
    shown = axis(key, title, [*start, *(value for _, value in values)], log=False)
    y = alt.Y("value:Q", title=shown.title, scale=shown.scale(), axis=shown.ticks(4))
    source = drawing.of(
        [{"line": title, "step": step, "value": value / shown.divisor} for step, value in values],
        {"value": (key, shown.divisor)},
    )
    line = source.mark_line(strokeWidth=1.5).encode(x=_steps(lines, room), y=y, color=alt.value(drawing.PAIR[0]))
    return line.properties(width=room.panel, height=_SMALL, title=drawing.heading(title, frame="bounds"))


def _steps(lines: Sequence[Mapping[str, Any]], room: Room) -> Any:
    domain = [lines[0]["step"], lines[-1]["step"]]
    ticks = alt.Axis(format=",d", tickCount=room.ticks, tickMinStep=1, labelFlush=False)
    return alt.X("step:Q", title="step", scale=alt.Scale(domain=domain, nice=False), axis=ticks)
