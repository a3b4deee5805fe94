"""Pictures of predicted against measured: of validation suites, of a calibration's fit, of a study's table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from sightline.answers.validation import by_kind, case_label, quantity_name
from sightline.charts import drawing
from sightline.charts.axes import decade_ticks
from sightline.charts.drawing import SCREEN, Room
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.validation.cases import Result

_SIDE, _COLUMNS = 230, 3
_THOUSANDS = 1e4
"""Value from which an axis counts in thousands, millions and so on."""
_BANDS = (0.2, 0.1)
"""Errors that are shaded, either way."""
_BAND_COLOR = "#7d9cc0"
_UNITS = (
    ("tokens_per_s", "tokens/s"),
    ("requests_per_s", "requests/s"),
    ("flops_per_s", "FLOP/s"),
    ("bytes", "bytes"),
    ("mfu", "share"),
    ("hfu", "share"),
    ("_s", "seconds"),
)
"""Units by what the name of a quantity holds, or by its ending, the first that fits."""
_POINTS = 150
"""Cases of a part that are drawn; of more, evenly many."""
_SPLIT_COLORS = {"fit": "#8fa6bf", "test": "#c4281f"}
_KERNEL_WIDTH, _KERNEL_HEIGHT = 300, 150
_LOW_RATIO, _HIGH_RATIO = 0.5, 2.0
MEASURED, PREDICTED = "measured", "predicted"


def validation_chart(results: "Sequence[Result]", room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification: one log-log panel per suite, the panels of a kind under one heading."""
    answered = [result for result in results if any(answer.predicted for answer in result.answers)]
    groups = []
    for kind, suites in by_kind(answered).items():
        panels = [_panel(name, parts[0].quantity, parts, room) for name, parts in suites.items()]
        groups.append(
            alt.concat(*panels, columns=_COLUMNS if room.side_by_side else 1).properties(
                title=drawing.heading(kind, fontSize=16)
            )
        )
    if not groups:
        groups = [drawing.of([{"text": "no case was answered"}]).mark_text().encode(text=alt.Text("text:N"))]
    lines = [
        "Points on the diagonal are predicted exactly; the bands are ±10 % and ±20 %.",
        "Thin lines are the 80 % intervals of the predictions. Test cases are never used for fitting. SI units.",
    ]
    if any(_every(result) > 1 for result in answered):
        lines.append(f"Parts with more than {_POINTS} cases are sampled evenly; errors cover all cases.")
    return drawing.configure(alt.vconcat(*groups), "Predicted / measured", lines, room)


