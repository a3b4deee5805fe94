"""Times that users wait for against the requests that are answered per second, a point for each load."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from sightline.answers import labels, summary
from sightline.profile import Profile
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room

if TYPE_CHECKING:
    from sightline.scenario import ServingScenario

_WIDTH, _HEIGHT = 330, 260
_LEAST_POINTS = 3
_RATE, _CLIENTS = "workload.arrival.rate", "workload.arrival.concurrency"
_TIMES = {"ttft_s": ("Time to first token", 1.0, "seconds"), "tpot_s": ("Time per output token", 1e-3, "milliseconds")}
"""What a panel shows: its title, its unit in seconds and that unit's name."""
_SHOWN = {"p50": "50 % of requests", "p90": "90 %", "p99": "99 %"}


def is_curve(scenarios: "Sequence[ServingScenario]") -> bool:
    """Return whether loads differ in their rate or in the number of their clients alone, and are enough for a curve."""
    return any(_differ_in(key, scenarios) for key in (_RATE, _CLIENTS))


def _differ_in(key: str, scenarios: "Sequence[ServingScenario]") -> bool:
    asked = [getattr(one.workload.arrival, key.rpartition(".")[2]) for one in scenarios]
    if None in asked or len({*asked}) < max(_LEAST_POINTS, len(asked)):
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
