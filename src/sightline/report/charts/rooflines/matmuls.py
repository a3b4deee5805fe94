"""The roofline of a device with a layer's matmuls on it, prefill and decode in two colors."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sightline.answers.analyses import ridges
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.drawing import SCREEN, Room

_WIDTH, _HEIGHT, _COLUMNS, _MOST = 340, 270, 2, 12
_SHAPES = ("circle", "triangle-up", "triangle-down", "square", "diamond", "cross", "triangle-right", "triangle-left")
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
    shapes = alt.Scale(domain=names, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))])
    columns = 4 if room.side_by_side else 2
    legend = alt.Legend(title=None, orient="bottom", columns=columns, symbolType="square")
    points = drawing.of([_point(row) for row in table.rows]).mark_point(size=70, filled=True, opacity=0.85)
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
    layers = alt.layer(*_roofs(table, intensities, x, y), drawn)
    return layers.properties(width=room.plot(_WIDTH), height=_HEIGHT, title=heading)


def _roofs(table: RooflineTable, intensities: tuple[float, float], x: Any, y: Any) -> list[Any]:
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


def _point(row: RooflineRow) -> dict[str, Any]:
    said = {name: getattr(row, name) for name in ("phase", "layer", "matmul", "bound")}
    return {**said, "flop_per_byte": row.intensity, "flop_per_s": _reached(row)}
