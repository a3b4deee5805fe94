"""Residual surfaces fitted to what a formula leaves unexplained."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.cost.residual_surface import Axis, ResidualSurface

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]

STIFFNESS = 0.1
"""Weight of a bend between neighbouring knots, for knots one octave apart, against one measurement's error."""
PULL = 1e-2
"""Weight that pulls every knot to no correction, so that corners without measurements have none."""
ORDINARY = 0.03
"""Logarithmic error up to which a measurement counts by its square; beyond, by its size."""
ROUNDS = 6
"""Reweighted least squares until wild measurements have lost their pull."""


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
