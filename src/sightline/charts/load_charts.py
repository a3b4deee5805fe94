"""One served load: over time, how its latencies are spread, and its requests beside those that were measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.answers import labels, summary, units
from sightline.charts import figure
from sightline.charts.curves import STROKES, TIMES, batch_chart, is_curve, rate_chart
from sightline.charts.drawing import FAINT, LINES, MEMORY_COLORS, PAIR, PHASE_COLORS, SCREEN, Room, basis, rounded
from sightline.profile import SERVING, Profile
from sightline.quantities import percent
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.iterations import replica_seconds
from sightline.simulation.results.summary import Summary, summary_of
from sightline.simulation.results.times import times_of

MEASURED, SIMULATED = "measured", "simulated"
_LEAST_S = 1e-6
_SHARES = np.linspace(0.0, 1.0, 101)
_SIDES = dict(zip((MEASURED, SIMULATED), PAIR, strict=True))
_DASHES = {MEASURED: [1, 0], SIMULATED: [6, 3]}
_MOST_POINTS = 2000
"""Requests that a panel shows; of more, some at equal distances."""
Quantiles = Mapping[str, NDArray[np.float64]]
"""Seconds that each of equally many shares of the requests does not exceed, by line."""


def throughput_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return loads over their rate, or batches over their size; None where profiles make no curve."""
    return (serving_chart if profiles[0].task is SERVING else batch_chart)(profiles, room)


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
    latencies = _latency_panels(profile, None, room)
    if not latencies:
        return None
    course = _course(profile, room.plot(840))
    panels = [*([course] if course else []), figure.beside(*latencies, room=room, spacing=30)]
    lines = [*_about(profile), *_slo_line(profile)]
    return figure.specification(figure.Group(parts=panels), labels.title(profile.scenario), lines, room)


