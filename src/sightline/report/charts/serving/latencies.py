"""How the times of requests are spread: the share of the requests that took no longer, simulated and measured."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from sightline.answers import labels
from sightline.profile import Profile
from sightline.quantities import percent
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.figures import summary_of
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
