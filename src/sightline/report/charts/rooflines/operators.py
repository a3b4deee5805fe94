"""The hierarchical roofline: what memory, L2, links and network allow, and every operator of a profile below them.

An operator stands at the FLOPs that it does for each byte of the memory, at the FLOP/s that it reaches. Those without
FLOPs of matrices have no place on a logarithmic axis, so they stand at the left edge: as far below the line of the
memory, or of the network, as their bytes per second are below its bandwidth.
"""

from collections.abc import Mapping, Sequence
from math import atan2, degrees, log
from typing import Any, NamedTuple

import altair as alt

from sightline.answers import labels, summary, units
from sightline.explanation.limits import peaks_of
from sightline.profile import IDLE_PHASES, Profile, Row
from sightline.program.formats import HALF_SUMS
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.rooflines.points import REST, Ends, placed

_WIDTH, _HEIGHT = 620, 380
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
_ALONG = {"L2": 0.3, "DRAM": 0.66, "links": 0.5, "network": 0.5}
"""Where along its slope the name of a level stands."""
_EDGE = 2.5
"""Where, over the lower end of the axis, the left edge ends, in which operators without FLOPs stand."""


class Roof(NamedTuple):
    """A line of the roofline."""

    name: str
    bytes_per_s: float


def operator_roofline(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the Vega-Lite specification; None of a profile without operators, or of a device without datasheet."""
    rows = [row for row in profile.rows if row.phase not in IDLE_PHASES and float(row.time_s) > 0]
    device = profile.scenario.cluster.device
    if not any(float(row.flops) > 0 for row in rows) or not device.memory_bandwidth or not device.peak_flops:
        return None
    peaks = _peaks(profile, rows)
    points, ends = placed(profile, rows, peaks)
    if not points:
        return None
    layers = [*_roofs(profile, peaks, ends, room), _dots(points, ends, room)]
    chart = alt.layer(*layers).properties(width=room.plot(_WIDTH), height=_HEIGHT)
    return drawing.configure(chart, labels.title(profile.scenario), _lines(profile, room), room)


def _lines(profile: Profile, room: Room) -> list[str]:
    said = [
        "Each point is an operator; its area is its share of the time. Lines are datasheet rates.",
        (
            "The grey strip holds operators without matrix FLOPs; their distance to a line is their distance to its "
            "bandwidth."
        ),
    ]
    interval = profile.interval.get(profile.task.whole)
    whole = f"80 % interval of the total: {summary.spread(profile)}" if interval and interval[1] else ""
    first = labels.subtitle(profile.scenario)[:1] if room.side_by_side else ()
    return [*first, *said, *filter(None, (whole, drawing.basis(profile.evidence)))]


def _peaks(profile: Profile, rows: Sequence[Row]) -> dict[str, float]:
    """The peaks of the types that the plan computes in, and of the next one where operators go beyond them."""
    found = peaks_of(profile)
    reached = max(float(row.flops) / float(row.time_s) for row in rows)
    if reached <= max(found.values()):
        return found
    rates = profile.scenario.cluster.device.peak_flops
    beyond = [(peak, name) for name, peak in rates.items() if peak >= reached and name != HALF_SUMS]
    return found | {name: peak for peak, name in sorted(beyond)[:1]}


def roofs_of(profile: Profile) -> list[Roof]:
    """Return the levels whose bandwidth is known, those of the device first."""
    cluster, found = profile.scenario.cluster, []
    device = cluster.device
    found.append(Roof("DRAM", float(device.memory_bandwidth)))
    if device.l2_bandwidth and device.l2_bandwidth > device.memory_bandwidth:
        found.append(Roof("L2", float(device.l2_bandwidth)))
    if int(cluster.devices) > 1:
        per_node = min(int(cluster.per_node), int(cluster.devices))
        if per_node > 1 and cluster.intra_node.bandwidth:
            found.append(Roof("links", float(cluster.intra_node.bandwidth)))
        if int(cluster.devices) > per_node and cluster.network.bandwidth_per_node:
            found.append(Roof("network", float(cluster.network.bandwidth_per_node) / per_node))
    return found


def _axes(ends: Ends) -> tuple[Any, Any]:
    across = alt.Axis(values=decade_ticks(*ends.x), labelOverlap="greedy", format="~s", grid=False)
    up = alt.Axis(values=decade_ticks(*ends.y), labelOverlap="greedy", format="~s", grid=False)
    x = alt.X("flop_per_byte:Q", title="intensity (FLOP/byte)", scale=drawing.logarithmic(*ends.x), axis=across)
    y = alt.Y("flop_per_s:Q", title="achieved (FLOP/s)", scale=drawing.logarithmic(*ends.y), axis=up)
    return x, y


def _dots(points: Sequence[dict[str, Any]], ends: Ends, room: Room) -> Any:
    """The operators: phases in colors, modules in shapes."""
    x, y = _axes(ends)
    named = {summary.LABELS.get(key, key): color for key, color in drawing.PHASE_COLORS.items()}
    phases = list(dict.fromkeys(point["phase"] for point in points))
    modules = list(dict.fromkeys(point["module"] for point in points))
    modules = [one for one in modules if one != REST] + [one for one in modules if one == REST]
    columns = 5 if room.side_by_side else 2
    look: dict[str, Any] = {"title": None, "orient": "bottom", "columns": columns, "labelLimit": 150}
    color = alt.Color(
        "phase:N",
        scale=drawing.palette({phase: named[phase] for phase in phases}),
        legend=alt.Legend(symbolType="square", **look),
    )
    shape = alt.Shape(
        "module:N",
        scale=alt.Scale(domain=modules, range=list(_SHAPES[: len(modules)])),
        legend=alt.Legend(symbolFillColor="#7d7d7d", symbolStrokeColor="#7d7d7d", symbolOpacity=1, **look),
    )
    sizes = [28, 620] if room.side_by_side else [18, 320]
    most = max(point["share"] for point in points) or 1.0
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, most], range=sizes), legend=None)
    mark = drawing.of(points).mark_point(filled=True, opacity=0.8, stroke="white", strokeWidth=0.7)
    tooltip = [
        *("operator:N", "module:N", "phase:N"),
        alt.Tooltip("flop_per_byte:Q", title="FLOP/byte", format=".3~g"),
        alt.Tooltip("flop_per_s:Q", title="FLOP/s", format=".3~s"),
        alt.Tooltip("time_s:Q", title="seconds", format=".3~g"),
        alt.Tooltip("share:Q", title="share of the time", format=".1%"),
        "bound:N",
    ]
    return mark.encode(x=x, y=y, color=color, shape=shape, size=size, tooltip=tooltip)


def _roofs(profile: Profile, peaks: Mapping[str, float], ends: Ends, room: Room) -> list[Any]:
    """A slope for every level, a ceiling for every type, with their names."""
    x, y = _axes(ends)
    peak = max(peaks.values())
    (low, high), (bottom, top) = ends.x, ends.y
    edge = [{"flop_per_byte": low, "end": low * _EDGE, "flop_per_s": bottom, "top": top}]
    area = drawing.of(edge).mark_rect(color=drawing.LINE, opacity=0.7)
    drawn = [area.encode(x=x, x2=alt.X2("end:Q"), y=y, y2=alt.Y2("top:Q"))]
    width, levels = room.plot(_WIDTH), roofs_of(profile)
    for position, roof in enumerate(levels):
        start = max(low, bottom / roof.bytes_per_s)
        ridge = min(peak / roof.bytes_per_s, high)
        places = [
            {"roof": roof.name, "flop_per_byte": at, "flop_per_s": at * roof.bytes_per_s} for at in (start, ridge)
        ]
        line = drawing.of(places).mark_line(
            color=drawing.INK if position == 0 else drawing.FAINT,
            strokeWidth=1.8 if position == 0 else 1.1,
            strokeDash=[1, 0] if position == 0 else [6, 3] if roof.name == "L2" else [2, 3],
        )
        drawn.append(line.encode(x=x, y=y))
        drawn.append(
            _slope_name(roof, ends, start ** (1 - _ALONG[roof.name]) * ridge ** _ALONG[roof.name], width, x, y)
        )
    for name, rate in peaks.items():
        begin = rate / levels[0].bytes_per_s
        places = [{"roof": f"{name} peak", "flop_per_byte": at, "flop_per_s": rate} for at in (begin, high)]
        drawn.append(drawing.of(places).mark_line(color=drawing.INK, strokeWidth=1.8).encode(x=x, y=y))
        said = [{"flop_per_byte": high, "flop_per_s": rate, "text": f"{name} peak {units.rate(rate, 'FLOP/s')}"}]
        text = drawing.of(said).mark_text(align="right", baseline="bottom", dy=-4, fontSize=11, color=drawing.INK)
        drawn.append(text.encode(x=x, y=y, text=alt.Text("text:N")))
    return drawn


def _slope_name(roof: Roof, ends: Ends, at: float, width: float, x: Any, y: Any) -> Any:
    """The name of a level along its slope."""
    (low, high), (bottom, top) = ends.x, ends.y
    rise = _HEIGHT / log(top / bottom)
    run = width / log(high / low)
    said = f"{roof.name} {units.rate(roof.bytes_per_s, 'B/s')}"
    text = drawing.of([{"flop_per_byte": at, "flop_per_s": at * roof.bytes_per_s, "text": said}]).mark_text(
        angle=-degrees(atan2(rise, run)) % 360, baseline="bottom", dy=-4, fontSize=11, color=drawing.INK
    )
    return text.encode(x=x, y=y, text=alt.Text("text:N"))
