"""How far the mean of a series is off by chance, where each value resembles the one before.

Two models, of which the surer counts. A series that returns to its mean is a first-order autoregressive process: its
mean is as sure as that of fewer independent values (Fishman, Management Science 1971, 18:21; Zwiers and von Storch,
Journal of Climate 1995, 8:336). A queue that grows, as in a burst, adds up independent steps, which are alike however
far it has come; a run that is too short to return to its mean looks the same, and gets the interval of such a walk.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from sightline.simulation.requests import Floats

Z = 1.2815515655446004
"""Half-width of the interval that holds 80 % of the normal distribution."""
AVERAGED = 2.0 / 3.0
"""Variance of steps between means of a walk's batches over that of its steps (Working, Econometrica 1960, 28:916)."""
FEWEST = 5
"""Values of which a correlation can be told from that of so short a series alone."""


class MeanError(NamedTuple):
    """What is known of the error of a mean."""

    standard_error: float
    freedom: float
    """Degrees of freedom that it is known with."""

    @property
    def half_width(self) -> float:
        """Half of the 80 % interval."""
        return student(self.freedom) * self.standard_error if self.standard_error else 0.0


UNKNOWN = MeanError(inf, 1.0)


def error_of_mean(series: Floats) -> MeanError:
    """Return the error of the mean of means of batches that follow each other."""
    return min(_returning(series), _growing(series), key=lambda found: found.half_width)


def independent_values(series: Floats) -> float:
    """Return how many independent values would say as much of the mean: 1 where the series does not return to it.

    With n values of correlation p between neighbours, the variance of the mean is that of a value times
    ``(1 + 2 sum of (1 - k / n) p^k over k = 1 ... n - 1) / n``.
    """
    n, p = series.size, _correlation(series)
    lags = np.arange(1, n)
    return float(n / (1.0 + 2.0 * ((1.0 - lags / n) * p**lags).sum()))


def student(freedom: float) -> float:
    """Return the half-width of the interval that holds 80 % of Student's distribution with so many degrees of freedom.

    Expansion 26.7.5 of Abramowitz and Stegun; 4 % too small for a single one, right to 0.4 % from two on.
    """
    steps = (
        (Z**3 + Z) / 4.0,
        (5.0 * Z**5 + 16.0 * Z**3 + 3.0 * Z) / 96.0,
        (3.0 * Z**7 + 19.0 * Z**5 + 17.0 * Z**3 - 15.0 * Z) / 384.0,
    )
    return Z + sum(step / freedom**power for power, step in enumerate(steps, start=1))


def _correlation(series: Floats) -> float:
    """The correlation of neighbours, from 0 to 1.

    What so short a series takes off it is added again (Marriott and Pope, Biometrika 1954, 41:390).
    """
    off = series - series.mean()
    squares = float(off @ off)
    if series.size < FEWEST or not squares:
        return 0.0 if not squares else 1.0
    raw = float(off[1:] @ off[:-1]) / squares
    return min(max((series.size * raw + 1.0) / (series.size - 4.0), 0.0), 1.0)


def _returning(series: Floats) -> MeanError:
    """Of a series that returns to its mean."""
    values = independent_values(series) if series.size else 1.0
    if values < 1.0 + 1e-9:
        return UNKNOWN
    # The values' spread around their own mean lacks that of the mean.
    return MeanError(sqrt(float(series.var()) / (values - 1.0)), max(values - 1.0, 1.0))


def _growing(series: Floats) -> MeanError:
    """Of means of batches of a sum of independent steps, from how far neighbouring ones are apart."""
    n = series.size
    if n < 3:
        return UNKNOWN
    steps = float(np.diff(series).var(ddof=1)) / AVERAGED
    return MeanError(sqrt(steps * (n + 1.0) * (2.0 * n + 1.0) / (6.0 * n)), n - 2.0)
