"""A measured load and its replay: every request at its measured and its simulated time, and how both are spread."""

from typing import Any

import altair as alt
import numpy as np

from sightline.answers import labels
from sightline.profile import Profile
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.serving.latencies import LEAST_S, MEASURED, SIMULATED, TIMES, spread_panel
from sightline.simulation.load import Floats
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.times import times_of

_WIDTH, _HEIGHT = 250, 250
_MOST_POINTS = 2000
"""Requests that a panel shows; of more, some at equal distances."""
_SHARES = np.linspace(0.0, 1.0, 101)
_SIDES = dict(zip(("measured", "simulated"), drawing.PAIR, strict=True))


def replay_chart(measured: Outcome, profile: Profile, room: Room = SCREEN) -> dict[str, Any]:
    """Return the picture of a measured load beside the simulation of the same requests."""
    here, there = times_of(measured), times_of(profile.outcome)
    rows = []
    for key, title in TIMES.items():
        both = np.isfinite(here[key]) & np.isfinite(there[key])
        if both.any():
            pair = np.maximum(here[key][both], LEAST_S), np.maximum(there[key][both], LEAST_S)
            spread = {name: np.quantile(of, _SHARES) for name, of in zip((MEASURED, SIMULATED), pair, strict=True)}
            panels = _requests_panel(pair, room), spread_panel("", spread, room, height=_HEIGHT // 2)
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
        .mark_circle(size=14, opacity=0.35, color=_SIDES["simulated"])
        .encode(x=x, y=y)
    )
    return alt.layer(line, dots).properties(width=room.plot(_WIDTH), height=_HEIGHT)


def _axis(low: float, high: float) -> Any:
    return alt.Axis(values=decade_ticks(low, high), format="~g", labelOverlap=True)


def _ends(measured: Floats, simulated: Floats) -> tuple[float, float]:
    both = np.concatenate([measured, simulated])
    return float(both.min()) / 1.1, float(both.max()) * 1.1
