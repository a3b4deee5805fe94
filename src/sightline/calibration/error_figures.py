"""How far off predictions are: the statistics of their errors, and half-widths of intervals that hold four in five.

Errors are logarithms of predicted over measured, but where they are said to be relative.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import COVERAGE, significant

Array = NDArray[np.float64]


def error_statistics(predicted: Array, measured: Array, digits: int = 4) -> dict[str, float]:
    """Rows, median, mean and 90th percentile of the absolute relative error, and the median signed error (bias)."""
    error = predicted / measured - 1
    size = np.abs(error)
    figures = {
        "median": np.median(size),
        "mean": size.mean(),
        "p90": np.quantile(size, 0.9),
        "bias": np.median(error),
    }
    return {"rows": len(error), **{k: round(float(v), digits) for k, v in figures.items()}}


def mean_error(errors: Sequence[float] | Array) -> float:
    """Return the mean absolute relative error."""
    return float(np.abs(np.expm1(errors)).mean())


def covered(errors: Sequence[float] | Array, half_widths: Sequence[float] | Array | float) -> float:
    """Return the share of errors inside their intervals."""
    return float((np.abs(errors) <= half_widths).mean())


def typical_half_width(half_widths: Sequence[float] | Array) -> float:
    """Return the median half-width of intervals, as a fraction."""
    return float(np.expm1(np.median(half_widths)))


def width_holding(errors: Array, weights: Array) -> float:
    """Return the least half-width that holds four in five errors by weight."""
    order = np.argsort(np.abs(errors))
    reached = np.cumsum(weights[order])
    return float(np.abs(errors)[order][np.searchsorted(reached, COVERAGE * reached[-1])])


def without_wild(errors: Array) -> Array:
    """Return the errors, of which those beyond twice their 80th percentile count as that."""
    most = 2.0 * np.quantile(np.abs(errors), COVERAGE)
    return np.clip(errors, -most, most)


def conformal_spread(errors: Sequence[float] | Array, groups: Sequence[object] = ()) -> float:
    """Return the half-width that holds four in five further measurements: the conformal quantile of ``errors``.

    Of n logarithmic errors that is the share 0.8 (1 + 1 / n) by size (Vovk 2005); too few to have one take half again
    the largest. Errors of one of the ``groups`` resemble each other, so that ``n`` is what ``independent_errors``
    counts.
    """
    ordered = np.sort(np.abs(np.asarray(errors, dtype=float)))
    counted = independent_errors(errors, groups) if groups else float(len(ordered))
    rank = int(np.ceil(COVERAGE * (1.0 + 1.0 / counted) * len(ordered) - 1e-9))
    value = ordered[rank - 1] if rank <= len(ordered) else 1.5 * ordered[-1]
    return significant(value)


def independent_errors(errors: Sequence[float] | Array, groups: Sequence[object]) -> float:
    """Return how many independent errors say as much as these, of which those of a group resemble each other.

    N / (1 + (m - 1) rho) with m errors in the mean error's group (Kish 1965) and rho the mean product of two errors of
    a group over the mean square: 0 where they scatter, 1 where a group has one error. Errors count about 0 and not
    about their mean, because a fit's rest is a bias of each group; beyond twice their 80th percentile as that.
    """
    sizes = [sum(g == group for g in groups) for group in dict.fromkeys(groups)]
    size = sum(n**2 for n in sizes) / len(errors)
    return float(len(errors) / (1.0 + (size - 1.0) * likeness(errors, groups)))


def likeness(errors: Sequence[float] | Array, groups: Sequence[object]) -> float:
    """Return the share of the errors' mean square that those of a group have in common, from 0 to 1."""
    values = without_wild(np.asarray(errors, dtype=float))
    members = [values[[g == group for g in groups]] for group in dict.fromkeys(groups)]
    pairs = sum(len(own) * (len(own) - 1) for own in members)
    if not pairs or not values.any():
        return 0.0
    products = sum(own.sum() ** 2 - (own**2).sum() for own in members) / pairs
    return float(np.clip(products / (values**2).mean(), 0.0, 1.0))
