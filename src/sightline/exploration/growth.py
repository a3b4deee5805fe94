"""Exponential growth over the years: a line through logarithms, its doubling time and how well that is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
"""Coverage of the intervals of doubling times, as publications of such trends state them."""
FEWEST = 4
"""Points that a line is drawn through at least, so that two are left to judge it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """log2(y) = ``at_zero`` + ``per_year`` (t - ``zero``), fitted by least squares."""

    count: int
    """Points it is fitted to."""
    zero: float
    """Mean of their years."""
    at_zero: float
    per_year: float
    """Doublings per year."""
    standard_error: float
    """Of ``per_year``, of residuals that are independent and alike."""
    half_width: float
    """Of the interval of ``per_year``: the standard error times Student's t of `CONFIDENCE`."""
    explained: float
    """Share of the variance of log2(y) that the line explains (R squared)."""

    @property
    def doubling_years(self) -> float:
        """Years in which y doubles; negative where it falls."""
        return 1.0 / self.per_year

    @property
    def interval_years(self) -> tuple[float, float]:
        """The interval of the doubling time; its end is infinite where the data do not tell growth from none."""
        low, high = self.per_year - self.half_width, self.per_year + self.half_width
        if low > 0:
            return 1.0 / high, 1.0 / low
        return (1.0 / high if high > 0 else np.inf), np.inf

    @property
    def yearly(self) -> float:
        """Factor of a year."""
        return float(2.0**self.per_year)

    def to_dict(self) -> dict[str, Any]:
        """Return the doubling time, its interval and the number of points, as a summary has them."""
        return {"years": self.doubling_years, "interval": list(self.interval_years), "points": self.count}

    def in_words(self, digits: int) -> str:
        """Return the doubling time with its interval: "2.46 years (2.24 to 2.72)"."""
        low, high = self.interval_years
        if self.per_year <= 0 or not np.isfinite(high):
            return f"{abs(self.doubling_years):.1f} years (not distinguishable from no growth)"
        return f"{self.doubling_years:.{digits}f} years ({low:.{digits}f} to {high:.{digits}f})"

    def at(self, years: float | Floats) -> Floats:
        """Return y on the line."""
        return np.asarray(2.0 ** (self.at_zero + self.per_year * (np.asarray(years) - self.zero)))


def fit_growth(
    years: Sequence[float] | Floats, values: Sequence[float] | Floats, groups: Sequence[str] = ()
) -> Growth | None:
    """Return the line of least squares through log2 of values above 0; None of fewer than `FEWEST` or of one date.

    Args:
        years: Dates as numbers of years.
        values: What grows; points without a value (NaN) are left out.
        groups: To which group each point belongs, where each has a level of its own and all grow alike. Without it a
            change of the mix of groups over the years would count as growth. The line is then of their mean level.

    Points are taken as independent: products of one family are not quite, so that the interval is a lower bound of
    what is not known.
    """
    from scipy.special import stdtrit

    all_years, all_values = np.asarray(years, dtype=float), np.asarray(values, dtype=float)
    kept = np.isfinite(all_values) & (all_values > 0)
    t, y = all_years[kept], np.log2(all_values[kept])
    member = np.unique(np.asarray(groups)[kept], return_inverse=True)[1] if len(groups) else np.zeros(len(t), dtype=int)
    sizes = np.bincount(member)
    free = len(t) - len(sizes) - 1
    if free < FEWEST - 2:
        return None
    from_mean_t, from_mean_y = (of - (np.bincount(member, of) / sizes)[member] for of in (t, y))
    spread, total = float((from_mean_t**2).sum()), float((from_mean_y**2).sum())
    if spread == 0:
        return None
    slope = float((from_mean_t * from_mean_y).sum()) / spread
    left = float(((from_mean_y - slope * from_mean_t) ** 2).sum())
    error = float(np.sqrt(left / free / spread))
    return Growth(
        count=len(t),
        zero=float(t.mean()),
        at_zero=float(y.mean()),
        per_year=slope,
        standard_error=error,
        half_width=error * float(stdtrit(free, (1 + CONFIDENCE) / 2)),
        explained=1.0 - left / total if total else 1.0,
    )


def records(years: Sequence[float] | Floats, values: Sequence[float] | Floats) -> NDArray[np.bool_]:
    """Return which points are the best of their date: larger than all before, and the largest of those of one date."""
    t, y = np.asarray(years, dtype=float), np.asarray(values, dtype=float)
    best, found = -np.inf, np.zeros(len(t), dtype=bool)
    for place in np.lexsort((-y, t)):
        if np.isfinite(y[place]) and y[place] > best:
            best, found[place] = y[place], True
    return found
