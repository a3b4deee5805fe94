"""A watched job over its steps: what a step takes next to what was predicted, and what else was seen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sightline.charts.drawing import PAIR, SCREEN, Room
from sightline.charts.figure import Axis, Group, Panel, axis, interval, mark, quantity, specification, threshold

if TYPE_CHECKING:
    from sightline.watching import WatchRecord

MOST_POINTS = 600
"""Lines about steps that are drawn; of more every n-th."""
_FIGURES = {"mfu": "MFU", "tokens_per_s": "Tokens per second", "memory_bytes": "Memory", "loss": "Loss"}
"""What is drawn below the step time where it was seen."""
Lines = Sequence[Mapping[str, Any]]


def record_chart(record: "WatchRecord", room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the chart of a watched job; None before its second step."""
    return watched_chart(record.steps, record.about.get("predicted") or {}, room)


def watched_chart(
    lines: Lines, predicted: Mapping[str, Any] | None = None, room: Room = SCREEN
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
    ticks = {"format": ",d", "tickCount": room.ticks, "tickMinStep": 1, "labelFlush": False}
    steps = Axis(title="step", scale={"domain": [lines[0]["step"], lines[-1]["step"]], "nice": False}, ticks=ticks)
    panels = [_times(shown, predicted or {}, steps, room)]
    for key, title in _FIGURES.items():
        rows = [
            {"line": title, "step": line["step"], key: float(line[key])} for line in shown if line.get(key) is not None
        ]
        if len(rows) >= 2:
            # Of bytes the whole matters, not how the last of them move.
            values = [0.0] * (key == "memory_bytes") + [row[key] for row in rows]
            y = axis(quantity(key), values, count=4, is_log=False)
            drawn = mark("line", rows, x="step", y=key, color=PAIR[0], strokeWidth=1.5)
            panels.append(
                Panel(
                    title=title, heading={"frame": "bounds"}, x=steps, y=y, marks=[drawn], width=room.panel, height=110
                )
            )
    notes = ["Bars: middle 50 % of the steps behind each point."]
    if predicted:
        notes.append("Dashed: the predicted time with its 80 % interval.")
    return specification(Group(parts=panels, spacing=20, apart=()), "Step time", notes, room)


def _times(lines: Lines, predicted: Mapping[str, Any], steps: Axis, room: Room) -> Panel:
    """The seconds of steps with their spread, and the prediction with its interval behind them."""
    seen = [
        {"line": "seen", "step": line["step"], "step_time_s": line["step_time_s"]}
        | dict(zip(("step_time_s.low", "step_time_s.high"), line["spread_s"], strict=True))
        for line in lines
    ]
    across = {"x": "step", "color": PAIR[0]}
    marks = [
        interval(seen, y="step_time_s.low", y2="step_time_s.high", **{**across, "strokeWidth": 1, "opacity": 0.5}),
        mark("line", seen, y="step_time_s", strokeWidth=1.5, **across),
    ]
    ends = [float(end) for line in lines for end in (line["step_time_s"], *line["spread_s"])]
    if predicted.get("interval", {}).get("step_time_s"):
        low, high = map(float, predicted["interval"]["step_time_s"])
        told = {"line": "predicted", "step_time_s": float(predicted["step_time_s"])}
        band = [told | {"step_time_s.low": low, "step_time_s.high": high}]
        marks.insert(0, mark("rect", band, y="step_time_s.low", y2="step_time_s.high", color=PAIR[1], opacity=0.18))
        marks.insert(1, threshold(band[0], PAIR[1], y="step_time_s"))
        ends += [low, high]
    y = axis(quantity("step_time_s"), [0.0, *ends], count=5, is_log=False)
    return Panel(x=steps, y=y, marks=marks, width=room.panel, height=200)
