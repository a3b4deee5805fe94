"""One served load over time: requests that run and wait, the KV cache, and replicas where they come and go."""

from typing import Any

import altair as alt
import numpy as np

from sightline.answers import labels, summary, units
from sightline.profile import Profile
from sightline.report.charts import drawing
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.serving.rates import legend
from sightline.simulation.results.figures import Summary, summary_of
from sightline.simulation.results.totals import replica_seconds

_WIDTH, _HEIGHT = 680, 260


def course_chart(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return one run over time: queue, batch, cache; None where no iteration was seen."""
    panel = course_panel(profile, room.plot(_WIDTH))
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
    below = area.encode(x=x, y=y).properties(width=width, height=_HEIGHT // 3)
    heading = drawing.heading("Requests and KV cache over time")
    panels = [above.properties(width=width, height=_HEIGHT * 2 // 3, title=heading), below]
    if found.lifetimes is not None:
        counts = [
            {"line": "replicas", "t": float(t) / divisor, "value": float(v)}
            for t, v in zip(edges, there[0], strict=False)
        ]
        line = drawing.of(counts, {"t": ("time_s", divisor), "value": ("replicas", 1.0)}).mark_line(
            strokeWidth=1.5, interpolate="step-after", color=drawing.LINES[2]
        )
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
