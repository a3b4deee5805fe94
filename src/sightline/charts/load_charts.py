"""How the times of requests are spread: the share of the requests that took no longer, simulated and measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from sightline.answers import labels, summary, units
from sightline.charts import drawing
from sightline.charts.axes import decade_ticks
from sightline.charts.curves import is_curve, legend, rate_chart
from sightline.charts.drawing import SCREEN, Room
from sightline.profile import Profile
from sightline.quantities import percent
from sightline.simulation.load import Floats
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.iterations import replica_seconds
from sightline.simulation.results.summary import Summary, summary_of
from sightline.simulation.results.times import times_of

TIMES = {"ttft_s": "Time to first token", "tpot_s": "Time per output token", "latency_s": "Latency"}
MEASURED, SIMULATED = "measured", "simulated"
LEAST_S = 1e-6
_SHARES = np.linspace(0.0, 1.0, 101)
_WIDTH, _HEIGHT = 260, 210
_SIDES = dict(zip((MEASURED, SIMULATED), drawing.PAIR, strict=True))
_DASHES = {MEASURED: [1, 0], SIMULATED: [6, 3]}

Quantiles = Mapping[str, NDArray[np.float64]]
"""Seconds that each of equally many shares of the requests does not exceed, by line."""


def latency_chart(profile: Profile, measured: Outcome | None = None, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return a panel for each time; of a measured load with both lines. None where no request was answered."""
    panels = latency_panels(profile, measured, room)
    if not panels:
        return None
    chart = drawing.beside(*panels, room=room, spacing=30)
    lines_ = [*labels.subtitle(profile.scenario), *slo_line(profile)]
    spans = [
        f"{TIMES[key].lower()} p90 ± {percent(float((high / low) ** 0.5) - 1)}"
        for key in TIMES
        for low, high in [profile.interval.get(f"{key}.p90") or (0.0, None)]
        if low and high
    ]
    lines_.append(drawing.basis(profile.evidence, ", ".join(spans)))
    return drawing.configure(chart, labels.title(profile.scenario), list(filter(None, lines_)), room)


def latency_panels(profile: Profile, measured: Outcome | None = None, room: Room = SCREEN) -> list[Any]:
    """Return a panel for each time; none where no request was answered."""
    there = _of_profile(profile)
    here = {} if measured is None else _of_outcome(measured)
    slo, panels = profile.scenario.workload.slo, []
    for key, title in TIMES.items():
        if key in there:
            lines = ({MEASURED: here[key]} if key in here else {}) | {SIMULATED: there[key]}
            panels.append(spread_panel(title, lines, room, limit=getattr(slo, key, None)))
        elif there and key in here:
            panels.append(spread_panel(title, {MEASURED: here[key]}, room, limit=getattr(slo, key, None)))
    return panels


def slo_line(profile: Profile) -> list[str]:
    """Return what the dashed lines are, where there are any."""
    slo = profile.scenario.workload.slo
    if slo is None:
        return []
    return [f"Dashed: SLO limits, which {slo.percentile:g} % of the requests must meet."]


def _of_profile(profile: Profile) -> dict[str, NDArray[np.float64]]:
    found = profile.summary
    if found is None and profile.outcome is not None:
        found = summary_of(profile.outcome)
    if found is None or not found.totals.completed:
        return {}
    of = {key: np.array([found.samples[key].at(float(share)) for share in _SHARES]) for key in TIMES}
    return {key: seconds for key, seconds in of.items() if np.isfinite(seconds).all()}


def _of_outcome(outcome: Outcome) -> dict[str, NDArray[np.float64]]:
    times = {key: seconds[np.isfinite(seconds)] for key, seconds in times_of(outcome).items()}
    return {key: np.quantile(seconds, _SHARES) for key, seconds in times.items() if seconds.size}


