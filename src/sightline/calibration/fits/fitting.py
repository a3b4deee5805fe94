"""Robust fits of a formula's constants to measured times, between bounds or in log space, and how far they are off."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import significant

Array = NDArray[np.float64]
Constants = Mapping[str, float]

ORDINARY_ERROR = 0.05
"""Relative error up to which a measurement counts by its square; beyond, by its size (kernels chosen badly)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Where a constant may lie, and where the search for it starts."""

    low: float
    starts: tuple[float, ...]
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult:
    """Constants by name, the figures they were fitted on, and what they leave unexplained."""

    constants: Mapping[str, Any]
    rows: Mapping[str, int]
    residuals: Mapping[str, Mapping[str, float]]
    """Statistics of the relative error by range of shapes."""


def fit_constants(
    predict: Callable[[Constants], Array], seconds: Array, ranges: Mapping[str, Range]
) -> dict[str, float]:
    """Return the constants whose predictions are nearest to ``seconds``: least squares of soft-l1 logarithmic errors.

    Formulas with whole tiles have steps, so the search starts from the first start of every range and again with each
    further start of one of them; the best end wins. Rounded to three digits.
    """
    from scipy.optimize import least_squares

    names = list(ranges)
    low, high = (np.array([getattr(ranges[n], side) for n in names]) for side in ("low", "high"))

    def errors(x: Array) -> Array:
        logarithms: Array = np.log(predict(dict(zip(names, x, strict=True))) / seconds)
        return logarithms

    ends = [
        least_squares(
            errors,
            start,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=ORDINARY_ERROR,
            x_scale=np.maximum(np.abs(start), 1e-3 * high),
            diff_step=0.02,
            max_nfev=30,
        )
        for start in _starts(ranges)
    ]
    best = min(ends, key=lambda end: float(end.cost))
    return {n: significant(x) for n, x in zip(names, best.x, strict=True)}


def _starts(ranges: Mapping[str, Range]) -> list[Array]:
    first = np.array([r.starts[0] for r in ranges.values()])
    starts = [first]
    for i, r in enumerate(ranges.values()):
        for other in r.starts[1:]:
            start = first.copy()
            start[i] = other
            starts.append(start)
    return starts


def share_of(keys: Sequence[str]) -> Array:
    """A fixed number between 0 and 1 for each key, for splits and samples that anyone can repeat."""
    return np.array([crc32(key.encode()) / 2**32 for key in keys])


def error_statistics(predicted: Array, measured: Array) -> dict[str, float]:
    """Rows, median, mean and 90th percentile of the absolute relative error, and the median signed error (bias)."""
    error = predicted / measured - 1
    size = np.abs(error)
    figures = {
        "median": np.median(size),
        "mean": size.mean(),
        "p90": np.quantile(size, 0.9),
        "bias": np.median(error),
    }
    return {"rows": len(error), **{k: round(float(v), 4) for k, v in figures.items()}}


ROBUST_SCALE = 0.05
"""Relative error beyond which a measurement loses weight: tables hold spikes of a busy host."""
PRIOR_WEIGHT = 0.06
"""Pull on the logarithm of every constant towards its centre: decides only what the data leave open."""


def robust_fit(
    model: Callable[[Array], Array],
    measured: Array,
    centre: Array,
    least: Array,
    most: Array,
    starts: Sequence[Array],
) -> Array:
    """Return the positive values, within bounds, whose model is nearest to what was measured, from the best start.

    Starts are logarithms; so are the distances between model and measurement, and to the centre.
    """
    from scipy.optimize import least_squares

    def misfit(logs: Array) -> Array:
        pull = PRIOR_WEIGHT * (logs - np.log(centre))
        return np.concatenate([np.log(model(np.exp(logs)) / measured), pull])

    low, high = np.log(least), np.log(most)
    found = [
        least_squares(
            misfit,
            np.clip(start, low + 1e-6, high - 1e-6),
            bounds=(low, high),
            loss="soft_l1",
            f_scale=ROBUST_SCALE,
            max_nfev=200,
            xtol=1e-6,
        )
        for start in starts
    ]
    values: Array = np.exp(min(found, key=lambda f: f.cost).x)
    return values
