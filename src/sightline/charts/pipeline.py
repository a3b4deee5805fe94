"""A pipeline's schedule: what every stage does in a predicted step, with the bubbles between its passes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.answers import labels, units
from sightline.charts.drawing import INPUT_COLOR, PHASE_COLORS, REST, SCREEN, Room, basis, rounded, text_on
from sightline.charts.figure import Group, Panel, Series, linear, mark, names, specification, words
from sightline.prediction.schedules.timeline import (
    BACKWARD,
    FORWARD,
    HOST,
    INPUT,
    OMITTED,
    ONCE,
    TRANSFER,
    WEIGHT,
    Span,
    drawn_micro_batches,
    timeline,
)
from sightline.profile import TRAINING, Profile

_WIDTH, _ROW, _THIN = 640, 26, 15
_MOST_ROWS, _MOST_BARS = 16, 1100
"""Stages and bars that are drawn; of more stages some at equal distances, of more bars the first and the last."""
_DIGIT = 7.5
"""Pixels of a digit and its margin in a bar."""
COMMUNICATION, WAITING, OPTIMIZER, MORE = "communication", "waiting", "optimizer", "more micro-batches"
_COLORS = {
    FORWARD: PHASE_COLORS["forward"],
    BACKWARD: PHASE_COLORS["backward"],
    WEIGHT: PHASE_COLORS["recompute"],
    INPUT: INPUT_COLOR,
    OPTIMIZER: PHASE_COLORS["optimizer"],
    WAITING: PHASE_COLORS["queue"],
    COMMUNICATION: PHASE_COLORS["communication"],
    HOST: PHASE_COLORS["host"],
    MORE: REST,
}
"""By kind; what is white between them is a bubble."""
_KINDS = {
    TRANSFER: COMMUNICATION,
    ONCE["data parallel"]: COMMUNICATION,
    ONCE["embedding"]: COMMUNICATION,
    ONCE["samples"]: WAITING,
    ONCE["devices"]: WAITING,
    OMITTED: MORE,
}
"""What kinds of spans are called that share a color."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A part of the step that is drawn."""

    title: str
    start_s: float
    end_s: float


