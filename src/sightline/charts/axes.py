"""Axes of quantities: their unit, their ticks, and where a value lies on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10
from typing import Any

import altair as alt

from sightline.answers import units
from sightline.charts import drawing

_SPREAD_OF_LOG = 12.0
"""Largest over smallest value from which an axis is logarithmic."""
_THOUSANDS = 1e4
"""Value from which an axis counts in thousands, millions and so on."""
_PADDING = 0.08
"""Share of an axis that is left free at either end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from ``low`` to ``high`` in its own unit, in which values are divided by ``divisor``."""

    key: str = ""
    """The result key whose values lie on it."""
    title: str
    low: float
    high: float
    divisor: float = 1.0
    is_log: bool = False
    money: bool = False
    has_sizes: bool = False
    """Whether its ticks are sizes in bytes, each labelled in a unit of its own."""

    def place(self, value: float) -> float:
        """Return where a value, in SI units, lies: 0 at the lower end, 1 at the upper."""
        shown = value / self.divisor
        if self.is_log:
            return log(shown / self.low) / log(self.high / self.low)
        return (shown - self.low) / (self.high - self.low)

    def scale(self) -> Any:
        """Return the scale."""
        if self.is_log:
            return drawing.logarithmic(self.low, self.high)
        return alt.Scale(domain=[self.low, self.high], nice=False, zero=False)

    def ticks(self, count: int) -> Any:
        """Return the axis with about ``count`` ticks; a logarithmic one marks parts of its decades."""
        plain = "~g" if self.is_log else ",~f"
        form = ("$" if self.money else "") + ("~s" if self.high >= _THOUSANDS else plain)
        marks = {"values": decade_ticks(self.low, self.high)} if self.is_log else {"tickCount": count}
        return alt.Axis(format=form, labelOverlap=True, **marks)


_LEAST_TICKS = 4
_DIGITS = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
"""What is marked of each decade, more where few marks fall on the axis."""


def decade_ticks(low: float, high: float) -> list[float]:
    """Return marks between two values of a logarithmic axis: the decades of a long one, more of each of a short one."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    marks: list[float] = []
    for digits in _DIGITS:
        marks = [digit * 10.0**decade for decade in decades for digit in digits if low <= digit * 10.0**decade <= high]
        if len(marks) >= _LEAST_TICKS:
            return marks
    return _even_marks(low, high)


def _even_marks(low: float, high: float) -> list[float]:
    """Marks at equal steps between two values that lie close to each other."""
    step = 10.0 ** floor(log10(high - low))
    while (floor(high / step) - ceil(low / step) + 1) < _LEAST_TICKS:
        step /= 2.0
    return [float(f"{count * step:.6g}") for count in range(ceil(low / step), floor(high / step) + 1)]


def axis(key: str, label: str, values: Sequence[float], *, best: str = "", log: bool | None = None) -> Axis:
    """Return the axis of a result key that holds ``values``, in the unit that suits the largest.

    Args:
        key: The result key, whose ending tells the unit.
        label: Its name for people.
        values: In SI units.
        best: "less" or "more": which is better, said behind the label.
        log: Whether the axis is logarithmic; by default where the values spread far.
    """
    divisor, unit = _unit(key, max(values))
    low, high = min(values) / divisor, max(values) / divisor
    is_log = (low > 0 and high / low > _SPREAD_OF_LOG) if log is None else log
    named = f"{label} ({unit})" if unit else label
    title = f"{named}, {best} is better" if best else named
    if is_log:
        room = (high / low) ** _PADDING
        return Axis(
            key=key, title=title, low=low / room, high=high * room, divisor=divisor, is_log=True, money=unit == "USD"
        )
    room = _PADDING * (high - low) or 0.1 * abs(high) or 1.0
    low = max(low - room, 0.0) if low >= 0 else low - room
    return Axis(key=key, title=title, low=low, high=high + room, divisor=divisor, money=unit == "USD")


def _unit(key: str, largest: float) -> tuple[float, str]:
    """The divisor and the name of the unit of a result key."""
    if key.startswith("memory"):
        return float(2**30), "GiB"
    if "usd" in key:
        return 1.0, "USD"
    if key.endswith("_j") or "_j_per_" in key:
        return next(((3.6e3 * f, f"{p}Wh") for f, p in ((1e6, "M"), (1e3, "k")) if largest >= 3.6e3 * f), (3.6e3, "Wh"))
    if "_per_s" in key:
        return 1.0, ""
    return units.longer_time_unit(largest) if key.partition(".")[0].endswith("_s") else (1.0, "")
