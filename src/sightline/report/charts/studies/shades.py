"""How cells of a map are painted: levels in their colors, figures in shades of their size."""

from math import e, log
from typing import Any, Literal

import altair as alt

from sightline.answers import units
from sightline.answers.study import Quantity
from sightline.report.charts import drawing
from sightline.report.charts.axes import decade_ticks
from sightline.report.charts.studies.colors import DARK_TEXT, LIGHT_TEXT, colors_of, in_order, text_on
from sightline.report.charts.studies.data import Picture, number
from sightline.report.charts.studies.lines import crossed

_SPREAD = 12.0
"""Largest over smallest value from which colors are logarithmic."""


class LevelShades:
    """Cells in the colors of levels or other words."""

    def __init__(self, picture: Picture, value: str) -> None:
        self.quantity: Quantity = picture.quantity(value)
        keys = in_order([str(one) for one in picture.distinct(value)])
        self.colors = dict(zip(keys, colors_of(keys), strict=True))
        labels = [self.quantity.text(key) for key in keys]
        scale = drawing.palette(dict(zip(labels, self.colors.values(), strict=True)))
        legend = picture.legend([*labels, ""][: max(len(labels), 2)], symbolType="square")
        self.color = alt.Color("shade:N", scale=scale, legend=legend)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        label = self.quantity.text(value)
        return {"shade": label, "text": label, "short": label, "ink": text_on(self.colors[str(value)])}


class FigureShades:
    """Cells in shades: more is darker, or the ratios on both sides of break-even in a color of their own."""

    def __init__(self, picture: Picture, value: str) -> None:
        quantity: Quantity = picture.quantity(value)
        values = picture.values(value) or [0.0, 1.0]
        self.divisor, unit = quantity.scaled(max(map(abs, values)))
        self.low, self.high = min(values) / self.divisor, max(values) / self.divisor
        self.counts = all((value / self.divisor).is_integer() for value in values)
        self.is_log = self.low > 0 and self.high / self.low > _SPREAD
        self.middle = crossed(picture, [value])
        if self.middle is not None:
            reach = max(self._from_middle(self.low), self._from_middle(self.high))
            self.low, self.high = self.middle / e**reach, self.middle * e**reach
        self.color = alt.Color(
            "shade:Q",
            scale=self._scale(),
            legend=alt.Legend(
                title=quantity.titled(unit),
                orient="bottom",
                gradientLength=min(picture.whole * 0.5, 260),
                gradientThickness=10,
                titleFontWeight="normal",
                format="~s" if self.high >= 1e4 else ",~f" if self._is_linear else "~g",
                labelOverlap="greedy",
                **({"tickCount": 4} if self._is_linear else {"values": decade_ticks(self.low, self.high)}),
            ),
        )

    @property
    def _is_linear(self) -> bool:
        return self.middle is None and not self.is_log

    def _scale(self) -> Any:
        kind: dict[str, Any] = {} if self._is_linear else {"type": "log"}
        scheme: Literal["blues", "redblue"] = "blues" if self.middle is None else "redblue"
        return alt.Scale(scheme=scheme, domain=[self.low, self.high], nice=False, **kind)

    def _from_middle(self, value: float) -> float:
        """How far a value is from break-even, as colors see it."""
        return abs(log(value / (self.middle or 1.0)))

    def _place(self, value: float) -> float:
        """How dark a value is, from 0 to 1."""
        if self.high <= self.low:
            return 1.0
        if self.middle is not None:
            return self._from_middle(value) / self._from_middle(self.high)
        if self.is_log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def of(self, value: Any) -> dict[str, Any] | None:
        """Return the value of a cell, its text and the color of that."""
        figure = number(value)
        if figure is None:
            return None
        shown = figure / self.divisor
        text = (
            f"{shown:,.0f}"
            if self.counts or abs(shown) >= 100
            else f"{shown:.2f}"
            if abs(shown) >= 0.1
            else f"{shown:.2g}"
        )
        short = units.count(float(f"{shown:.2g}")).replace(" ", "") if abs(shown) >= 1000 else text
        ink = LIGHT_TEXT if self._place(shown) > 0.6 else DARK_TEXT
        return {"shade": shown, "text": text, "short": short, "ink": ink}


Shades = LevelShades | FigureShades
