"""What a fit leaves unexplained: errors, errors on what it did not see, spreads of intervals, and smooth surfaces."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits import ORDINARY_ERROR, AnyTable, Array, Constants, FitResult, Prior
from sightline.cost.residual_surface import Axis, ResidualSurface
from sightline.quantities import COVERAGE, significant

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STIFFNESS = 0.1
"""Weight of a bend between neighbouring knots, for knots one octave apart, against one measurement's error."""
PULL = 1e-2
"""Weight that pulls every knot to no correction, so that corners without measurements have none."""
ORDINARY = 0.03
"""Logarithmic error up to which a measurement counts by its square in a surface; beyond, by its size."""
ROUNDS = 6
"""Reweighted least squares until wild measurements have lost their pull."""
Fitted = TypeVar("Fitted")


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


def left_out(
    table: AnyTable,
    groups: Array | Sequence[str],
    fit: Callable[[AnyTable], Fitted],
    predict: Callable[[AnyTable, Fitted], Array],
) -> Array:
    """Return what is predicted of each measurement with constants fitted to all groups but its own."""
    predicted, names = np.empty(len(table)), np.asarray(groups)
    for group in np.unique(names):
        own = names == group
        predicted[own] = predict(table.where(own), fit(table.where(~own)))
    return predicted


def fit_and_judge(
    table: AnyTable,
    fit: Callable[[AnyTable], Constants],
    predict: Callable[[AnyTable, Constants], Array],
    groups: Mapping[str, Array | Sequence[str]],
) -> FitResult:
    """Return the constants of all measurements, with the errors there and where groups are left out, by their kind."""
    constants = fit(table)
    predicted = {"fit": predict(table, constants)}
    predicted |= {f"{kind} left out": left_out(table, names, fit, predict) for kind, names in groups.items()}
    residuals = {name: error_statistics(seconds, table.seconds) for name, seconds in predicted.items()}
    return FitResult(constants=constants, rows={"fitted": len(table)}, residuals=residuals)


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
    values = np.asarray(errors, dtype=float)
    most = 2.0 * np.quantile(np.abs(values), COVERAGE)
    values = np.clip(values, -most, most)
    members = [values[[g == group for g in groups]] for group in dict.fromkeys(groups)]
    pairs = sum(len(own) * (len(own) - 1) for own in members)
    if not pairs or not values.any():
        return 0.0
    products = sum(own.sum() ** 2 - (own**2).sum() for own in members) / pairs
    return float(np.clip(products / (values**2).mean(), 0.0, 1.0))


def axis_over(sizes: Array, knots: int) -> Axis:
    """An axis that spans the measured ``sizes``."""
    return Axis(first=float(sizes.min()), last=float(sizes.max()), knots=knots)


def fit_surface(
    axes: Sequence[Axis],
    sizes: Sequence[Array],
    logarithms: Array,
    *,
    stiffness: float = STIFFNESS,
    kind: NDArray[np.int64] | int = 0,
    kinds: int = 1,
) -> ResidualSurface:
    """Return the surface nearest to ``logarithms`` of measured over predicted time at ``sizes``, one array per axis.

    With several ``kinds`` each has a table of its own, to which the measurements of that ``kind`` belong.

    Penalised least squares (P-splines of first order: Eilers and Marx 1996) with robust weights: squares of the errors,
    of the second differences along every axis, and of the values themselves.
    """
    from scipy.sparse import csr_matrix, diags, identity, kron
    from scipy.sparse.linalg import spsolve

    axes = tuple(axes)
    count = prod(axis.knots for axis in axes) * kinds
    corners, weights, inside = ResidualSurface.on(axes, np.zeros(count), kinds).cells(*sizes, kind=kind)
    rows = np.tile(np.arange(len(logarithms)), len(corners))
    places = csr_matrix(((weights * inside).ravel(), (rows, corners.ravel())), shape=(len(logarithms), count))
    bends = kron(identity(kinds), _bends(axes, stiffness))
    penalty = bends.T @ bends + PULL * identity(count)
    values: Any = np.zeros(count)
    for _ in range(ROUNDS):
        robust = 1 / np.sqrt(1 + ((logarithms - places @ values) / ORDINARY) ** 2)
        values = spsolve((places.T @ diags(robust) @ places + penalty).tocsc(), places.T @ (robust * logarithms))
    # as it is stored, so that what is reported is what is shipped
    return ResidualSurface.from_mapping(ResidualSurface.on(axes, np.asarray(values), kinds).to_mapping())


def _bends(axes: tuple[Axis, ...], stiffness: float) -> "csr_matrix":
    """Second differences of all values along every axis."""
    from scipy.sparse import diags, identity, kron, vstack

    parts = []
    for bent in axes:
        part = identity(1)
        for axis in axes:
            size = axis.knots
            second = diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(size - 2, size)) * (stiffness * axis.per_octave**1.5)
            part = kron(part, second if axis is bent else identity(size))
        parts.append(part)
    return vstack(parts).tocsr()
