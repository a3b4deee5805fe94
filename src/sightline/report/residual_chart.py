"""The picture of a calibration: predicted over measured against the operator's size, a panel per kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import significant
from sightline.report import look

_WIDTH, _HEIGHT, _COLUMNS = 300, 150, 2
_BAND = 0.1
_LOW, _HIGH = 0.5, 2.0
_DOT = "#2b5d94"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """One kernel's measurements beside what its constants predict."""

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
    import altair as alt

    drawn = [_panel(panel, most_points) for panel in panels]
    lines = [
        "The band is 10 per cent either way; ratios beyond a factor of two stand at the edge.",
    ]
    return look.configure(alt.concat(*drawn, columns=_COLUMNS), title, lines)


def _panel(panel: Panel, most_points: int) -> Any:
    import altair as alt

    order = np.argsort(panel.size, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(most_points, len(order))).astype(int))]
    points = [
        {"x": significant(size), "y": significant(min(max(ratio, _LOW), _HIGH))}
        for size, ratio in zip(panel.size[chosen], panel.ratio[chosen], strict=True)
    ]
    ends = [float(panel.size.min()) / 1.2, float(panel.size.max()) * 1.2]
    x_scale = alt.Scale(type="log", domain=ends, nice=False)
    y_scale = alt.Scale(type="log", domain=[_LOW, _HIGH], nice=False)
    x_axis = alt.Axis(tickCount=5, format="~s", grid=False, labelFontSize=11)
    y_axis = alt.Axis(values=[0.5, 0.7, 1, 1.4, 2], format="~f", labelFontSize=11)
    band = alt.Chart(alt.InlineData(values=[{"x": x, "low": 1 - _BAND, "high": 1 + _BAND, "one": 1} for x in ends]))
    x = alt.X("x:Q", scale=x_scale, axis=x_axis, title=panel.unit)
    area = band.mark_area(color="#e8eef5", clip=True).encode(x=x, y=alt.Y("low:Q", scale=y_scale), y2="high:Q")
    line = band.mark_line(color=look.FAINT, strokeWidth=1).encode(x=x, y=alt.Y("one:Q", scale=y_scale))
    dots = (
        alt.Chart(alt.InlineData(values=points))
        .mark_circle(size=14, opacity=0.55, color=_DOT, aria=False)
        .encode(x=x, y=alt.Y("y:Q", scale=y_scale, axis=y_axis, title="predicted / measured"))
    )
    off = np.abs(panel.ratio - 1)
    said = f"{len(panel.ratio):,} rows, median {100 * np.median(off):.1f} %, 90th percentile {100 * np.quantile(off, 0.9):.1f} %"
    heading = alt.TitleParams(panel.title, subtitle=said, anchor="start", fontSize=13, subtitleFontSize=11)
    return alt.layer(area, line, dots).properties(width=_WIDTH, height=_HEIGHT, title=heading)
