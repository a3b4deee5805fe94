"""What the recorded shapes of operators tell: FLOPs of matrix products, and how many matrices and rows they have."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.traces.events import Flags, Integers, Operands, Trace

LARGEST = 2**62
"""Elements and FLOPs that no operator has."""
_PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm"))


def flops_of(trace: Trace, operator: Integers) -> Integers:
    """Return the FLOPs of each operator, a place in the events: 2 m n k of a product, 0 of anything else.

    An operator that launches several kernels, such as a reduction after a split product, has them once.
    """
    return np.where(is_first(operator), told(trace, operator, _flops, 0), 0)


def batches_of(trace: Trace, operator: Integers) -> Integers:
    """Return how many matrices each operator, a place in the events, multiplies; -1 where no shapes were recorded."""
    return told(trace, operator, _batch, -1)


def rows_of(trace: Trace, operator: Integers) -> Integers:
    """Return the rows of each product's first matrix: the tokens of a linear layer's forward pass; -1 unknown."""
    return told(trace, operator, lambda name, called: _rows(factors(name, called)), -1)


def told(trace: Trace, operator: Integers, tell: Callable[[str, Operands], float], unknown: float) -> NDArray[Any]:
    """Return what an operator's name and operands tell of each, asked once per distinct pair.

    Args:
        trace: With shapes or without.
        operator: Places in the events; -1 is unknown.
        tell: Of a name and what it was called with.
        unknown: What is returned where no shapes were recorded; of the type that ``tell`` returns.
    """
    result = np.full(len(operator), unknown)
    place = np.maximum(operator, 0)
    known = (operator >= 0) & (trace.events.operands[place] >= 0) if len(trace.operands) else np.zeros(len(place), bool)
    if known.any():
        pairs = np.stack((trace.events.name[place], trace.events.operands[place]), axis=1)[known]
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        found = [tell(trace.names[name], trace.operands[called]) for name, called in distinct.tolist()]
        result[known] = np.array(found, result.dtype)[which.reshape(-1)]
    return result


def is_first(operator: Integers) -> Flags:
    """Return which places are the first of their operator."""
    flags = np.zeros(len(operator), bool)
    flags[np.unique(operator, return_index=True)[1]] = True
    return flags & (operator >= 0)


def factors(name: str, called: Operands) -> list[Sequence[int]]:
    """Return the two matrices, or batches of them, that a product multiplies; none of another operator."""
    matrices = [shape for shape in called.shapes if _is_matrix(shape)] if name in _PRODUCTS else []
    fit = len(matrices) >= 2 and matrices[-2][-1] == matrices[-1][-2]
    return matrices[-2:] if fit else []


def _flops(name: str, called: Operands) -> int:
    if not (both := factors(name, called)):
        return 0
    flops = 2 * prod(both[0]) * both[1][-1]
    return flops if flops < LARGEST else 0


def _batch(name: str, called: Operands) -> int:
    both = factors(name, called)
    return min(prod(both[0][:-2]), LARGEST) if both else -1


def _rows(both: Sequence[Sequence[int]]) -> int:
    return min(both[0][-2], LARGEST) if both else -1


def _is_matrix(shape: Any) -> bool:
    return isinstance(shape, Sequence) and len(shape) >= 2 and all(type(size) is int and size >= 0 for size in shape)
