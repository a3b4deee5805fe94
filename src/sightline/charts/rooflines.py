"""Rooflines: what memory, L2, links and network allow, and the operators of a profile or a layer's matmuls below them.

An operator stands at the FLOPs that it does for each byte of the memory, at the FLOP/s that it reaches. Those without
FLOPs of matrices have no place on a logarithmic axis, so they stand at the left edge: as far below the line of the
memory, or of the network, as their bytes per second are below its bandwidth.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log, pi
from typing import Any, NamedTuple

from sightline.answers import labels, summary, units
from sightline.answers.analyses import ridges
from sightline.charts import figure
from sightline.charts.drawing import FAINT, INK, LINE, PHASE_COLORS, REST, SCREEN, Room, basis, rounded
from sightline.charts.plan_chart import Box, overlap
from sightline.content import sums
from sightline.explanation.limits import peaks_of
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.profile import IDLE_PHASES, Profile, Row
from sightline.program.formats import HALF_SUMS

_LEFT, _RIGHT = 0.5, 3.0
"""Factors by which the axis goes on beyond the operators."""
_MOST_MODULES = 7
_REST = "other modules"
_OF_MEMORY, _OF_NETWORK = 1.35, 1.9
"""Where, over the lower end of the axis, operators without FLOPs stand in the left edge."""
_WIDTH, _HEIGHT = 620, 380
_ALONG = {"L2": 0.3, "DRAM": 0.66, "links": 0.5, "network": 0.5}
"""Where along its slope the name of a level stands."""
_EDGE = 2.5
"""Where, over the lower end of the axis, the left edge ends, in which operators without FLOPs stand."""
_MOST_TABLES = 12
_LEAST_NAMED, _MOST_NAMED = 0.02, 6
"""Share of the time from which an operator has its name, and how many have."""
_LETTER, _LINE = 6.0, 13
"""Pixels of a letter and of a line of a name."""
_PLACE = {"x": "flop_per_byte", "y": "flop_per_s"}
Ends = tuple[float, float]


class Roof(NamedTuple):
    """A line of the roofline."""

    name: str
    bytes_per_s: float


def _axes(x: Ends, y: Ends) -> tuple[figure.Axis, figure.Axis]:
    looks: dict[str, Any] = {"format": "~s", "grid": False, "labelOverlap": "greedy"}
    return figure.logarithmic("intensity (FLOP/byte)", *x, **looks), figure.logarithmic(
        "achieved (FLOP/s)", *y, **looks
    )


def operator_roofline(profile: Profile, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the Vega-Lite specification; None of a profile without operators, or of a device without datasheet."""
    rows = [row for row in profile.rows if row.phase not in IDLE_PHASES and float(row.time_s) > 0]
    device = profile.scenario.cluster.device
    if not any(float(row.flops) > 0 for row in rows) or not device.memory_bandwidth or not device.peak_flops:
        return None
    peaks = _peaks(profile, rows)
    points, x_ends, y_ends = _placed(profile, rows, peaks)
    if not points:
        return None
    x, y = _axes(x_ends, y_ends)
    roofs = [*_roofs(profile, peaks, x_ends, y_ends)]
    marks = [*roofs, _dots(points, room), *_named(points, roofs, x, y, room)]
    panel = figure.Panel(x=x, y=y, marks=marks, width=room.plot(_WIDTH), height=_HEIGHT)
    return figure.specification(panel, labels.title(profile.scenario), _lines(profile, room), room)


def _lines(profile: Profile, room: Room) -> list[str]:
    said = [
        "Each point is an operator; its area is its share of the time. Lines are datasheet rates.",
        "The grey strip holds operators without matrix FLOPs; they are as far from a line as from its bandwidth.",
    ]
    interval = profile.interval.get(profile.task.whole)
    whole = f"80 % interval of the total: {summary.spread(profile)}" if interval and interval[1] else ""
    first = labels.subtitle(profile.scenario)[:1] if room.side_by_side else ()
    return [*first, *said, *filter(None, (whole, basis(profile.evidence)))]


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


