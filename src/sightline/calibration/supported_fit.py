"""Fits whose constants each rest on rows of their own: the others stay where they lie before anything is measured.

A constant that few measurements notice takes up what is left of their errors, and one on its bound stands for physics
that the formula lacks. Either is held at its prior, whose spread then says how little is known of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.calibration.fits import Array, Constants, Prior, fit_with_priors

FEWEST_ROWS = 5
"""Distinct measurements that a free constant moves."""
MOVED_BY, NOTICED = 1.1, 0.01
"""A measurement notices a constant if a value larger by this factor changes its prediction by this share."""
AT_BOUND = 0.02
"""Distance of logarithms within which a constant lies on its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFit:
    """The constants that measurements support, and why others are held."""

    constants: Mapping[str, float]
    rows: Mapping[str, int]
    """Distinct measurements that notice each."""
    held: Mapping[str, str]
    """Why a constant that was asked for is at its prior."""


def supported_fit(
    predict: Callable[[Constants], Array],
    measured: Array,
    weights: Array,
    priors: Mapping[str, Prior],
    *,
    starts: Sequence[Constants] = (),
) -> SupportedFit:
    """Fit the constants named in ``priors``, without those that too few rows notice and those that end on a bound.

    ``predict`` takes a constant that it is not given at its prior's value. Of those on a bound the one that fewest rows
    notice is held first, because it may have pushed the others there.
    """
    free, held = dict(priors), dict[str, str]()
    fitted = fit_with_priors(predict, measured, weights, free, starts=starts)
    while True:
        rows = {name: noticing_rows(predict, fitted, name, prior.value) for name, prior in free.items()}
        lacking = {n: f"{k} of {FEWEST_ROWS} rows notice it" for n, k in rows.items() if k < FEWEST_ROWS}
        if not lacking:
            bound = [name for name in free if _on_bound(fitted[name], free[name])]
            lacking = {min(bound, key=rows.__getitem__): "ends on its bound"} if bound else {}
        if not lacking:
            return SupportedFit(constants=fitted, rows=rows, held=held)
        held |= lacking
        free = {name: prior for name, prior in free.items() if name not in lacking}
        fitted = fit_with_priors(predict, measured, weights, free, near=fitted) if free else {}


def noticing_rows(predict: Callable[[Constants], Array], fitted: Constants, name: str, usual: float) -> int:
    """Return how many distinct predictions change by `NOTICED` where a constant grows by `MOVED_BY`.

    From where it was fitted or from its ``usual`` value, whichever more notice: measurements that would notice a usual
    time of the host and do not show one support that it is small.
    """
    return max(_noticing(predict, {**fitted, name: value}, name) for value in (fitted[name], usual))


def _noticing(predict: Callable[[Constants], Array], values: Constants, name: str) -> int:
    before, after = predict(values), predict({**values, name: values[name] * MOVED_BY})
    moved = np.abs(np.log(after / before)) >= np.log1p(NOTICED)
    return len({float(f"{value:.9g}") for value in before[moved]})


def _on_bound(value: float, prior: Prior) -> bool:
    return bool(min(np.log(value / prior.low), np.log(prior.high / value)) < AT_BOUND)
