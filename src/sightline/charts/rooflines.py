"""Where operators stand on the roofline, and where its axes end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import atan2, degrees, log
from typing import Any, NamedTuple

import altair as alt

from sightline.answers import labels, summary, units
from sightline.answers.analyses import ridges
from sightline.charts import drawing
from sightline.charts.axes import decade_ticks
from sightline.charts.drawing import SCREEN, Room
from sightline.explanation.limits import peaks_of
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.profile import IDLE_PHASES, Profile, Row
from sightline.program.formats import HALF_SUMS

_LEFT, _RIGHT = 0.5, 3.0
"""Factors by which the axis goes on beyond the operators."""
_MOST_MODULES = 7
REST = "other modules"
_OF_MEMORY, _OF_NETWORK = 1.35, 1.9
"""Where, over the lower end of the axis, operators without FLOPs stand in the left edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where the axes end."""

    x: tuple[float, float]
    y: tuple[float, float]


def placed(profile: Profile, rows: Sequence[Row], peaks: Mapping[str, float]) -> tuple[list[dict[str, Any]], Ends]:
    """Return the points of operators, and the ends of the axes around them."""
    total_s = sum(float(row.exposed_s) for row in rows) or 1.0
    merged = list(_merged(rows))
    inner = [one for one in merged if one["flops"] > 0 and one["bytes"] > 0]
    intensities = [one["flops"] / one["bytes"] for one in inner]
    device = profile.scenario.cluster.device
    ridge = max(peaks.values()) / float(device.memory_bandwidth)
    low = min([*intensities, ridge / 30]) * _LEFT / 4
    high = max([*intensities, ridge]) * _RIGHT
    shown = _shown_modules(merged)
    points = []
    for one in merged:
        point = _point(one, low, shown, total_s)
        if point is not None:
            points.append(point)
    rates = [point["flop_per_s"] for point in points]
    top = max(peaks.values()) * 1.9
    return points, Ends(x=(low, high), y=(min([*rates, top / 1e3]) / 1.6, top))


def _merged(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Operators of one name in all kinds of layers, the longest first."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        at = found.setdefault((row.phase, row.module, row.operator), dict.fromkeys(_SUMS, 0.0))
        for key in _SUMS:
            at[key] += float(getattr(row, key))
        at["bound"] = row.bound_level or row.bound
    for (phase, module, operator), sums in sorted(found.items(), key=lambda pair: -pair[1]["time_s"]):
        yield {"phase": phase, "module": module, "operator": operator, **sums}


_SUMS = ("flops", "bytes", "network_bytes", "time_s", "exposed_s")


def _shown_modules(merged: Sequence[Mapping[str, Any]]) -> list[str]:
    """The modules that take longest, which have a shape of their own."""
    seconds: dict[str, float] = {}
    for one in merged:
        seconds[one["module"]] = seconds.get(one["module"], 0.0) + one["time_s"]
    return sorted(seconds, key=lambda module: -seconds[module])[:_MOST_MODULES]


def _point(one: Mapping[str, Any], low: float, shown: Sequence[str], total_s: float) -> dict[str, Any] | None:
    """An operator's place: at its intensity, or at the left edge by its bytes per second."""
    seconds = one["time_s"]
    if one["flops"] > 0 and one["bytes"] > 0:
        intensity, rate = one["flops"] / one["bytes"], one["flops"] / seconds
    elif one["bytes"] > 0:
        intensity, rate = low * _OF_MEMORY, low * _OF_MEMORY * one["bytes"] / seconds
    elif one["network_bytes"] > 0:
        intensity, rate = low * _OF_NETWORK, low * _OF_NETWORK * one["network_bytes"] / seconds
    else:
        return None
    phase = one["phase"]
    return {
        "operator": one["operator"],
        "module": one["module"] if one["module"] in shown else REST,
        "phase": summary.LABELS.get(phase, phase),
        "flop_per_byte": drawing.rounded(intensity),
        "flop_per_s": drawing.rounded(rate),
        "time_s": drawing.rounded(seconds),
        "share": drawing.rounded(one["exposed_s"] / total_s),
        "bound": one["bound"],
    }


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


_MATMUL_WIDTH, _MATMUL_HEIGHT, _COLUMNS, _MOST = 340, 270, 2, 12
_MATMUL_SHAPES = (
    "circle",
    "triangle-up",
    "triangle-down",
    "square",
    "diamond",
    "cross",
    "triangle-right",
    "triangle-left",
)
_PHASES = ("prefill", "decode")


