"""What a fit leaves unexplained: errors where groups are left out, and smooth surfaces."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import ORDINARY_ERROR, AnyTable, Array, Constants, FitResult, Prior
from sightline.cost.residual_surface import Axis, ResidualSurface

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STIFFNESS = 0.1
"""Weight of a bend between neighbouring knots, for knots one octave apart, against one measurement's error."""
PULL = 1e-2
"""Weight that pulls every knot to no correction, so that corners without measurements have none."""
ORDINARY = 0.03
"""Logarithmic error up to which a measurement counts by its square in a surface; beyond, by its size."""
ROUNDS = 6
"""Reweighted least squares until outliers have lost their pull."""
Fitted = TypeVar("Fitted")


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
        values = _solved(places.T @ diags(robust) @ places + penalty, places.T @ (robust * logarithms))
    # as it is stored, so that what is reported is what is shipped
    return ResidualSurface.from_mapping(ResidualSurface.on(axes, np.asarray(values), kinds).to_mapping())


def _solved(matrix: Any, right: Array) -> Array:
    """The solution for a sparse, symmetric, positive definite matrix.

    Knots couple with near ones alone, so that Cholesky's factor fills a band: several times as fast as a general
    sparse factorization.
    """
    from scipy.linalg import solveh_banded
    from scipy.sparse import tril

    lower = tril(matrix, format="coo")
    below = lower.row - lower.col
    band = np.zeros((int(below.max()) + 1, lower.shape[0]))
    band[below, lower.col] = lower.data
    values: Array = solveh_banded(band, right, overwrite_ab=True, lower=True, check_finite=False)
    return values


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
