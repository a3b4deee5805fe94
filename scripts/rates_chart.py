"""A chart of a server measured at several rates, and as it is simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.answers import units
from sightline.charts import figure
from sightline.charts.curves import ANSWERED, TIMES, band
from sightline.charts.drawing import PAIR, SCREEN, Room


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
    notes = ["Means. Points are measured, lines simulated, bands 80 % intervals."]
    if any(one.anchors for one in rates):
        notes.append("The hollow point is the anchor of the simulations.")
    panels = [_measured_panel(rates, key) for key in TIMES]
    return figure.specification(figure.beside(*panels, room=room, spacing=40), title, [*lines, *notes], room)


def _measured_panel(rates: Sequence[RateMeasured], key: str) -> figure.Panel:
    divisor, unit = units.time_unit(max(one.measured[key] for one in rates))
    measured, predicted = (
        [
            {"requests_per_s": f["requests_per_s"], "time_s": f[key], "line": line, "anchor": one.anchors and is_real}
            for one in rates
            for f in (one.measured if is_real else one.simulated,)
        ]
        for line, is_real in (("measured", True), ("predicted", False))
    )
    bands = [
        {"line": "predicted", "requests_per_s": one.simulated["requests_per_s"], "low_s": ends[0], "high_s": ends[1]}
        for one in rates
        if (ends := one.interval.get(key)) and ends[1]
    ]
    color = figure.Series(column="line", looks=dict(zip(("measured", "predicted"), PAIR, strict=True)), legend={})
    place = {"x": "requests_per_s", "y": "time_s"}
    line, _ = figure.curve(predicted, color, "requests_per_s", **place)
    looks = {"size": 55, "filled": False, "strokeWidth": 1.8, "opacity": 1}
    bare = color.channel() | {"legend": None}
    hollow = {"condition": {"test": "datum.anchor", "value": "white"}, **bare}
    marks = [line, figure.mark("point", measured, stroke=bare, fill=hollow, **place, **looks)]
    values = [side[key] for one in rates for side in (one.measured, one.simulated)]
    y = figure.logarithmic(unit, min(values) / 1.4, max(values) * 1.4, divisor).clamped()
    if bands:
        marks.insert(0, band(bands, PAIR[1]))
    return figure.Panel(title=TIMES[key], x=ANSWERED, y=y, marks=marks, width=250, height=230)
