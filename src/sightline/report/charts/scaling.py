"""Scaling: throughput and its efficiency against the number of devices, a line per kind of device."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from sightline.answers import labels
from sightline.profile import Profile
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room

_HEIGHT = 240
_UNITS = {
    "rate": ("tokens_per_s", 1.0),
    "low": ("tokens_per_s.low", 1.0),
    "high": ("tokens_per_s.high", 1.0),
    "linear": ("linear_tokens_per_s", 1.0),
    "share": ("share_of_linear", 1.0),
}
LEAST_POINTS = 3
"""Numbers of devices from which there is a curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What some number of devices reaches."""

    line: str
    """What the curve is of, such as a device."""
    devices: int
    tokens_per_s: float
    interval: tuple[float, float] | None = None
    label: str = ""
    fits: bool = True


def scaling_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return throughput and its efficiency of predictions over numbers of devices; None if these do not make curves."""
    points = list(_points(profiles))
    counts = [len({point.devices for point in points if point.line == line}) for line in {p.line for p in points}]
    if not points or min(counts) < LEAST_POINTS or sum(counts) != len(points):
        return None
    has = "thin line" if any(point.interval for point in points) else ""
    lines = [
        "Dashed: linear scaling from the smallest device count.",
        *([] if all(point.fits for point in points) else ["Hollow points do not fit in memory."]),
        drawing.basis([profile.evidence for profile in profiles], has),
    ]
    title = labels.title_of_sweep([profile.scenario for profile in profiles], ["number of devices"])
    return drawing.configure(scaling_panels(points, room), title, lines, room)


def _points(profiles: Sequence[Profile]) -> Iterator[Scale]:
    """A point per profile; its line is named by what else than the number of devices differs."""
    if len({profile.task.name for profile in profiles}) != 1 or not profiles[0].task.rates:
        return
    varied = labels.differing([profile.scenario for profile in profiles])
    for profile, keys in zip(profiles, varied, strict=True):
        rate = profile.task.rates[0]
        others = {k.rpartition(".")[2]: v for k, v in keys.items() if k.startswith(_TELLING) and k not in _FOLLOWING}
        cluster = profile.scenario.cluster
        named = [cluster.device.name, *(f"{name} {value}" for name, value in others.items() if value is not None)]
        if len({p.scenario.cluster.device.name for p in profiles}) == 1 and others:
            named = named[1:]
        low, high = profile.interval.get(rate) or (None, None)
        value = profile.figure(rate)
        if value:
            yield Scale(
                line=", ".join(named),
                devices=int(cluster.devices),
                tokens_per_s=float(value),
                interval=None if low is None or high is None else (float(low), float(high)),
                label=labels.title(profile.scenario),
                fits=bool(profile.fits),
            )


_TELLING = ("plan.", "workload.", "model.name")
_FOLLOWING = ("plan.data_parallel", "plan.replicas", "workload.global_batch", "plan.zero_stage_groups")
"""What follows from the number of devices."""


def scaling_panels(points: Sequence[Scale], room: Room = SCREEN) -> Any:
    """Return two panels: tokens per second with what linear scaling would give, and the share of it that is reached."""
    names = list(dict.fromkeys(point.line for point in points))
    legend = alt.Legend(title=None, orient="bottom", symbolType="circle", symbolOpacity=1) if len(names) > 1 else None
    color = alt.Color("line:N", scale=drawing.palette(dict(zip(names, drawing.LINES, strict=False))), legend=legend)
    width = room.panel * 0.55 if room.side_by_side else room.plot(room.panel * 2)
    counts = sorted({point.devices for point in points})
    axis = alt.Axis(values=_marked(counts), grid=False, format=",d", labelOverlap=True)
    x = alt.X("devices:Q", title="devices", scale=alt.Scale(type="log", base=2, nice=False, padding=14), axis=axis)
    panels = _throughput(points, x, color), _efficiency(points, x, color, room)
    sized = [panel.properties(width=width, height=_HEIGHT) for panel in panels]
    return drawing.beside(*sized, room=room)


def _marked(counts: Sequence[int]) -> list[int]:
    """The counts that are marked on the axis, so many that they do not overlap."""
    every = -(-len(counts) // 8)
    return list(counts[::every])


def rows_of(points: Sequence[Scale]) -> list[dict[str, Any]]:
    """Return each point with what linear scaling from its line's fewest devices gives, and its share of that."""
    rows = []
    for point in points:
        first = min((p for p in points if p.line == point.line), key=lambda p: p.devices)
        linear = first.tokens_per_s * point.devices / first.devices
        low, high = point.interval or (point.tokens_per_s, point.tokens_per_s)
        rows.append(
            {
                "line": point.line,
                "devices": point.devices,
                "rate": point.tokens_per_s,
                "low": low,
                "high": high,
                "linear": linear,
                "share": point.tokens_per_s / linear,
                "plan": point.label,
                "fits": point.fits,
            }
        )
    return rows


def _throughput(points: Sequence[Scale], x: Any, color: Any) -> Any:
    rows = rows_of(points)
    low, high = min(row["low"] for row in rows) / 1.15, max(max(row["high"], row["linear"]) for row in rows) * 1.15
    axis = alt.Axis(values=decade_ticks(low, high), format="~s", labelOverlap=True)
    y = alt.Y("rate:Q", title="tokens/s", scale=drawing.logarithmic(low, high), axis=axis)
    source = drawing.of(rows, _UNITS)
    linear = source.mark_line(strokeDash=[4, 4], strokeWidth=1, color=drawing.FAINT)
    spans = source.mark_rule(strokeWidth=1.2, opacity=0.6).encode(
        x=x, y=alt.Y("low:Q", scale=drawing.logarithmic(low, high)), y2=alt.Y2("high:Q"), color=color
    )
    drawn = [linear.encode(x=x, y=alt.Y("linear:Q"), detail=alt.Detail("line:N")), spans, *_curve(source, x, y, color)]
    return alt.layer(*drawn).properties(title=drawing.heading("Throughput", frame="bounds"))


def _efficiency(points: Sequence[Scale], x: Any, color: Any, room: Room) -> Any:
    rows = rows_of(points)
    least = min(0.8, 0.95 * min(row["share"] for row in rows))
    most = max(1.0, *(row["share"] for row in rows)) * 1.02
    scale = alt.Scale(domain=[least, most], nice=False)
    y = alt.Y(
        "share:Q", title="share of linear scaling (%)", scale=scale, axis=alt.Axis(format="~%", tickCount=room.ticks)
    )
    one = drawing.of([{"share": 1}]).mark_rule(strokeDash=[4, 4], color=drawing.FAINT).encode(y=y)
    drawn = alt.layer(one, *_curve(drawing.of(rows, _UNITS), x, y, color))
    return drawn.properties(title=drawing.heading("Efficiency", frame="bounds"))


def _curve(source: Any, x: Any, y: Any, color: Any) -> list[Any]:
    tooltip = [
        "line:N",
        "devices:Q",
        alt.Tooltip("rate:Q", format=",.3~s"),
        alt.Tooltip("share:Q", format=".1%"),
        "plan:N",
    ]
    points = source.mark_point(size=44, filled=False, strokeWidth=1.5, opacity=1)
    fill = alt.condition("datum.fits", color, alt.value("white"))
    return [
        source.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color, order=alt.Order("devices:Q")),
        points.encode(x=x, y=y, stroke=color, fill=fill, tooltip=tooltip),
    ]
