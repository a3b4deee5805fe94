"""Scaling: throughput and its efficiency against the number of devices, a line per kind of device."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import altair as alt

from sightline.answers import labels, summary, units
from sightline.charts import drawing
from sightline.charts.accuracy import MEASURED, PREDICTED
from sightline.charts.axes import decade_ticks
from sightline.charts.drawing import SCREEN, Room
from sightline.profile import GENERATION, Profile

if TYPE_CHECKING:
    from sightline.scenario import ServingScenario

_SCALING_HEIGHT = 240
_SCALING_UNITS = {
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
    points = list(_scales(profiles))
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


def _scales(profiles: Sequence[Profile]) -> Iterator[Scale]:
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
    sized = [panel.properties(width=width, height=_SCALING_HEIGHT) for panel in panels]
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
    source = drawing.of(rows, _SCALING_UNITS)
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
    drawn = alt.layer(one, *_curve(drawing.of(rows, _SCALING_UNITS), x, y, color))
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


_BATCH_WIDTH, _BATCH_HEIGHT = 330, 300
_LEAST_BATCHES, _MOST_LINES = 3, 10
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
    if len(names) > _MOST_LINES or min(batches) < _LEAST_BATCHES or len(points) != sum(batches):
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
    return drawn.properties(
        width=room.plot(_BATCH_WIDTH), height=_BATCH_HEIGHT, title=drawing.heading("Throughput against TPOT")
    )


def _first_token(source: Any, color: Any, points: Sequence[dict[str, Any]], room: Room) -> Any:
    batches = sorted({p["batch"] for p in points})
    axis = alt.Axis(values=batches, grid=False, labelOverlap=True)
    x_scale = alt.Scale(type="log", base=2, nice=False, padding=12)
    x = alt.X("batch:Q", title="sequences in flight", scale=x_scale, axis=axis)
    scale, axis = _log_axis([p[key] for p in points for key in ("ttft", "ttft_low", "ttft_high")])
    y = alt.Y("ttft:Q", title=_TITLES["ttft"], scale=scale, axis=axis)
    drawn = alt.layer(*_line(source, x, y, color), _spans(source, "y", "ttft", x, y, color))
    return drawn.properties(
        width=room.plot(_BATCH_WIDTH), height=_BATCH_HEIGHT, title=drawing.heading("Time to first token")
    )


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


_WIDTH, _HEIGHT = 330, 260
_LEAST_RATES = 3
_RATE, _CLIENTS = "workload.arrival.rate", "workload.arrival.concurrency"
_TIMES = {"ttft_s": ("Time to first token", 1.0, "seconds"), "tpot_s": ("Time per output token", 1e-3, "milliseconds")}
"""What a panel shows: its title, its unit in seconds and that unit's name."""
_SHOWN = {"p50": "50 % of requests", "p90": "90 %", "p99": "99 %"}


def is_curve(scenarios: "Sequence[ServingScenario]") -> bool:
    """Return whether loads differ in their rate or in the number of their clients alone, and are enough for a curve."""
    return any(_differ_in(key, scenarios) for key in (_RATE, _CLIENTS))


def _differ_in(key: str, scenarios: "Sequence[ServingScenario]") -> bool:
    asked = [getattr(one.workload.arrival, key.rpartition(".")[2]) for one in scenarios]
    if None in asked or len({*asked}) < max(_LEAST_RATES, len(asked)):
        return False
    return len({*labels.line_labels(scenarios, key)}) == 1


def rate_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any]:
    """Return times against the requests that are answered per second, a point for each rate or number of clients."""
    panels = [_time_panel(profiles, metric, room) for metric in _TIMES]
    slo = profiles[0].scenario.workload.slo
    has_bands = any(f"{metric}.p90" in profile.interval for metric in _TIMES for profile in profiles)
    lines = ["Bands are 80 % intervals of the 90th percentile."] if has_bands else []
    if slo is not None:
        lines.append("Shaded: within the SLO. Hollow points miss it.")
    lines.append(drawing.basis([profile.evidence for profile in profiles]))
    title = labels.common_title([p.scenario for p in profiles])
    return drawing.configure(
        drawing.beside(*panels, room=room, spacing=44), title, [line for line in lines if line], room
    )


