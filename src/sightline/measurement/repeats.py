"""Medians of what was repeated in several independent runs, and how far they may be off."""

from collections.abc import Sequence
from math import exp, hypot, log, sqrt

import numpy as np

from sightline.measurement.timing import INTERVAL, median_interval


def median_of_runs(runs: Sequence[Sequence[float]]) -> tuple[float, tuple[float, float]]:
    """Return the median of all samples and its 80 % interval.

    Samples of one run scatter around that run's own median; a process more may lie elsewhere. So the interval joins that
    of the pooled median by ranks, and Student's for the mean of the runs' medians, both in the logarithm. What takes no time is known.
    """
    pooled = [sample for run in runs for sample in run]
    median = float(np.median(pooled))
    if median <= 0:
        return 0.0, (0.0, 0.0)
    low, high = median_interval(pooled)
    between = _between([float(np.median(run)) for run in runs if run])
    down, up = hypot(log(median / low), between), hypot(log(high / median), between)
    return median, (median * exp(-down), median * exp(up))


def _between(medians: Sequence[float]) -> float:
    """Half-width of the runs' mean in the logarithm; 0 for a single run, of which nobody knows."""
    n = len(medians)
    if n < 2:
        return 0.0
    from scipy.stats import t

    return float(t.ppf(0.5 + INTERVAL / 2, n - 1) * np.std(np.log(medians), ddof=1) / sqrt(n))


def spread_of_samples(runs: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the ends and the outer tenths of all samples."""
    pooled = [sample for run in runs for sample in run]
    least, low, high, most = (float(x) for x in np.quantile(pooled, (0, 0.1, 0.9, 1)))
    return {"min": least, "p10": low, "p90": high, "max": most}