def _every(part: "Result") -> int:
    """Of how many cases of a part one is drawn."""
    return -(-len(part.answers) // _POINTS)


def _panel(suite: str, quantity: str, parts: "Sequence[Result]", room: Room) -> Any:
    points: list[dict[str, Any]] = [
        {
            "suite": suite,
            "quantity": quantity,
            "case": case_label(a),
            "measured": drawing.rounded(a.case.measured),
            "predicted": drawing.rounded(a.predicted),
            "part": part.split,
            **dict(zip(("low", "high"), map(drawing.rounded, a.interval or ()), strict=False)),
        }
        for part in parts
        for a in part.answers[:: _every(part)]
        if a.predicted is not None
    ]
    values = [p[key] for p in points for key in ("measured", "predicted")]
    low, high = min(values) / 1.3, max(values) * 1.3
    scale, shapes = drawing.logarithmic(low, high), alt.Scale(domain=list(_SPLIT_COLORS), range=["circle", "diamond"])
    axis = alt.Axis(
        values=decade_ticks(low, high),
        format="~s" if high >= _THOUSANDS else "~g",
        labelFontSize=11,
        labelOverlap="greedy",
        labelSeparation=5,
        grid=False,
    )
    aligned = axis.copy()
    aligned.minExtent = aligned.maxExtent = 40
    band = _band([(low, low), (high, high)], alt.X("x:Q", scale=scale), scale)
    ends = {"low": ("predicted.low", 1.0), "high": ("predicted.high", 1.0)}
    spans = drawing.of([point for point in points if "high" in point], ends).mark_rule(
        strokeWidth=1, opacity=0.5, clip=True
    )
    legend = alt.Legend(
        title=None, orient="bottom", symbolOpacity=1, values=list(dict.fromkeys(p["part"] for p in points))
    )
    color = alt.Color("part:N", scale=drawing.palette(_SPLIT_COLORS), legend=legend)
    shape = alt.Shape("part:N", scale=shapes, legend=legend)
    x, unit = alt.X("measured:Q", scale=scale, axis=axis), _unit(quantity)
    dots = drawing.of(points, ends).mark_point(filled=True, size=34, opacity=0.8, aria=False)
    drawn = dots.encode(
        x=x.title(f"measured ({unit})"),
        y=alt.Y("predicted:Q", scale=scale, title=f"predicted ({unit})", axis=aligned),
        color=color,
        shape=shape,
        tooltip=[alt.Tooltip("case:N"), alt.Tooltip("measured:Q"), alt.Tooltip("predicted:Q"), alt.Tooltip("part:N")],
    )
    heading = drawing.heading(suite, _errors(quantity, parts))
    interval = spans.encode(x=x, y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q"), color=color)
    side = _SIDE if room.side_by_side else room.plot(_SIDE + 40)
    return alt.layer(*band, interval, drawn).properties(width=side, height=side, title=heading)


def _band(ends: Sequence[tuple[float, float]], x: Any, scale: Any) -> list[Any]:
    """The line on which predicted equals measured, between two points, and the bands around it, the wider one below."""
    drawn = []
    for band in _BANDS:
        area = drawing.of([{"x": x, "low": y * (1 - band), "high": y * (1 + band)} for x, y in ends])
        mark = area.mark_area(color=_BAND_COLOR, opacity=0.16, clip=True)
        drawn.append(mark.encode(x=x, y=alt.Y("low:Q", scale=scale), y2=alt.Y2("high:Q")))
    middle = drawing.of([{"x": x, "y": y} for x, y in ends]).mark_line(color=drawing.FAINT, strokeWidth=1, clip=True)
    return [*drawn, middle.encode(x=x, y=alt.Y("y:Q", scale=scale))]


def _unit(quantity: str) -> str:
    """The unit of a quantity, as an axis says it."""
    whole = quantity.partition(".")[0]
    return next((unit for key, unit in _UNITS if whole.endswith(key) or (len(key) > 2 and key in whole)), "SI")


def _errors(quantity: str, parts: "Sequence[Result]") -> str:
    said = [f"{part.split} {percent(part.mape, 1)}" for part in parts if part.mape is not None]
    return f"{quantity_name(quantity)}: mean error {', '.join(said)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """One kernel's measurements and what its constants predict."""

    title: str
    size: NDArray[np.float64]
    unit: str
    ratio: NDArray[np.float64]
    """Predicted over measured time."""

    @classmethod
    def joined(cls, panels: "Sequence[Panel]") -> "Panel":
        """One panel with the points of several of the same title."""
        first = panels[0]
        size, ratio = (np.concatenate([getattr(p, name) for p in panels]) for name in ("size", "ratio"))
        return cls(title=first.title, size=size, unit=first.unit, ratio=ratio)


def residual_chart(title: str, panels: Sequence[Panel], *, most_points: int = 400) -> dict[str, Any]:
    """Return the Vega-Lite specification; of many points an even selection along the size is drawn."""
    drawn = [_kernel_panel(panel, most_points) for panel in panels]
    line = "The bands are ±10 % and ±20 %; ratios beyond a factor of two are drawn at the edge."
    return drawing.configure(alt.concat(*drawn, columns=2), title, [line])


def _kernel_panel(panel: Panel, most_points: int) -> Any:
    order = np.argsort(panel.size, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(most_points, len(order))).astype(int))]
    points = [
        {
            "kernel": panel.title,
            "x": drawing.rounded(size),
            "y": drawing.rounded(min(max(ratio, _LOW_RATIO), _HIGH_RATIO)),
        }
        for size, ratio in zip(panel.size[chosen], panel.ratio[chosen], strict=True)
    ]
    low, high = float(panel.size.min()) / 1.2, float(panel.size.max()) * 1.2
    y_scale = drawing.logarithmic(_LOW_RATIO, _HIGH_RATIO)
    x_axis = alt.Axis(tickCount=5, format="~s", grid=False, labelFontSize=11)
    y_axis = alt.Axis(values=[0.5, 0.7, 1, 1.4, 2], format="~f", labelFontSize=11)
    x = alt.X("x:Q", scale=drawing.logarithmic(low, high), axis=x_axis, title=panel.unit)
    y = alt.Y("y:Q", scale=y_scale, axis=y_axis, title="predicted / measured")
    dots = drawing.of(points, {"x": ("size", 1.0), "y": ("ratio", 1.0)}).mark_circle(
        size=14, opacity=0.55, color=drawing.PAIR[0], aria=False
    )
    off = np.abs(panel.ratio - 1)
    median, p90 = 100 * np.median(off), 100 * np.quantile(off, 0.9)
    said = f"{len(panel.ratio):,} rows, median {median:.1f} %, 90th percentile {p90:.1f} %"
    drawn = alt.layer(*_band([(low, 1.0), (high, 1.0)], x, y_scale), dots.encode(x=x, y=y))
    return drawn.properties(width=_KERNEL_WIDTH, height=_KERNEL_HEIGHT, title=drawing.heading(panel.title, said))


def cells_chart(
    cells: Sequence[tuple[str, str, float | None, float | None]], _: Room = SCREEN
) -> dict[str, Any] | None:
    """Return the dots of a table's first quantity; None where nothing was measured.

    Args:
        cells: Row, column, measured and predicted value of each cell.
    """
    dots = [
        {"row": row, "column": column, "source": source, "value": value}
        for row, column, measured, predicted in cells
        if measured is not None
        for source, value in ((MEASURED, measured), (PREDICTED, predicted))
        if value is not None
    ]
    if not dots:
        return None
    order = list(dict.fromkeys(row for row, *_ in cells))
    base = drawing.of(dots).encode(y=alt.Y("row:N", sort=order, title=None))
    colors = drawing.palette(dict(zip((MEASURED, PREDICTED), drawing.PAIR, strict=True)))
    color = alt.Color("source:N", title=None, scale=colors, legend=alt.Legend(orient="top"))
    line = base.mark_rule(color=drawing.FAINT, opacity=0.4).encode(x=alt.X("min(value):Q"), x2=alt.X2("max(value):Q"))
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5, format="~s")),
        color=color,
        tooltip=[
            alt.Tooltip("row:N"),
            alt.Tooltip("column:N"),
            alt.Tooltip("source:N"),
            alt.Tooltip("value:Q", format=",.4~s"),
        ],
    )
    columns = list(dict.fromkeys(column for _, column, *_ in cells))
    width = max(160, 560 // min(len(columns), 3))
    layered = (line + marks).properties(width=width, height=alt.Step(drawing.ROW_HEIGHT))
    if len(columns) > 1:
        facet = alt.Facet("column:N", sort=columns, title=None, header=alt.Header(labelFontSize=12))
        return drawing.configure(layered.facet(facet=facet, columns=3).resolve_scale(x="independent"))
    return drawing.configure(layered)
