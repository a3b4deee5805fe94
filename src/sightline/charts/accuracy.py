"""Pictures of predicted against measured: of validation suites, of a calibration's fit, of a study's table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.answers.validation import by_kind, case_label, quantity_name
from sightline.charts import figure
from sightline.charts.drawing import FAINT, HOST, PAIR, ROW_HEIGHT, SCREEN, Room, rounded
from sightline.charts.figure import quantity as quantity_of
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.validation.cases import Result

_THOUSANDS = 1e4
"""Value from which an axis counts in thousands, millions and so on."""
_BANDS = (0.2, 0.1)
"""Errors that are shaded, either way."""
_UNITS = {"s": "seconds", "B": "bytes", "": "SI"}
"""What units of metrics are called on an axis, where it is not their own name."""
_POINTS = 150
"""Cases of a part that are drawn; of more, evenly many."""
_SPLIT_COLORS = {"fit": HOST, "test": PAIR[1], "own": PAIR[0]}
_SPLIT_SHAPES = {"fit": "circle", "test": "diamond", "own": "diamond"}
_LOW_RATIO, _HIGH_RATIO = 0.5, 2.0
MEASURED, PREDICTED = "measured", "predicted"


def validation_chart(results: "Sequence[Result]", room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification: one log-log panel per suite, the panels of a kind under one heading."""
    answered = [result for result in results if any(answer.predicted for answer in result.answers)]
    groups: list[figure.Panel | figure.Group] = []
    for kind, suites in by_kind(answered).items():
        panels = [_suite(name, parts, room) for name, parts in suites.items()]
        columns = min(3, len(panels)) if room.side_by_side else 1
        groups.append(figure.Group(parts=panels, columns=columns, title=kind, heading={"fontSize": 16}, apart=()))
    lines = [
        "Points on the diagonal are predicted exactly; the bands are ±10 % and ±20 %.",
        "Thin lines are the 80 % intervals of the predictions. Test cases are never used for fitting. SI units.",
    ]
    if any(_every(result) > 1 for result in answered):
        lines.append(f"Parts with more than {_POINTS} cases are sampled evenly; errors cover all cases.")
    parts = groups or [figure.message("no case was answered")]
    return figure.specification(figure.Group(parts=parts, apart=()), "Predicted / measured", lines, room)


