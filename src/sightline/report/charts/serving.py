"""What a served load looks like: times against the rate of arrivals, or one run over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from sightline.profile import Profile
from sightline.report import labels, summary, units
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room
from sightline.simulation.results.figures import Summary, summary_of
from sightline.simulation.results.lifetimes import replica_seconds

if TYPE_CHECKING:
    from sightline.scenario import ServingScenario

_WIDTH, _HEIGHT = 330, 260
_LEAST_POINTS = 3
_LEAST_S = 1e-6
_RATE, _CLIENTS = "workload.arrival.rate", "workload.arrival.concurrency"
_TIMES = {"ttft_s": ("Time to first token", 1.0, "seconds"), "tpot_s": ("Time per output token", 1e-3, "milliseconds")}
"""What a panel shows: its title, its unit in seconds and that unit's name."""
_SHOWN = {"p50": "half of the requests", "p90": "9 of 10", "p99": "99 of 100"}


def serving_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the picture of one load over time, or of several over their rate; None where neither can be drawn."""
    if len(profiles) == 1:
        return course_chart(profiles[0], room)
    return _rate_chart(profiles, room) if is_curve([profile.scenario for profile in profiles]) else None


def is_curve(scenarios: "Sequence[ServingScenario]") -> bool:
    """Return whether loads differ in their rate or in the number of their clients alone, and are enough for a curve."""
    return any(_differ_in(key, scenarios) for key in (_RATE, _CLIENTS))


def _differ_in(key: str, scenarios: "Sequence[ServingScenario]") -> bool:
    asked = [getattr(one.workload.arrival, key.rpartition(".")[2]) for one in scenarios]
    if None in asked or len({*asked}) < max(_LEAST_POINTS, len(asked)):
        return False
    return len({*labels.line_labels(scenarios, key)}) == 1


def _rate_chart(profiles: Sequence[Profile], room: Room) -> dict[str, Any]:
    """Times against the requests that are answered per second, a point for each rate or number of clients."""
    panels = [_time_panel(profiles, metric, room) for metric in _TIMES]
    slo = profiles[0].scenario.workload.slo
    has_bands = any(f"{metric}.p90" in profile.interval for metric in _TIMES for profile in profiles)
    lines = ["Bands are 80 % intervals of what 9 of 10 requests wait at most."] if has_bands else []
    if slo is not None:
        lines.append("Shaded: within the limits of the SLO. Hollow points do not meet it.")
    lines.append(drawing.basis(profiles[0].evidence))
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
        shown.setdefault(f"p{slo.percentile:g}", f"{slo.percentile:g} of 100")
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
            bands.append({"rate": rate, "low": low / unit_s, "high": high / unit_s})
    limit = getattr(slo, metric, None)
    values = [point["time"] for point in points] + ([] if limit is None else [limit / unit_s])
    low, high = min(values) / 1.25, max(values) * 1.3
    axis = alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap=True)
    x = alt.X("rate:Q", title="answered requests per second", scale=alt.Scale(nice=False, zero=False, padding=10))
    y = alt.Y("time:Q", title=unit, scale=drawing.logarithmic(low, high, clamp=True), axis=axis)
    color = alt.Color("line:N", scale=colors, legend=_legend())
    source = drawing.of(points)
    bare = alt.Color("line:N", scale=colors, legend=None)
    fill = alt.condition("datum.good", bare, alt.value("white"))
    marks = source.mark_point(size=40, filled=False, strokeWidth=1.5, opacity=1)
    layers = [
        source.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color, order=alt.Order("rate:Q")),
        marks.encode(x=x, y=y, stroke=bare, fill=fill),
    ]
    if bands:
        area = drawing.of(bands).mark_area(opacity=0.18, color=drawing.LINES[[*_SHOWN].index("p90")])
        layers.insert(0, area.encode(x=x, y=alt.Y("low:Q", title=unit), y2=alt.Y2("high:Q")))
    if limit is not None:
        rule = drawing.of([{"time": limit / unit_s}]).mark_rule(
            strokeDash=[5, 4], strokeWidth=1.5, color=drawing.WARNING
        )
        box = drawing.of([{"top": limit / unit_s, "bottom": low}]).mark_rect(color="#179e5f", opacity=0.12)
        layers = [box.encode(y=alt.Y("bottom:Q", title=unit), y2=alt.Y2("top:Q")), *layers, rule.encode(y=y)]
    return alt.layer(*layers).properties(width=room.plot(_WIDTH), height=_HEIGHT, title=drawing.heading(title))


def _legend() -> Any:
    """The legend of lines, below the panel."""
    return alt.Legend(title=None, orient="bottom", symbolType="stroke")


def course_chart(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return one run over time - queue, batch, cache - and how its latencies are spread; None where nobody saw it."""
    panels = course_panels(profile, room)
    if not panels:
        return None
    lines = [*labels.subtitle(profile.scenario), summary.in_a_line(profile), drawing.basis(profile.evidence)]
    lines = [line for line in lines if line]
    chart = drawing.beside(*panels, room=room, spacing=44)
    return drawing.configure(chart, labels.title(profile.scenario), lines, room)