def roofline_chart(named: Sequence[tuple[str, RooflineTable]], room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification: a log-log panel per table with its scenario's label, all on the same axes."""
    shown = named[:_MOST]
    several = len({label for label, _ in named}) > 1
    title = "Matmuls of a layer on the roofline" if several else named[0][0]
    names = list(dict.fromkeys(row.matmul for _, table in shown for row in table.rows))
    rows = [row for _, table in shown for row in table.rows]
    intensities = _ends([row.intensity for row in rows] + [row.ridge for row in rows])
    rates = _ends([_reached(row) for row in rows] + [row.peak_flops for row in rows])
    x, y = (
        side(f"{name}:Q", title=title, scale=drawing.logarithmic(*ends), axis=_axis(ends))
        for side, name, title, ends in (
            (alt.X, "flop_per_byte", "intensity (FLOP/byte)", intensities),
            (alt.Y, "flop_per_s", "achieved (FLOP/s)", rates),
        )
    )
    drawn = [_panel(label * several, table, names, x, y, intensities, room) for label, table in shown]
    lines = [
        "The line is the datasheet limit, the points are predictions. Left of the ridge, memory is the bound.",
        "Attention is split into scores and context, as in arXiv 2407.14645.",
    ]
    if len(named) > _MOST:
        lines.append(f"Showing the first {_MOST} of {len(named):,}.")
    columns = _COLUMNS if room.side_by_side else 1
    return drawing.configure(alt.concat(*drawn, columns=columns, spacing=30), title, lines, room)


def _axis(ends: tuple[float, float]) -> Any:
    return alt.Axis(values=decade_ticks(*ends), format="~s", grid=False, labelOverlap="greedy")


def _reached(row: RooflineRow) -> float:
    return row.flops / row.predicted_s


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / 1.6, max(values) * 2.2


def _panel(
    label: str,
    table: RooflineTable,
    names: list[str],
    x: Any,
    y: Any,
    intensities: tuple[float, float],
    room: Room,
) -> Any:
    color = drawing.palette({phase: drawing.PHASE_COLORS[phase] for phase in _PHASES})
    shapes = alt.Scale(domain=names, range=[_MATMUL_SHAPES[i % len(_MATMUL_SHAPES)] for i in range(len(names))])
    columns = 4 if room.side_by_side else 2
    legend = alt.Legend(title=None, orient="bottom", columns=columns, symbolType="square")
    points = drawing.of([_matmul_point(row) for row in table.rows]).mark_point(size=70, filled=True, opacity=0.85)
    drawn = points.encode(
        x=x,
        y=y,
        color=alt.Color("phase:N", scale=color, legend=legend),
        shape=alt.Shape("matmul:N", scale=shapes, legend=alt.Legend(title=None, orient="bottom", columns=columns)),
        tooltip=[
            alt.Tooltip("phase:N"),
            alt.Tooltip("layer:N"),
            alt.Tooltip("matmul:N"),
            alt.Tooltip("flop_per_byte:Q"),
            alt.Tooltip("flop_per_s:Q"),
            alt.Tooltip("bound:N"),
        ],
    )
    name = ", ".join(filter(None, (label, table.scenario.cluster.device.name)))
    heading = drawing.heading(name, f"ridge {ridges(table)} FLOP/byte")
    layers = alt.layer(*_matmul_roofs(table, intensities, x, y), drawn)
    return layers.properties(width=room.plot(_MATMUL_WIDTH), height=_MATMUL_HEIGHT, title=heading)


def _matmul_roofs(table: RooflineTable, intensities: tuple[float, float], x: Any, y: Any) -> list[Any]:
    """The memory's slope and each type's peak, with a dashed line down from the ridge."""
    low, high = intensities
    drawn = []
    for ridge, peak in sorted({(row.ridge, row.peak_flops) for row in table.rows}):
        places = ((low, peak * low / ridge), (ridge, peak), (high, peak))
        ends = [{"roof": f"ridge {ridge:.4g}", "flop_per_byte": at, "flop_per_s": rate} for at, rate in places]
        roof = drawing.of(ends).mark_line(color=drawing.INK, strokeWidth=1.5, clip=True)
        mark = drawing.of([{"flop_per_byte": ridge}]).mark_rule(strokeDash=[4, 4], color=drawing.FAINT)
        drawn += [roof.encode(x=x, y=y), mark.encode(x=alt.X("flop_per_byte:Q"))]
    return drawn


def _matmul_point(row: RooflineRow) -> dict[str, Any]:
    said = {name: getattr(row, name) for name in ("phase", "layer", "matmul", "bound")}
    return {**said, "flop_per_byte": row.intensity, "flop_per_s": _reached(row)}
