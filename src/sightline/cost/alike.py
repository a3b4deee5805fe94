"""Operators of one kind side by side, so that one call prices them all."""

from collections.abc import Sequence

import numpy as np

from sightline.program import Operator
from sightline.quantities import PLAIN, Number


def stacked(operators: Sequence[Operator], attribute: str, axes: int) -> Number:
    """Return one attribute of all operators along a new first axis, followed by the mesh's ``axes``.

    That of a single operator without a mesh is a plain number, with which NumPy calculates several times faster.
    """
    values = [getattr(op, attribute) for op in operators]
    if len(values) == 1 and not axes and type(values[0]) in PLAIN:
        return float(values[0])
    if {*map(type, values)} <= PLAIN or not any(map(np.ndim, values)):
        stack = np.array(values, dtype=float)
        return stack.reshape((-1,) + (1,) * axes) if axes else stack
    first = np.stack(np.broadcast_arrays(*values))
    return first.reshape(len(values), *(1,) * (axes + 1 - first.ndim), *first.shape[1:])