def course_panels(profile: Profile, room: Room = SCREEN) -> list[Any]:
    """Return the panels of one run: over time, where iterations were seen, and the spread of latencies."""
    found = profile.summary
    if found is None and profile.outcome is not None:
        found = summary_of(profile.outcome, over_time=True)
    if found is None or not found.totals.completed:
        return []
    over_time = [_course_panel(found, room.plot(_WIDTH))] if found.moments.end_s else []
    return [*over_time, _spread_panel(found, room)]


def _course_panel(found: Summary, width: int) -> Any:
    """Sequences that run and wait, and below them the share of the KV cache that is held."""
    moments = found.moments
    divisor, unit = units.time_unit(moments.end_s)
    edges = moments.edges_s
    x = alt.X("t:Q", title=unit, scale=alt.Scale(domain=[0.0, moments.end_s / divisor], nice=False))
    rows = [
        {"t": float(t) / divisor, "value": float(value), "line": name}
        for name in ("running", "waiting")
        for t, value in zip(edges, moments.means(name), strict=False)
    ]
    scale = drawing.palette({"running": drawing.LINES[0], "waiting": drawing.LINES[1]})
    color = alt.Color("line:N", scale=scale, legend=_legend())
    requests = drawing.of(rows).mark_line(strokeWidth=1.5, interpolate="step-after")
    above = requests.encode(x=x, y=alt.Y("value:Q", title="requests"), color=color)
    there = _replicas_over_time(found)
    capacity = sum(count * of.kv_capacity_tokens for count, of in zip(there, found.pools, strict=True))
    held = moments.means("kv_tokens") / np.maximum(capacity, 1)
    cache = [{"t": float(t) / divisor, "value": 100.0 * float(v)} for t, v in zip(edges, held, strict=False)]
    area = drawing.of(cache).mark_area(color=drawing.MEMORY_COLORS["kv_cache"], interpolate="step-after", opacity=0.7)
    quarters = alt.Axis(values=[0, 25, 50, 75, 100], labelOverlap=False)
    y = alt.Y("value:Q", title="% of the KV cache", scale=alt.Scale(domain=[0, 100]), axis=quarters)
    below = area.encode(x=x, y=y).properties(width=width, height=_HEIGHT // 3)
    heading = drawing.heading("Requests and KV cache over time")
    panels = [above.properties(width=width, height=_HEIGHT * 2 // 3, title=heading), below]
    if found.lifetimes is not None:
        counts = [{"t": float(t) / divisor, "value": float(v)} for t, v in zip(edges, there[0], strict=False)]
        line = drawing.of(counts).mark_line(strokeWidth=1.5, interpolate="step-after", color=drawing.LINES[2])
        y = alt.Y("value:Q", title="replicas", scale=alt.Scale(domainMin=0))
        panels.append(line.encode(x=x, y=y).properties(width=width, height=_HEIGHT // 4))
    return alt.vconcat(*panels, spacing=14)


def _replicas_over_time(found: Summary) -> list[Any]:
    """How many replicas of each pool there are; where they come and go the mean over each moment."""
    if found.lifetimes is None:
        return list(found.replicas)
    edges, begin_s = found.moments.edges_s, min(found.totals.first_arrival_s, found.moments.end_s)
    seconds = np.diff(replica_seconds(found.lifetimes, begin_s, edges))
    return [seconds / np.maximum(np.diff(np.maximum(edges, begin_s)), 1e-12)]


def _spread_panel(found: Summary, room: Room) -> Any:
    """The share of requests whose times are no longer than so many seconds."""
    times = {"first token": found.samples["ttft_s"], "last token": found.samples["latency_s"]}
    rows = [
        {"s": max(sample.at(float(share)), _LEAST_S), "share": 100.0 * float(share), "line": name}
        for name, sample in times.items()
        for share in np.linspace(0.0, 1.0, 201)
    ]
    low = max(min(sample.ends[0] for sample in times.values()), _LEAST_S)
    high = max(sample.ends[1] for sample in times.values())
    axis = alt.Axis(values=decade_ticks(low / 1.1, high * 1.1), format="~g", labelOverlap=True)
    x = alt.X("s:Q", title="seconds from arrival", scale=drawing.logarithmic(low / 1.1, high * 1.1), axis=axis)
    scale = drawing.palette({"first token": drawing.LINES[3], "last token": drawing.LINES[0]})
    color = alt.Color("line:N", scale=scale, legend=_legend())
    y = alt.Y("share:Q", title="% of the requests", scale=alt.Scale(domain=[0, 100]))
    drawn = drawing.of(rows).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color, order=alt.Order("share:Q"))
    return drawn.properties(width=room.plot(_WIDTH), height=_HEIGHT, title=drawing.heading("How latencies are spread"))