def _placed(
    profile: Profile, rows: Sequence[Row], peaks: Mapping[str, float]
) -> tuple[list[dict[str, Any]], Ends, Ends]:
    """The points of operators, and the ends of both axes around them."""
    total_s = sum(float(row.exposed_s) for row in rows) or 1.0
    merged = list(_merged(rows))
    intensities = [one["flops"] / one["bytes"] for one in merged if one["flops"] > 0 and one["bytes"] > 0]
    ridge = max(peaks.values()) / float(profile.scenario.cluster.device.memory_bandwidth)
    low = min([*intensities, ridge / 30]) * _LEFT / 4
    high = max([*intensities, ridge]) * _RIGHT
    shown = _shown_modules(merged)
    points = [point for one in merged if (point := _point(one, low, shown, total_s)) is not None]
    rates = [point["flop_per_s"] for point in points]
    top = max(peaks.values()) * 1.9
    return points, (low, high), (min([*rates, top / 1e3]) / 1.6, top)


def _merged(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Operators of one name in all kinds of layers, the longest first."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        at = found.setdefault((row.phase, row.module, row.operator), dict.fromkeys(_SUMS, 0.0))
        for key in _SUMS:
            at[key] += float(getattr(row, key))
        at["bound"] = row.bound_level or row.bound
    for (phase, module, operator), added in sorted(found.items(), key=lambda pair: -pair[1]["time_s"]):
        yield {"phase": phase, "module": module, "operator": operator, **added}


_SUMS = ("flops", "bytes", "network_bytes", "time_s", "exposed_s")


def _shown_modules(merged: Sequence[Mapping[str, Any]]) -> list[str]:
    """The modules that take longest, which have a shape of their own."""
    seconds = sums((one["module"], one["time_s"]) for one in merged)
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
        "key": one["module"],
        "operator": one["operator"],
        "module": one["module"] if one["module"] in shown else _REST,
        "phase": summary.LABELS.get(phase, phase),
        "flop_per_byte": rounded(intensity),
        "flop_per_s": rounded(rate),
        "time_s": rounded(seconds),
        "share": rounded(one["exposed_s"] / total_s),
        "bound": one["bound"],
    }


def _dots(points: Sequence[dict[str, Any]], room: Room) -> figure.Mark:
    """The operators: phases in colors, modules in shapes."""
    named = {summary.LABELS.get(key, key): color for key, color in PHASE_COLORS.items()}
    phases = list(dict.fromkeys(point["phase"] for point in points))
    modules = sorted(dict.fromkeys(point["module"] for point in points), key=_REST.__eq__)
    look: dict[str, Any] = {"columns": 5 if room.side_by_side else 2, "labelLimit": 150}
    grey = {"symbolFillColor": REST, "symbolStrokeColor": REST, "symbolOpacity": 1}
    phase_looks = {phase: named[phase] for phase in phases}
    scale = {"domain": [0, _most(points)], "range": _sizes(room)}
    return figure.mark(
        "point",
        points,
        **_PLACE,
        color=figure.Series(column="phase", looks=phase_looks, legend={"symbolType": "square", **look}),
        shape=figure.shaped("module", modules, {**grey, **look}),
        size={"field": "share", "type": "quantitative", "scale": scale, "legend": None},
        filled=True,
        opacity=0.8,
        stroke="white",
        strokeWidth=0.7,
        tooltip=[
            *("operator", "module", "phase"),
            ("flop_per_byte", ".3~g", "FLOP/byte"),
            ("flop_per_s", ".3~s", "FLOP/s"),
            ("time_s", ".3~g", "seconds"),
            ("share", ".1%", "share of the time"),
            "bound",
        ],
    )


def _most(points: Sequence[Mapping[str, Any]]) -> float:
    return max(point["share"] for point in points) or 1.0