def spread_panel(
    title: str, lines: Quantiles, room: Room = SCREEN, *, limit: float | None = None, height: int = _HEIGHT
) -> Any:
    """Return the panel of one time: a line for what was measured and one for what was simulated."""
    seconds = np.maximum(np.concatenate([*lines.values(), [] if limit is None else [limit]]), LEAST_S)
    low, high = float(seconds.min()) / 1.15, float(seconds.max()) * 1.15
    divisor, unit = (1e-3, "ms") if high < 1.0 else (1.0, "seconds")
    rows = [
        {"time": drawing.rounded(max(s, LEAST_S) / divisor), "share": round(100.0 * float(share), 2), "line": name}
        for name, of in lines.items()
        for share, s in zip(np.linspace(0.0, 1.0, of.size), of, strict=True)
    ]
    scale = drawing.logarithmic(low / divisor, high / divisor)
    x = alt.X("time:Q", title=unit, scale=scale, axis=time_axis(low / divisor, high / divisor))
    percent = alt.Axis(values=[0, 25, 50, 75, 90, 100])
    y = alt.Y("share:Q", title="% of the requests", scale=alt.Scale(domain=[0, 100]), axis=percent)
    several = len(lines) > 1
    legend = alt.Legend(title=None, orient="bottom", symbolType="stroke") if several else None
    color = alt.Color("line:N", scale=drawing.palette({name: _SIDES[name] for name in lines}), legend=legend)
    dash = alt.StrokeDash(
        "line:N",
        scale=alt.Scale(domain=list(lines), range=[_DASHES[name] if several else [1, 0] for name in lines]),
        legend=legend,
    )
    scaled = {"time": ("time_s", divisor), "share": ("share", 0.01)}
    drawn = drawing.of(rows, scaled).mark_line(strokeWidth=1.8)
    layers = [drawn.encode(x=x, y=y, color=color, strokeDash=dash, order=alt.Order("share:Q"))]
    if limit is not None:
        rule = drawing.of([{"line": "SLO", "time": limit / divisor}], scaled).mark_rule(
            strokeDash=[5, 4], strokeWidth=1.5
        )
        layers.append(rule.encode(x=x, color=alt.value(drawing.WARNING)))
    return alt.layer(*layers).properties(width=room.plot(_WIDTH), height=height, title=drawing.heading(title))


def time_axis(low: float, high: float) -> Any:
    """Return the logarithmic axis of a time."""
    return alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap="greedy")


_COURSE_WIDTH, _COURSE_HEIGHT = 680, 260


