"""A server at several rates: what it was measured to do, and what was simulated, against what it answers per second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from sightline.answers import units
from sightline.report.charts import drawing
from sightline.report.charts.accuracy import MEASURED, PREDICTED
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room

_WIDTH, _HEIGHT = 250, 230
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
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=drawing.heading(_PANELS[key]))


def _point(
    figures: Mapping[str, float], key: str, divisor: float, *, line: str, anchors: bool = False
) -> dict[str, Any]:
    return {"rate": figures["requests_per_s"], "time": figures[key] / divisor, "line": line, _ANCHOR: anchors}