def _sizes(room: Room) -> Ends:
    """The areas of points without a share of the time and with the largest."""
    return (28, 620) if room.side_by_side else (18, 320)


def _named(
    points: Sequence[dict[str, Any]], roofs: Sequence[figure.Mark], x: figure.Axis, y: figure.Axis, room: Room
) -> Iterator[figure.Mark]:
    """The names of the operators that take most of the time, where they overlap neither marks nor other texts."""
    (least, largest), most, width = _sizes(room), _most(points), room.plot(_WIDTH)

    def box(row: Mapping[str, Any], right: float, down: float, wide: float, high: float) -> Box:
        """A box of some size around what lies so far from a place."""
        left, top = x.place(row["flop_per_byte"]) * width + right, (1 - y.place(row["flop_per_s"])) * _HEIGHT + down
        return left - wide / 2, top - high / 2, left + wide / 2, top + high / 2

    across = {id(one): 2 * ((least + (largest - least) * one["share"] / most) / pi) ** 0.5 + 4 for one in points}
    taken = [box(one, 0, 0, across[id(one)], across[id(one)]) for one in points]
    texts = ((row, roof.style.get("align")) for roof in roofs if roof.kind == "text" for row in roof.rows)
    for row, align in texts:
        # Those of slopes are turned; that of a peak ends at the edge.
        wide = len(row["text"]) * _LETTER
        taken.append(box(row, -wide / 2, -9, wide, 18) if align else box(row, 0, 0, wide, wide / 2))
    for one in sorted(points, key=lambda one: -float(one["share"]))[:_MOST_NAMED]:
        text, far = f"{one['key']}: {one['operator']}", across[id(one)] / 2 + _LINE / 2
        wide = len(text) * _LETTER
        for down in (far, -far, 2 * far, 3 * far, 4 * far):
            place = box(one, 0, down, wide, _LINE)
            inside = place[0] >= 0 and place[2] <= width and place[3] <= _HEIGHT
            if one["share"] >= _LEAST_NAMED and inside and not any(overlap(place, other) for other in taken):
                taken.append(place)
                row = {key: one[key] for key in _PLACE.values()} | {"text": text}
                yield figure.words([row], **_PLACE, align=None, dx=0, dy=down, baseline="middle")
                break


def _roof(name: str, places: Sequence[tuple[float, float]], **looks: Any) -> figure.Mark:
    """The line of a roof through places: an intensity with the rate that it allows."""
    rows = [{"roof": name, "flop_per_byte": intensity, "flop_per_s": rate} for intensity, rate in places]
    return figure.mark("line", rows, **_PLACE, **{"color": INK, "strokeWidth": 1.8, **looks})


def _roofs(profile: Profile, peaks: Mapping[str, float], x: Ends, y: Ends) -> Iterator[figure.Mark]:
    """A slope for every level, a ceiling for every type, with their names."""
    (low, high), (bottom, top), peak = x, y, max(peaks.values())
    edge = {"flop_per_byte": low, "end": low * _EDGE, "flop_per_s": bottom, "top": top}
    yield figure.mark("rect", [edge], x2="end", y2="top", color=LINE, opacity=0.7, **_PLACE)
    # The slope follows the width, which a page may change.
    rise, run = _HEIGHT / log(top / bottom), log(high / low)
    angle = {"expr": f"360 - atan2({rise!r}, width / {run!r}) * 180 / PI"}
    above = {"baseline": "bottom", "dx": 0, "dy": -4}
    levels = roofs_of(profile)
    for position, (name, bandwidth) in enumerate(levels):
        start, ridge = max(low, bottom / bandwidth), min(peak / bandwidth, high)
        dashed = {"color": FAINT, "strokeWidth": 1.1, "strokeDash": [6, 3] if name == "L2" else [2, 3]}
        yield _roof(name, [(at, at * bandwidth) for at in (start, ridge)], **(dashed if position else {}))
        at = start ** (1 - _ALONG[name]) * ridge ** _ALONG[name]
        text = f"{name} {units.rate(bandwidth, 'B/s')}"
        row = {"flop_per_byte": at, "flop_per_s": at * bandwidth, "text": text}
        yield figure.words([row], **_PLACE, **above, align=None, angle=angle)
    for name, rate in peaks.items():
        yield _roof(f"{name} peak", [(rate / levels[0].bytes_per_s, rate), (high, rate)])
        text = f"{name} peak {units.rate(rate, 'FLOP/s')}"
        row = {"flop_per_byte": high, "flop_per_s": rate, "text": text}
        yield figure.words([row], **_PLACE, **{**above, "align": "right"})