def course_chart(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return one run over time: queue, batch, cache; None where no iteration was seen."""
    panel = course_panel(profile, room.plot(_COURSE_WIDTH))
    if panel is None:
        return None
    return drawing.configure(alt.vconcat(panel), labels.title(profile.scenario), lines_of(profile), room)


def lines_of(profile: Profile) -> list[str]:
    """Return the lines below the title of a run."""
    lines = [*labels.subtitle(profile.scenario), summary.in_a_line(profile), drawing.basis(profile.evidence)]
    return [line for line in lines if line]


def course_panel(profile: Profile, width: int) -> Any:
    """Return the panel of one run over time; None where no iteration was seen, or no request answered."""
    found = profile.summary
    if found is None and profile.outcome is not None:
        found = summary_of(profile.outcome, over_time=True)
    if found is None or not found.totals.completed or not found.moments.end_s:
        return None
    return _panel(found, width)


def _panel(found: Summary, width: int) -> Any:
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
    color = alt.Color("line:N", scale=scale, legend=legend())
    requests = drawing.of(rows, {"t": ("time_s", divisor), "value": ("requests", 1.0)}).mark_line(
        strokeWidth=1.5, interpolate="step-after"
    )
    above = requests.encode(x=x, y=alt.Y("value:Q", title="requests"), color=color)
    there = _replicas_over_time(found)
    capacity = sum(count * of.kv_capacity_tokens for count, of in zip(there, found.pools, strict=True))
    held = moments.means("kv_tokens") / np.maximum(capacity, 1)
    cache = [
        {"line": "KV cache", "t": float(t) / divisor, "value": 100.0 * float(v)}
        for t, v in zip(edges, held, strict=False)
    ]
    area = drawing.of(cache, {"t": ("time_s", divisor), "value": ("kv_use", 0.01)}).mark_area(
        color=drawing.MEMORY_COLORS["kv_cache"], interpolate="step-after", opacity=0.7
    )
    quarters = alt.Axis(values=[0, 25, 50, 75, 100], labelOverlap=False)
    y = alt.Y("value:Q", title="% of the KV cache", scale=alt.Scale(domain=[0, 100]), axis=quarters)
    below = area.encode(x=x, y=y).properties(width=width, height=_COURSE_HEIGHT // 3)
    heading = drawing.heading("Requests and KV cache over time")
    panels = [above.properties(width=width, height=_COURSE_HEIGHT * 2 // 3, title=heading), below]
    if found.lifetimes is not None:
        counts = [
            {"line": "replicas", "t": float(t) / divisor, "value": float(v)}
            for t, v in zip(edges, there[0], strict=False)
        ]
        line = drawing.of(counts, {"t": ("time_s", divisor), "value": ("replicas", 1.0)}).mark_line(
            strokeWidth=1.5, interpolate="step-after", color=drawing.LINES[2]
        )
        y = alt.Y("value:Q", title="replicas", scale=alt.Scale(domainMin=0))
        panels.append(line.encode(x=x, y=y).properties(width=width, height=_COURSE_HEIGHT // 4))
    return alt.vconcat(*panels, spacing=14)


def _replicas_over_time(found: Summary) -> list[Any]:
    """How many replicas of each pool there are; where they come and go the mean over each moment."""
    if found.lifetimes is None:
        return list(found.replicas)
    edges, begin_s = found.moments.edges_s, min(found.totals.first_arrival_s, found.moments.end_s)
    seconds = np.diff(replica_seconds(found.lifetimes, begin_s, edges))
    return [seconds / np.maximum(np.diff(np.maximum(edges, begin_s)), 1e-12)]


_REPLAY_WIDTH, _REPLAY_HEIGHT = 250, 250
_MOST_POINTS = 2000
"""Requests that a panel shows; of more, some at equal distances."""
_REPLAY_SIDES = dict(zip(("measured", "simulated"), drawing.PAIR, strict=True))


def replay_chart(measured: Outcome, profile: Profile, room: Room = SCREEN) -> dict[str, Any]:
    """Return the picture of a measured load beside the simulation of the same requests."""
    here, there = times_of(measured), times_of(profile.outcome)
    rows = []
    for key, title in TIMES.items():
        both = np.isfinite(here[key]) & np.isfinite(there[key])
        if both.any():
            pair = np.maximum(here[key][both], LEAST_S), np.maximum(there[key][both], LEAST_S)
            spread = {name: np.quantile(of, _SHARES) for name, of in zip((MEASURED, SIMULATED), pair, strict=True)}
            panels = _requests_panel(pair, room), spread_panel("", spread, room, height=_REPLAY_HEIGHT // 2)
            rows.append(
                alt.vconcat(*panels, spacing=18, title=drawing.heading(title)).resolve_scale(
                    color="independent", strokeDash="independent"
                )
            )
    lines = [
        *labels.subtitle(profile.scenario),
        "Top: each point is a request; on the diagonal, simulated and measured times are equal.",
        "Bottom: share of requests up to this time.",
    ]
    chart = drawing.beside(*rows, room=room, spacing=40)
    return drawing.configure(chart, labels.title(profile.scenario), lines, room)


def _requests_panel(pair: tuple[Floats, Floats], room: Room) -> Any:
    """Simulated over measured seconds, a point for each request."""
    measured, simulated = pair
    low, high = _ends(measured, simulated)
    shown = np.unique(np.linspace(0, measured.size - 1, min(measured.size, _MOST_POINTS)).astype(int))
    points = [{"request": str(i + 1), "measured": float(measured[i]), "simulated": float(simulated[i])} for i in shown]
    x, y = (
        side(f"{name}:Q", title=f"{name}, seconds", scale=drawing.logarithmic(low, high), axis=_axis(low, high))
        for side, name in ((alt.X, "measured"), (alt.Y, "simulated"))
    )
    ends = [{"measured": end, "simulated": end} for end in (low, high)]
    line = drawing.of(ends).mark_line(color=drawing.FAINT, strokeWidth=1, strokeDash=[4, 3]).encode(x=x, y=y)
    dots = (
        drawing.of(points, drawing.in_si("s", 1.0, "measured", "simulated"))
        .mark_circle(size=14, opacity=0.35, color=_REPLAY_SIDES["simulated"])
        .encode(x=x, y=y)
    )
    return alt.layer(line, dots).properties(width=room.plot(_REPLAY_WIDTH), height=_REPLAY_HEIGHT)


def _axis(low: float, high: float) -> Any:
    return alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap=True)


def _ends(measured: Floats, simulated: Floats) -> tuple[float, float]:
    both = np.concatenate([measured, simulated])
    return float(both.min()) / 1.1, float(both.max()) * 1.1


_LOAD_WIDTH = 840
"""Pixels of the course where the latencies have three panels below it."""


def serving_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the picture of one load over time, or of several over their rate; None where neither can be drawn."""
    if len(profiles) == 1:
        return _load_chart(profiles[0], room)
    answered = [profile for profile in profiles if profile.completed]
    if not answered or not is_curve([profile.scenario for profile in profiles]):
        return None
    return rate_chart(answered, room)


def _load_chart(profile: Profile, room: Room) -> dict[str, Any] | None:
    """One load over time, and below how its latencies are spread; None where no request was answered."""
    latencies = latency_panels(profile, None, room)
    if not latencies:
        return None
    course = course_panel(profile, room.plot(_LOAD_WIDTH))
    spread = drawing.beside(*latencies, room=room, spacing=30)
    chart = drawing.below(*(panel for panel in (course, spread) if panel is not None))
    lines = [*lines_of(profile), *slo_line(profile)]
    return drawing.configure(chart, labels.title(profile.scenario), lines, room)