def _every(part: "Result") -> int:
    """Of how many cases of a part one is drawn."""
    return -(-len(part.answers) // _POINTS)


def _suite(suite: str, parts: "Sequence[Result]", room: Room) -> figure.Panel:
    """The cases of a suite on the diagonal."""
    quantity = parts[0].quantity
    points: list[dict[str, Any]] = [
        {
            "suite": suite,
            "quantity": quantity,
            "case": case_label(answer),
            MEASURED: rounded(answer.case.measured),
            PREDICTED: rounded(answer.predicted),
            "part": part.split,
            **dict(zip(("predicted.low", "predicted.high"), map(rounded, answer.interval or ()), strict=False)),
        }
        for part in parts
        for answer in part.answers[:: _every(part)]
        if answer.predicted is not None
    ]
    values = [point[key] for point in points for key in (MEASURED, PREDICTED)]
    low, high = min(values) / 1.3, max(values) * 1.3
    form = "~s" if high >= _THOUSANDS else "~g"
    looks: dict[str, Any] = {
        "format": form,
        "labelFontSize": 11,
        "labelOverlap": "greedy",
        "labelSeparation": 5,
        "grid": False,
    }
    unit = quantity_of(quantity).unit
    unit = _UNITS.get(unit, unit)
    x, y = (
        figure.logarithmic(f"{side} ({unit})", low, high, **looks, **extent)
        for side, extent in ((MEASURED, {}), (PREDICTED, {"minExtent": 40, "maxExtent": 40}))
    )
    legend = {"symbolOpacity": 1, "values": list(dict.fromkeys(point["part"] for point in points))}
    color, shape = (
        figure.Series(column="part", looks=looks, legend=legend) for looks in (_SPLIT_COLORS, _SPLIT_SHAPES)
    )
    known = [point for point in points if "predicted.high" in point]
    ends = {"x": MEASURED, "y": "predicted.low", "y2": "predicted.high"}
    dots = {"filled": True, "size": 34, "opacity": 0.8, "aria": False, "color": color, "shape": shape}
    tooltip = ["case", (MEASURED, ",.4~g"), (PREDICTED, ",.4~g"), "part"]
    errors = ", ".join(f"{part.split} {percent(part.mape, 1)}" for part in parts if part.mape is not None)
    side = 230 if room.side_by_side else room.plot(270)
    return figure.Panel(
        title=suite,
        subtitle=f"{quantity_name(quantity)}: mean error {errors}",
        x=x,
        y=y,
        marks=[
            *_bands([(low, low), (high, high)]),
            figure.interval(known, strokeWidth=1, opacity=0.5, clip=True, color=color, **ends),
            figure.mark("point", points, x=MEASURED, y=PREDICTED, tooltip=tooltip, **dots),
        ],
        width=side,
        height=side,
    )


def _bands(ends: Sequence[tuple[float, float]]) -> list[figure.Mark]:
    """The line on which predicted equals measured, between two points, and the bands around it, the wider one below."""
    band_looks = {"color": FAINT, "opacity": 0.16, "clip": True}
    rows = {band: [{"x": x, "low": y * (1 - band), "high": y * (1 + band)} for x, y in ends] for band in (*_BANDS, 0.0)}
    areas = [figure.mark("area", rows[band], x="x", y="low", y2="high", **band_looks) for band in _BANDS]
    return [*areas, figure.mark("line", rows[0.0], x="x", y="low", color=FAINT, strokeWidth=1, clip=True)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelFit:
    """One kernel's measurements and what its constants predict."""

    title: str
    size: NDArray[np.float64]
    unit: str
    ratio: NDArray[np.float64]
    """Predicted over measured time."""

    @classmethod
    def joined(cls, fits: "Sequence[KernelFit]") -> "KernelFit":
        """One fit with the points of several of the same title."""
        size, ratio = (np.concatenate([getattr(fit, name) for fit in fits]) for name in ("size", "ratio"))
        return cls(title=fits[0].title, size=size, unit=fits[0].unit, ratio=ratio)


def residual_chart(title: str, fits: Sequence[KernelFit], *, most_points: int = 400) -> dict[str, Any]:
    """Return the Vega-Lite specification; of many points an even selection along the size is drawn."""
    line = "The bands are ±10 % and ±20 %; ratios beyond a factor of two are drawn at the edge."
    return figure.specification(
        figure.Group(parts=[_kernel(fit, most_points) for fit in fits], columns=2, apart=()), title, [line]
    )


def _kernel(fit: KernelFit, most_points: int) -> figure.Panel:
    order = np.argsort(fit.size, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(most_points, len(order))).astype(int))]
    points = [
        {"kernel": fit.title, "size": rounded(size), "ratio": rounded(min(max(ratio, _LOW_RATIO), _HIGH_RATIO))}
        for size, ratio in zip(fit.size[chosen], fit.ratio[chosen], strict=True)
    ]
    low, high = float(fit.size.min()) / 1.2, float(fit.size.max()) * 1.2
    scale = {"type": "log", "domain": [low, high], "nice": False}
    marks = [0.5, 0.7, 1, 1.4, 2]
    off = 100 * np.abs(fit.ratio - 1)
    dots = {"size": 14, "opacity": 0.55, "color": PAIR[0], "aria": False}
    return figure.Panel(
        title=fit.title,
        subtitle=(
            f"{len(fit.ratio):,} rows, median {np.median(off):.1f} %, 90th percentile {np.quantile(off, 0.9):.1f} %"
        ),
        x=figure.Axis(
            title=fit.unit, scale=scale, ticks={"tickCount": 5, "format": "~s", "grid": False, "labelFontSize": 11}
        ),
        y=figure.logarithmic(
            "predicted / measured", _LOW_RATIO, _HIGH_RATIO, values=marks, format="~f", labelFontSize=11
        ),
        marks=[*_bands([(low, 1.0), (high, 1.0)]), figure.mark("circle", points, x="size", y="ratio", **dots)],
        width=300,
        height=150,
    )


def cells_chart(
    cells: Sequence[tuple[str, str, float | None, float | None]], room: Room = SCREEN
) -> dict[str, Any] | None:
    """Return the dots of a table's first quantity; None where nothing was measured.

    Args:
        cells: Row, column, measured and predicted value of each cell.
        room: How large it may be.
    """
    columns = list(dict.fromkeys(column for _, column, *_ in cells))
    order = list(dict.fromkeys(row for row, *_ in cells))
    width = max(160, 560 // min(len(columns), 3))
    panels = [_column(column, [cell for cell in cells if cell[1] == column], order, width) for column in columns]
    if not any(panel.marks[1].rows for panel in panels):
        return None
    return figure.specification(figure.Group(parts=panels, columns=3 if room.side_by_side else 1))


def _column(
    column: str, cells: Sequence[tuple[str, str, float | None, float | None]], order: Sequence[str], width: float
) -> figure.Panel:
    """The cells of one column, measured and predicted, joined by a line."""
    dots = [
        {"row": row, "column": column, "source": source, "value": value}
        for row, _, measured, predicted in cells
        if measured is not None
        for source, value in ((MEASURED, measured), (PREDICTED, predicted))
        if value is not None
    ]
    color = figure.Series(
        column="source", looks=dict(zip((MEASURED, PREDICTED), PAIR, strict=True)), legend={"orient": "top"}
    )
    ends = {
        f"{end}": {"aggregate": how, "field": "value", "type": "quantitative"}
        for end, how in (("x", "min"), ("x2", "max"))
    }
    tooltip = ["row", "column", "source", ("value", ",.4~s")]
    return figure.Panel(
        title=column,
        x=figure.Axis(scale={"zero": True}, ticks={"tickCount": 5, "format": "~s"}),
        y=figure.names(order),
        marks=[
            figure.mark("rule", dots, y="row", color=FAINT, opacity=0.4, **ends),
            figure.mark(
                "point", dots, x="value", y="row", color=color, filled=True, size=60, opacity=1, tooltip=tooltip
            ),
        ],
        width=width,
        height=ROW_HEIGHT * len(order),
    )