def _time_panel(profiles: Sequence[Profile], metric: str, room: Room) -> Any:
    """One time against the rate, its percentiles as lines."""
    title, unit_s, unit = _TIMES[metric]
    points, bands = [], []
    shown, slo = dict(_SHOWN), profiles[0].scenario.workload.slo
    if slo is not None:
        shown.setdefault(f"p{slo.percentile:g}", f"{slo.percentile:g} %")
    colors = drawing.palette(dict(zip(shown.values(), drawing.LINES, strict=False)))
    for profile in profiles:
        rate, seconds = float(profile.requests_per_s), getattr(profile, metric)
        good = summary.keeps_slo(profile)
        points += [
            {"rate": rate, "time": seconds[key] / unit_s, "line": said, "good": good}
            for key, said in shown.items()
            if seconds.get(key) is not None
        ]
        low, high = profile.interval.get(f"{metric}.p90", (None, None))
        if low and high:
            bands.append({"line": _SHOWN["p90"], "rate": rate, "low": low / unit_s, "high": high / unit_s})
    limit = getattr(slo, metric, None)
    values = [point["time"] for point in points] + ([] if limit is None else [limit / unit_s])
    low, high = min(values) / 1.25, max(values) * 1.3
    axis = alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap=True)
    x = alt.X("rate:Q", title="answered requests per second", scale=alt.Scale(nice=False, zero=False, padding=10))
    y = alt.Y("time:Q", title=unit, scale=drawing.logarithmic(low, high, clamp=True), axis=axis)
    color = alt.Color("line:N", scale=colors, legend=legend())
    scaled = {"rate": ("requests_per_s", 1.0), **drawing.in_si("s", unit_s, "time", "low", "high", "top", "bottom")}
    source = drawing.of(points, scaled)
    bare = alt.Color("line:N", scale=colors, legend=None)
    fill = alt.condition("datum.good", bare, alt.value("white"))
    marks = source.mark_point(size=40, filled=False, strokeWidth=1.5, opacity=1)
    layers = [
        source.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color, order=alt.Order("rate:Q")),
        marks.encode(x=x, y=y, stroke=bare, fill=fill),
    ]
    if bands:
        area = drawing.of(bands, scaled).mark_area(opacity=0.18, color=drawing.LINES[[*_SHOWN].index("p90")])
        layers.insert(0, area.encode(x=x, y=alt.Y("low:Q", title=unit), y2=alt.Y2("high:Q")))
    if limit is not None:
        rule = drawing.of([{"line": "SLO", "time": limit / unit_s}], scaled).mark_rule(
            strokeDash=[5, 4], strokeWidth=1.5, color=drawing.WARNING
        )
        box = drawing.of([{"top": limit / unit_s, "bottom": low}]).mark_rect(color="#179e5f", opacity=0.12)
        layers = [box.encode(y=alt.Y("bottom:Q", title=unit), y2=alt.Y2("top:Q")), *layers, rule.encode(y=y)]
    return alt.layer(*layers).properties(width=room.plot(_WIDTH), height=_HEIGHT, title=drawing.heading(title))


def legend() -> Any:
    """Return the legend of lines, below the panel."""
    return alt.Legend(title=None, orient="bottom", symbolType="stroke")


_MEASURED_WIDTH, _MEASURED_HEIGHT = 250, 230
_PANELS = {"ttft_s": "Time to first token", "tpot_s": "Time per output token", "latency_s": "Latency"}
_ANCHOR = "anchor"
_COLORS = dict(zip((MEASURED, PREDICTED), drawing.PAIR, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateMeasured:
    """One rate: figures by result key, as they were measured and as they were simulated."""

    measured: Mapping[str, float]
    """``requests_per_s``, and the mean ``ttft_s``, ``tpot_s`` and ``latency_s``."""
    simulated: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of the simulated means."""
    anchors: bool = False
    """Whether this measurement is the one that the simulations rest on."""

    def error(self, key: str) -> float:
        """Return how far the simulated figure is above the measured one, as a share of it."""
        return self.simulated[key] / self.measured[key] - 1.0


def measured_rates_chart(
    rates: Sequence[RateMeasured], title: str, lines: Sequence[str] = (), room: Room = SCREEN
) -> dict[str, Any]:
    """Return a panel for each mean time, simulated as a line with its interval and measured as points."""
    said = ["Means. Points are measured, lines simulated, bands 80 % intervals."]
    if any(one.anchors for one in rates):
        said.append("The hollow point is the anchor of the simulations.")
    panels = [_panel(rates, key) for key in _PANELS]
    return drawing.configure(drawing.beside(*panels, room=room, spacing=40), title, [*lines, *said], room)


def _panel(rates: Sequence[RateMeasured], key: str) -> Any:
    divisor, unit = units.time_unit(max(one.measured[key] for one in rates))
    simulated = [_point(one.simulated, key, divisor, line=PREDICTED) for one in rates]
    measured = [_point(one.measured, key, divisor, line=MEASURED, anchors=one.anchors) for one in rates]
    bands = [
        {
            "line": PREDICTED,
            "rate": one.simulated["requests_per_s"],
            "low": one.interval[key][0] / divisor,
            "high": high / divisor,
        }
        for one in rates
        if key in one.interval and (high := one.interval[key][1])
    ]
    values = [point["time"] for point in simulated + measured]
    low, high = min(values) / 1.4, max(values) * 1.4
    axis = alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap=True)
    x = alt.X("rate:Q", title="answered requests per second", scale=alt.Scale(nice=False, zero=False, padding=10))
    scale = drawing.logarithmic(low, high, clamp=True)
    y = alt.Y("time:Q", title=unit, scale=scale, axis=axis)
    legend = alt.Legend(title=None, orient="bottom")
    color = alt.Color("line:N", scale=drawing.palette(_COLORS), legend=legend)
    bare = alt.Color("line:N", scale=drawing.palette(_COLORS), legend=None)
    scaled = {"rate": ("requests_per_s", 1.0), **drawing.in_si("s", divisor, "time", "low", "high")}
    points = drawing.of(measured, scaled).mark_point(size=55, filled=False, strokeWidth=1.8, opacity=1)
    layers = [
        drawing.of(simulated, scaled)
        .mark_line(strokeWidth=1.8)
        .encode(x=x, y=y, color=color, order=alt.Order("rate:Q")),
        points.encode(x=x, y=y, stroke=bare, fill=alt.condition(f"datum.{_ANCHOR}", alt.value("white"), bare)),
    ]
    if bands:
        area = drawing.of(bands, scaled).mark_area(opacity=0.18, color=_COLORS[PREDICTED], clip=True)
        layers.insert(0, area.encode(x=x, y=alt.Y("low:Q", title=unit, scale=scale), y2=alt.Y2("high:Q")))
    return alt.layer(*layers).properties(
        width=_MEASURED_WIDTH, height=_MEASURED_HEIGHT, title=drawing.heading(_PANELS[key])
    )


def _point(
    figures: Mapping[str, float], key: str, divisor: float, *, line: str, anchors: bool = False
) -> dict[str, Any]:
    return {"rate": figures["requests_per_s"], "time": figures[key] / divisor, "line": line, _ANCHOR: anchors}
