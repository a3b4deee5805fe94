"""Throughput against time per token: what an engine's operator trades when the batch grows."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sightline.answers import labels, summary
from sightline.profile import GENERATION, Profile
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room

_WIDTH, _HEIGHT = 330, 300
_LEAST_POINTS, _MOST_LINES = 3, 10
_BATCH = "workload.batch"
_TITLES = {
    "tpot": "time per output token (TPOT) in milliseconds",
    "rate": "tokens/s, all sequences",
    "ttft": "time to first token (TTFT) in seconds",
}
_UNITS = {
    "tpot": ("tpot_s", 1e-3),
    "tpot_low": ("tpot_s.low", 1e-3),
    "tpot_high": ("tpot_s.high", 1e-3),
    "ttft": ("ttft_s", 1.0),
    "ttft_low": ("ttft_s.low", 1.0),
    "ttft_high": ("ttft_s.high", 1.0),
    "rate": ("output_tokens_per_s", 1.0),
    "rate_low": ("output_tokens_per_s.low", 1.0),
    "rate_high": ("output_tokens_per_s.high", 1.0),
}
_THOUSANDS = 1e4
"""Value from which an axis counts in thousands."""


def curve_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return two panels over the batch, a line per whatever else differs; None if the batch does not vary.

    Left: tokens per second against time per token, each point labelled with the batch. Right: time to first token.
    """
    if profiles[0].task is not GENERATION:
        return None
    # Of a single output token there is no time between tokens.
    if not all(profile.tpot_s > 0 for profile in profiles):
        return None
    points = _points(profiles)
    names = list(dict.fromkeys(p["line"] for p in points))
    batches = [len({p["batch"] for p in points if p["line"] == name}) for name in names]
    if len(names) > _MOST_LINES or min(batches) < _LEAST_POINTS or len(points) != sum(batches):
        return None
    named = len(names) > 1
    legend = alt.Legend(title=None, orient="bottom", columns=1, symbolType="circle") if named else None
    color = alt.Color("line:N", scale=drawing.palette(dict(zip(names, drawing.LINES, strict=False))), legend=legend)
    source = drawing.of(points, _UNITS)
    chart = drawing.beside(
        _trade(source, color, points, room), _first_token(source, color, points, room), room=room, spacing=44
    )
    lines = [
        "Labels are sequences in flight. Hollow points do not fit in memory.",
        "Up: more throughput. Left: lower latency.",
        drawing.basis([p.evidence for p in profiles], "thin line" if any(p.interval for p in profiles) else ""),
        *summary.anchor_sentences(profiles),
    ]
    return drawing.configure(
        chart, labels.common_title([p.scenario for p in profiles]), list(filter(None, lines)), room
    )


def _points(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """A point per scenario; its line is named by what else differs."""
    named = labels.line_labels([p.scenario for p in profiles], _BATCH)
    return [
        {
            "line": label,
            "batch": int(p.scenario.workload.batch),
            "tpot": 1e3 * float(p.tpot_s),
            "ttft": float(p.ttft_s),
            "rate": float(p.output_tokens_per_s),
            "fits": bool(p.fits),
            "text": f"{int(p.scenario.workload.batch):,}",
            **_ends(p, "output_tokens_per_s", "rate", 1.0),
            **_ends(p, "ttft_s", "ttft", 1.0),
            **_ends(p, "tpot_s", "tpot", 1e3),
        }
        for label, p in zip(named, profiles, strict=True)
    ]


def _ends(profile: Profile, key: str, name: str, factor: float) -> dict[str, float]:
    """The ends of the 80 % interval of a figure; that figure where they are not known."""
    low, high = profile.interval.get(key) or (None, None)
    if low is None or high is None:
        low = high = float(profile.figure(key))
    return {f"{name}_low": factor * float(low), f"{name}_high": factor * float(high)}


def _spans(source: Any, axis: str, name: str, x: Any, y: Any, color: Any) -> Any:
    """Thin lines through the points: their intervals along an axis."""
    rule = source.mark_rule(strokeWidth=1, opacity=0.5, clip=True)
    along = alt.X(f"{name}_low:Q", title=_TITLES[name]) if axis == "x" else alt.Y(f"{name}_low:Q", title=_TITLES[name])
    return rule.encode(**({"x": x, "y": y} | {axis: along, f"{axis}2": f"{name}_high:Q"}), color=color)


def _trade(source: Any, color: Any, points: Sequence[dict[str, Any]], room: Room) -> Any:
    fastest = min(points, key=lambda p: float(p["tpot"]))["line"]
    labelled = [p for p in points if p["line"] == fastest]
    scale, axis = _log_axis([p[key] for p in points for key in ("tpot", "tpot_low", "tpot_high")])
    x = alt.X("tpot:Q", title=_TITLES["tpot"], scale=scale, axis=axis)
    most = max(p["rate_high"] for p in points)
    scale = alt.Scale(domain=[0, 1.06 * most], nice=False)
    y = alt.Y(
        "rate:Q",
        title=_TITLES["rate"],
        axis=alt.Axis(format="~s" if most >= _THOUSANDS else ",~f", tickCount=6),
        scale=scale,
    )
    text = drawing.of(labelled, _UNITS).mark_text(align="right", dx=-7, dy=-6, fontSize=11, color=drawing.INK)
    spans = _spans(source, "x", "tpot", x, y, color), _spans(source, "y", "rate", x, y, color)
    drawn = alt.layer(*_line(source, x, y, color), *spans, text.encode(x=x, y=y, text=alt.Text("text:N")))
    return drawn.properties(width=room.plot(_WIDTH), height=_HEIGHT, title=drawing.heading("Throughput against TPOT"))


def _first_token(source: Any, color: Any, points: Sequence[dict[str, Any]], room: Room) -> Any:
    batches = sorted({p["batch"] for p in points})
    axis = alt.Axis(values=batches, grid=False, labelOverlap=True)
    x_scale = alt.Scale(type="log", base=2, nice=False, padding=12)
    x = alt.X("batch:Q", title="sequences in flight", scale=x_scale, axis=axis)
    scale, axis = _log_axis([p[key] for p in points for key in ("ttft", "ttft_low", "ttft_high")])
    y = alt.Y("ttft:Q", title=_TITLES["ttft"], scale=scale, axis=axis)
    drawn = alt.layer(*_line(source, x, y, color), _spans(source, "y", "ttft", x, y, color))
    return drawn.properties(width=room.plot(_WIDTH), height=_HEIGHT, title=drawing.heading("Time to first token"))


def _log_axis(values: Sequence[float]) -> tuple[Any, Any]:
    """A logarithmic scale over ``values`` with some room, and an axis that marks 1, 2 and 5 of each decade."""
    low, high = min(values) / 1.25, max(values) * 1.3
    axis = alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap=True)
    return drawing.logarithmic(low, high), axis


def _line(source: Any, x: Any, y: Any, color: Any) -> list[Any]:
    """The curve and its points; those that do not fit are hollow."""
    fill = alt.condition("datum.fits", color, alt.value("white"))
    points = source.mark_point(size=46, filled=False, strokeWidth=1.5, opacity=1)
    tooltip = ["line:N", "batch:Q", "tpot:Q", "ttft:Q", "rate:Q", "fits:N"]
    return [
        source.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color, order=alt.Order("batch:Q")),
        points.encode(x=x, y=y, stroke=color, fill=fill, tooltip=tooltip),
    ]