def pipeline_chart(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the Vega-Lite specification; None where a step has no pipeline, or nobody predicted its passes."""
    if profile.task is not TRAINING or not profile.rows or not profile.stage_times:
        return None
    stages = int(profile.scenario.plan.pipeline_parallel)
    if stages < 2:
        return None
    spans = timeline(profile)
    end_s = max(span.end_s for span in spans)
    divisor, unit = units.time_unit(end_s)
    shown = _shown_stages(stages)
    chosen = [span for span in spans if span.stage in shown]
    windows = list(_windows(chosen, end_s))
    kinds = list(dict.fromkeys(_kind(span) for span in chosen))
    panels = [
        _panel(window, chosen, shown, kinds, (divisor, unit), room, position, named=window is windows[-1])
        for position, window in enumerate(windows)
    ]
    chart = Group(parts=panels, spacing=22, apart=("x", "color"))
    return specification(chart, labels.title(profile.scenario), _lines(profile, stages, shown, windows), room)


def _lines(profile: Profile, stages: int, shown: Sequence[int], windows: Sequence[_Window]) -> list[str]:
    """What is drawn, what is left out, and what it rests on."""
    plan, step = profile.scenario.plan, float(profile.step_time_s)
    bubble = float(profile.phases.get("pipeline_bubble", 0.0))
    in_step = int(profile.micro_batches or 1)
    lines = [
        f"Schedule {plan.schedule}: {stages} stages, {in_step:,} micro-batches, step time {units.seconds(step)}.",
        f"Numbers are micro-batches. Empty space is pipeline bubble: {units.percent(bubble / step)} of the step.",
    ]
    drawn = drawn_micro_batches(profile.scenario, in_step)
    if len(shown) < stages:
        lines.append(f"Showing {len(shown)} of {stages} stages, evenly spaced.")
    if len(windows) > 1:
        lines.append("Showing the first and last part of the step.")
    if drawn < in_step:
        lines.append(f"Showing {drawn:,} micro-batches; one bar represents the rest.")
    low, high = profile.interval.get("step_time_s") or (None, None)
    said = f"step of {units.seconds(float(low))} to {units.seconds(float(high))}" if low and high else ""
    return [*lines, basis(profile.evidence, said)]


def _shown_stages(stages: int) -> list[int]:
    """All stages, or of very many some at equal distances with the first and the last."""
    if stages <= _MOST_ROWS:
        return list(range(stages))
    return sorted({round(position * (stages - 1) / (_MOST_ROWS - 1)) for position in range(_MOST_ROWS)})


def _windows(spans: Sequence[Span], end_s: float) -> Iterator[_Window]:
    """The whole step, or the first and the last part of one with very many bars."""
    if len(spans) <= _MOST_BARS:
        yield _Window(title="The step", start_s=0.0, end_s=end_s)
        return
    starts, ends = sorted(span.start_s for span in spans), sorted((span.end_s for span in spans), reverse=True)
    half = _MOST_BARS // 2
    first, last = starts[half], ends[half]
    yield _Window(title="The first part", start_s=0.0, end_s=min(first, end_s / 2))
    yield _Window(title="The last part", start_s=max(last, end_s / 2), end_s=end_s)


def _kind(span: Span) -> str:
    return _KINDS.get(span.kind, span.kind)


def _panel(
    window: _Window,
    spans: Sequence[Span],
    shown: Sequence[int],
    kinds: Sequence[str],
    unit: tuple[float, str],
    room: Room,
    position: int,
    *,
    named: bool,
) -> Panel:
    """The bars of one part of the step; the last one has the legend."""
    width, (divisor, name) = room.plot(_WIDTH), unit
    within = [span for span in spans if span.end_s > window.start_s and span.start_s < window.end_s]
    pixel_s = (window.end_s - window.start_s) / width
    bars = [_bar(span, window, pixel_s) for span in within if span.end_s > span.start_s]
    order = [f"stage {stage}" for stage in shown]
    legend = {"columns": 4 if room.side_by_side else 2, "symbolType": "square", "offset": 10}
    colors = {kind: color for kind, color in _COLORS.items() if kind in kinds}
    color = Series(column="kind", looks=colors, legend=legend if named else None)
    numbered = [bar for bar in bars if "text" in bar]
    ink = {"field": "ink", "type": "nominal", "scale": None, "legend": None}
    middle = {"x": "middle_s", "y": "stage", "align": None, "dx": 0, "fontSize": 10, "color": ink, "clip": True}
    tooltip = ["stage", "kind", "micro_batch", ("start_s", ".4~g"), ("end_s", ".4~g")]
    looks = {"stroke": "white", "strokeWidth": 0.5, "tooltip": tooltip, "clip": True}
    ticks = {"tickCount": room.ticks, "labelFlush": False, "format": ",~f", "labelOverlap": "greedy"}
    return Panel(
        title=window.title,
        heading={"frame": "bounds"},
        x=linear(f"time ({name})", window.start_s, window.end_s, divisor, **ticks),
        y=names(order, scale={"domain": order, "paddingInner": 0.15}, labelFontSize=11, labelPadding=6),
        marks=[
            mark("bar", bars, x="start_s", x2="end_s", y="stage", color=color, **looks),
            *([words(numbered, **middle)] if numbered else []),
        ],
        width=width,
        height=(_ROW if len(shown) <= _MOST_ROWS // 2 else _THIN) * len(shown),
        apart=["color"],
        zoom=f"zoom{position}",
    )


def _bar(span: Span, window: _Window, pixel_s: float) -> dict[str, Any]:
    """A bar with the number of its micro-batch, where that has room."""
    start_s, end_s = max(span.start_s, window.start_s), min(span.end_s, window.end_s)
    number = "" if span.micro_batch is None else str(span.micro_batch + 1)
    kind = _kind(span)
    fits = bool(number) and kind != COMMUNICATION and (end_s - start_s) / pixel_s >= _DIGIT * len(number)
    start, end = rounded(start_s), rounded(end_s)
    bar = {"stage": f"stage {span.stage}", "kind": kind, "micro_batch": number or None, "start_s": start, "end_s": end}
    if not fits:
        return bar
    return bar | {"text": number, "middle_s": (start + end) / 2, "ink": text_on(_COLORS[kind])}