def course_chart(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return one run over time: queue, batch, cache; None where no iteration was seen."""
    course = _course(profile, room.plot(680))
    if course is None:
        return None
    return figure.specification(figure.Group(parts=[course]), labels.title(profile.scenario), _about(profile), room)


def _about(profile: Profile) -> list[str]:
    return [*labels.subtitle(profile.scenario), summary.in_a_line(profile), basis(profile.evidence)]


def _course(profile: Profile, width: float) -> figure.Group | None:
    """Sequences that run and wait, and below them the KV cache in use, and replicas where they come and go.

    None where no iteration was seen, or no request answered.
    """
    found = _summary(profile)
    if found is None or not found.moments.end_s:
        return None
    moments, replicas = found.moments, _replicas_over_time(found)
    capacity = sum(count * pool.kv_capacity_tokens for count, pool in zip(replicas, found.pools, strict=True))

    def rows(name: str, column: str, values: Any) -> list[dict[str, Any]]:
        pairs = zip(moments.edges_s, values, strict=False)
        return [{"time_s": float(t), column: float(value), "line": name} for t, value in pairs]

    divisor, unit = units.time_unit(moments.end_s)
    color = figure.Series(
        column="line", looks={"running": PHASE_COLORS["decode"], "waiting": PHASE_COLORS["queue"]}, legend=STROKES
    )
    requests = [row for name in ("running", "waiting") for row in rows(name, "requests", moments.means(name))]
    cache = rows("KV cache", "kv_use", moments.means("kv_tokens") / np.maximum(capacity, 1))
    steps: dict[str, Any] = {"x": "time_s", "interpolate": "step-after", "strokeWidth": 1.5}
    held = {"color": MEMORY_COLORS["kv_cache"], "opacity": 0.7, "strokeWidth": None}
    drawn = [
        (
            173,
            "requests",
            figure.Axis(title="requests"),
            figure.mark("line", requests, y="requests", color=color, **steps),
        ),
        (
            *(86, "", figure.linear("% of the KV cache", 0, 1, 0.01, values=[0, 25, 50, 75, 100], labelOverlap=False)),
            figure.mark("area", cache, y="kv_use", **{**steps, **held}),
        ),
    ]
    if found.lifetimes is not None:
        line = figure.mark("line", rows("replicas", "replicas", replicas[0]), y="replicas", color=LINES[2], **steps)
        drawn.append((65, "", figure.Axis(title="replicas", scale={"domainMin": 0}), line))
    x = figure.linear(unit, 0.0, moments.end_s, divisor)
    title = {"requests": "Requests and KV cache over time"}
    panels = [
        figure.Panel(title=title.get(name, ""), x=x, y=y, marks=[one], width=width, height=height)
        for height, name, y, one in drawn
    ]
    return figure.Group(parts=panels, spacing=14, apart=())


def _summary(profile: Profile) -> Summary | None:
    """What is kept of a load; None where no request was answered."""
    found = summary_of(profile.outcome) if profile.summary is None and profile.outcome is not None else profile.summary
    return found if found is not None and found.totals.completed else None


def _replicas_over_time(found: Summary) -> list[Any]:
    """How many replicas of each pool there are; where they come and go the mean over each moment."""
    if found.lifetimes is None:
        return list(found.replicas)
    edges, begin_s = found.moments.edges_s, min(found.totals.first_arrival_s, found.moments.end_s)
    seconds = np.diff(replica_seconds(found.lifetimes, begin_s, edges))
    return [seconds / np.maximum(np.diff(np.maximum(edges, begin_s)), 1e-12)]


def latency_chart(profile: Profile, measured: Outcome | None = None, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return a panel for each time; of a measured load with both lines. None where no request was answered."""
    panels = _latency_panels(profile, measured, room)
    if not panels:
        return None
    spans = [
        f"{TIMES[key].lower()} p90 ± {percent(float((high / low) ** 0.5) - 1)}"
        for key in TIMES
        for low, high in [profile.interval.get(f"{key}.p90") or (0.0, None)]
        if low and high
    ]
    lines = [*labels.subtitle(profile.scenario), *_slo_line(profile), basis(profile.evidence, ", ".join(spans))]
    return figure.specification(
        figure.beside(*panels, room=room, spacing=30), labels.title(profile.scenario), lines, room
    )


def _latency_panels(profile: Profile, measured: Outcome | None, room: Room) -> list[figure.Panel]:
    """A panel for each time; none where no request was answered."""
    simulated = _quantiles(profile)
    seen = {} if measured is None else {key: s[np.isfinite(s)] for key, s in times_of(measured).items()}
    both = {MEASURED: {key: np.quantile(s, _SHARES) for key, s in seen.items() if s.size}, SIMULATED: simulated}
    slo, panels = profile.scenario.workload.slo, []
    for key, title in TIMES.items():
        lines = {name: there[key] for name, there in both.items() if key in there}
        if simulated and lines:
            panels.append(_spread_panel(title, lines, room, limit=getattr(slo, key, None)))
    return panels


def _slo_line(profile: Profile) -> list[str]:
    """What the dashed lines are, where there are any."""
    slo = profile.scenario.workload.slo
    return [] if slo is None else [f"Dashed: SLO limits, which {slo.percentile:g} % of the requests must meet."]


def _quantiles(profile: Profile) -> dict[str, NDArray[np.float64]]:
    found = _summary(profile)
    if found is None:
        return {}
    times = {key: np.array([found.samples[key].at(float(share)) for share in _SHARES]) for key in TIMES}
    return {key: seconds for key, seconds in times.items() if np.isfinite(seconds).all()}


def _spread_panel(
    title: str, lines: Quantiles, room: Room, *, limit: float | None = None, height: int = 210
) -> figure.Panel:
    """The share of the requests that took no longer: a line for what was measured and one for what was simulated."""
    seconds = np.maximum(np.concatenate([*lines.values(), [] if limit is None else [limit]]), _LEAST_S)
    low, high = float(seconds.min()) / 1.15, float(seconds.max()) * 1.15
    rows = [
        {"time_s": rounded(max(s, _LEAST_S)), "share": round(float(share), 4), "line": name}
        for name, spread in lines.items()
        for share, s in zip(np.linspace(0.0, 1.0, spread.size), spread, strict=True)
    ]
    color = figure.Series(column="line", looks={name: _SIDES[name] for name in lines}, legend=STROKES)
    dashes = {name: _DASHES[name] if len(lines) > 1 else [1, 0] for name in lines}
    dash = figure.Series(column="line", looks=dashes, legend=STROKES)
    order = {"field": "share", "type": "quantitative"}
    looks = {"color": color, "strokeDash": dash, "order": order, "strokeWidth": 1.8}
    marks = [figure.mark("line", rows, x="time_s", y="share", **looks)]
    if limit is not None:
        marks.append(figure.threshold({"line": "SLO", "time_s": limit}, x="time_s"))
    divisor, unit = (1e-3, "ms") if high < 1.0 else (1.0, "seconds")
    x = figure.logarithmic(unit, low, high, divisor, labelOverlap="greedy")
    y = figure.linear("% of the requests", 0, 1, 0.01, values=[0, 25, 50, 75, 90, 100])
    return figure.Panel(title=title, x=x, y=y, marks=marks, width=room.plot(260), height=height)


def replay_chart(measured: Outcome, profile: Profile, room: Room = SCREEN) -> dict[str, Any]:
    """Return the picture of a measured load beside the simulation of the same requests."""
    here, there = times_of(measured), times_of(profile.outcome)
    groups = []
    for key, title in TIMES.items():
        both = np.isfinite(here[key]) & np.isfinite(there[key])
        if both.any():
            pair = {MEASURED: here[key][both], SIMULATED: there[key][both]}
            pair = {name: np.maximum(seconds, _LEAST_S) for name, seconds in pair.items()}
            spread = {name: np.quantile(seconds, _SHARES) for name, seconds in pair.items()}
            panels = _requests_panel(pair, room), _spread_panel("", spread, room, height=125)
            groups.append(figure.Group(parts=panels, spacing=18, title=title))
    lines = [
        *labels.subtitle(profile.scenario),
        "Top: each point is a request; on the diagonal, simulated and measured times are equal.",
        "Bottom: share of requests up to this time.",
    ]
    return figure.specification(
        figure.beside(*groups, room=room, spacing=40), labels.title(profile.scenario), lines, room
    )


def _requests_panel(pair: Quantiles, room: Room) -> figure.Panel:
    """Simulated over measured seconds, a point for each request."""
    measured, simulated = pair.values()
    low, high = float(np.min([*pair.values()])) / 1.1, float(np.max([*pair.values()])) * 1.1
    shown = np.unique(np.linspace(0, measured.size - 1, min(measured.size, _MOST_POINTS)).astype(int))
    requests = [
        {"request": str(i + 1), "measured_s": float(measured[i]), "simulated_s": float(simulated[i])} for i in shown
    ]
    place = {"x": "measured_s", "y": "simulated_s"}
    diagonal = [{"measured_s": end, "simulated_s": end} for end in (low, high)]
    marks = [
        figure.mark("line", diagonal, color=FAINT, strokeWidth=1, strokeDash=[4, 3], **place),
        figure.mark("circle", requests, size=14, opacity=0.35, color=_SIDES[SIMULATED], **place),
    ]
    x, y = (figure.logarithmic(f"{name}, seconds", low, high) for name in pair)
    return figure.Panel(x=x, y=y, marks=marks, width=room.plot(250), height=250)
