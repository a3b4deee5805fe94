"""Fits of constants that few measurements support: every constant has a prior, where it would lie by physics.

The fit is the maximum a posteriori: robust squares of logarithmic errors plus squared distances to the priors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import ORDINARY_ERROR
from sightline.quantities import significant

Array = NDArray[np.float64]

COVERAGE = 0.8
"""Share of measurements that an interval should hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Where a constant lies before anything is measured."""

    value: float
    spread: float
    """Standard deviation of its logarithm."""
    low: float
    high: float


def fit_with_priors(
    predict: Callable[[Mapping[str, float]], Array],
    measured: Array,
    weights: Array,
    priors: Mapping[str, Prior],
    *,
    starts: Sequence[Mapping[str, float]] = (),
) -> dict[str, float]:
    """Return the constants named in ``priors`` whose predictions are nearest to ``measured``, to three digits.

    Each measurement counts with its weight, normalised so that the data's total weight is their number. The search
    starts from the priors, and again from each of ``starts``, which says where that differs; the best end wins.
    """
    from scipy.optimize import least_squares

    names = list(priors)
    values = np.array([priors[name].value for name in names])
    spreads = np.array([priors[name].spread for name in names])
    scale = np.sqrt(weights / weights.mean())

    def errors(logs: Array) -> Array:
        data = scale * np.log(predict(dict(zip(names, values * np.exp(logs), strict=True))) / measured)
        return np.concatenate([data, ORDINARY_ERROR * logs / spreads])

    low, high = (np.log([getattr(priors[n], side) / priors[n].value for n in names]) for side in ("low", "high"))
    ends = [
        least_squares(
            errors,
            np.clip(logs, low + 1e-3, high - 1e-3),
            bounds=(low, high),
            loss="soft_l1",
            f_scale=ORDINARY_ERROR,
            diff_step=0.02,
            max_nfev=25,
        )
        for logs in _starts(names, values, starts)
    ]
    best = min(ends, key=lambda end: float(end.cost))
    return {n: significant(v) for n, v in zip(names, values * np.exp(best.x), strict=True)}


def _starts(names: Sequence[str], values: Array, others: Sequence[Mapping[str, float]]) -> list[Array]:
    """The priors, and what differs from them where ``others`` name a constant."""
    first = np.zeros(len(names))
    logs = [
        np.array([np.log(other[n] / v) if n in other else 0.0 for n, v in zip(names, values, strict=True)])
        for other in others
    ]
    return [first, *(one for one in logs if one.any())]


def held_out_errors(
    predict: Callable[[Mapping[str, float]], Array],
    fitted: Mapping[str, float],
    measured: Array,
    weights: Array,
    priors: Mapping[str, Prior],
    groups: Sequence[object],
) -> Array:
    """Return the logarithmic errors that measurements would have had in a fit without their group.

    The fit is taken as linear near its end: with the hat matrix H, a group's errors become ``(1 - H_gg)^-1 e_g``, as
    leaving out is for least squares (Cook and Weisberg 1982). Few measurements and many constants widen them much.
    """
    errors = np.log(predict(fitted) / measured)
    step = 0.02
    moved = [np.log(predict({**fitted, name: fitted[name] * np.exp(step)}) / measured) for name in priors]
    slopes = (np.array(moved) - errors).T / step
    scale = weights / weights.mean()
    prior = np.diag([(ORDINARY_ERROR / p.spread) ** 2 for p in priors.values()])
    spread = np.linalg.inv(slopes.T @ (scale[:, None] * slopes) + prior)
    out = np.empty_like(errors)
    for group in set(groups):
        own = np.array([g == group for g in groups])
        hat = slopes[own] @ spread @ slopes[own].T * scale[own]
        out[own] = np.linalg.solve(np.eye(int(own.sum())) - hat, errors[own])
    return out


def conformal_spread(errors: Sequence[float] | Array, groups: Sequence[object] = ()) -> float:
    """Return the half-width that holds four in five further measurements: the conformal quantile of ``errors``.

    Of n logarithmic errors that is the share 0.8 (1 + 1 / n) by size (Vovk 2005); too few to have one take half again
    the largest. Errors of one of the ``groups`` resemble each other, so that ``n`` is what ``independent_errors`` counts.
    """
    ordered = np.sort(np.abs(np.asarray(errors, dtype=float)))
    counted = independent_errors(errors, groups) if groups else float(len(ordered))
    rank = int(np.ceil(COVERAGE * (1.0 + 1.0 / counted) * len(ordered) - 1e-9))
    value = ordered[rank - 1] if rank <= len(ordered) else 1.5 * ordered[-1]
    return significant(value)


def independent_errors(errors: Sequence[float] | Array, groups: Sequence[object]) -> float:
    """Return how many independent errors say as much as these, of which those of a group resemble each other.

    N / (1 + (m - 1) rho) with m errors in the mean error's group (Kish 1965) and rho the mean product of two errors of a
    group over the mean square: 0 where they scatter, 1 where a group has one error. Errors count about 0 and not about
    their mean, because a fit's rest is a bias of each group; beyond twice their 80th percentile as that.
    """
    values = np.asarray(errors, dtype=float)
    most = 2.0 * np.quantile(np.abs(values), COVERAGE)
    values = np.clip(values, -most, most)
    members = [values[[g == group for g in groups]] for group in dict.fromkeys(groups)]
    pairs = sum(len(own) * (len(own) - 1) for own in members)
    if not pairs or not values.any():
        return float(len(values))
    products = sum(own.sum() ** 2 - (own**2).sum() for own in members) / pairs
    alike = float(np.clip(products / (values**2).mean(), 0.0, 1.0))
    size = sum(len(own) ** 2 for own in members) / len(values)
    return float(len(values) / (1.0 + (size - 1.0) * alike))