def roofline_chart(named: Sequence[tuple[str, RooflineTable]], room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification: a log-log panel per table with its scenario's label, all on the same axes."""
    shown = named[:_MOST_TABLES]
    several = len({label for label, _ in named}) > 1
    rows = [row for _, table in shown for row in table.rows]
    x = _around([row.intensity for row in rows] + [row.ridge for row in rows])
    y = _around([row.flops / row.predicted_s for row in rows] + [row.peak_flops for row in rows])
    matmuls = list(dict.fromkeys(row.matmul for row in rows))
    panels = [_table(label * several, table, matmuls, x, y, room) for label, table in shown]
    lines = [
        "The line is the datasheet limit, the points are predictions. Left of the ridge, memory is the bound.",
        "Attention is split into scores and context, as in arXiv 2407.14645.",
        f"Showing the first {_MOST_TABLES} of {len(named):,}." if len(named) > _MOST_TABLES else "",
    ]
    title = "Matmuls of a layer on the roofline" if several else named[0][0]
    columns = min(2, len(panels)) if room.side_by_side else 1
    return figure.specification(figure.Group(parts=panels, columns=columns, spacing=30, apart=()), title, lines, room)


def _around(values: Sequence[float]) -> Ends:
    return min(values) / 1.6, max(values) * 2.2


def _table(label: str, table: RooflineTable, matmuls: Sequence[str], x: Ends, y: Ends, room: Room) -> figure.Panel:
    """The memory's slope and each type's peak, with a dashed line down from the ridge, and the matmuls below them."""
    columns = {"columns": 4 if room.side_by_side else 2}
    phases = {phase: PHASE_COLORS[phase] for phase in ("prefill", "decode")}
    roofs: list[figure.Mark] = []
    for ridge, peak in sorted({(row.ridge, row.peak_flops) for row in table.rows}):
        places = [(x[0], peak * x[0] / ridge), (ridge, peak), (x[1], peak)]
        roofs.append(_roof(f"ridge {ridge:.4g}", places, strokeWidth=1.5, clip=True))
        roofs.append(figure.mark("rule", [{"flop_per_byte": ridge}], x="flop_per_byte", strokeDash=[4, 4], color=FAINT))
    points = figure.mark(
        "point",
        [_matmul(row) for row in table.rows],
        **_PLACE,
        color=figure.Series(column="phase", looks=phases, legend={"symbolType": "square", **columns}),
        shape=figure.shaped("matmul", matmuls, columns),
        size=70,
        filled=True,
        opacity=0.85,
        tooltip=["phase", "layer", "matmul", ("flop_per_byte", ".4~g"), ("flop_per_s", ".4~s"), "bound"],
    )
    across, up = _axes(x, y)
    return figure.Panel(
        title=", ".join(filter(None, (label, table.scenario.cluster.device.name))),
        subtitle=f"ridge {ridges(table)} FLOP/byte",
        x=across,
        y=up,
        marks=[*roofs, points],
        width=room.plot(340),
        height=270,
    )


def _matmul(row: RooflineRow) -> dict[str, Any]:
    about = {name: getattr(row, name) for name in ("phase", "layer", "matmul", "bound")}
    return {**about, "flop_per_byte": row.intensity, "flop_per_s": row.flops / row.predicted_s}
