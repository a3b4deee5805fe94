"""FLOPs of matrix products by the shapes that the profiler recorded."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from sightline.traces.events import Integers, Trace


def flops_of(trace: Trace, operator: Integers) -> Integers:
    """Return the FLOPs of each operator, a place in the events: 2 m n k of a product, 0 of anything else.

    An operator that launches several kernels, such as a reduction after a split product, has them once.
    """
    if not trace.dims:
        return np.zeros(len(operator), np.int64)
    distinct, first = np.unique(operator, return_index=True)
    result = np.zeros(len(operator), np.int64)
    external = trace.events.external[np.maximum(distinct, 0)].tolist()
    for place, number, known in zip(first.tolist(), external, (distinct >= 0).tolist(), strict=True):
        if known and number in trace.dims:
            result[place] = _product(trace.dims[number])
    return result


def batches_of(trace: Trace, operator: Integers) -> Integers:
    """Return how many matrices each operator, a place in the events, multiplies; -1 where no shapes were recorded."""
    if not trace.dims:
        return np.full(len(operator), -1)
    distinct, place = np.unique(operator, return_inverse=True)
    external = trace.events.external[np.maximum(distinct, 0)].tolist()
    known = zip(external, (distinct >= 0).tolist(), strict=True)
    found = np.array([_batch(trace.dims.get(number)) if is_known else -1 for number, is_known in known], np.int64)
    result: Integers = found[place.reshape(-1)]
    return result


def _batch(shapes: Any) -> int:
    matrices = [shape for shape in shapes if _is_matrix(shape)] if isinstance(shapes, list) else []
    return min(prod(matrices[-1][:-2]), 2**62) if matrices else -1


def _product(shapes: Any) -> int:
    """FLOPs of the last two operands that are matrices: those of mm, bmm, addmm, baddbmm."""
    matrices = [shape for shape in shapes if _is_matrix(shape)] if isinstance(shapes, list) else []
    if len(matrices) < 2:
        return 0
    a, b = matrices[-2:]
    flops = 2 * prod(a) * b[-1] if a[-1] == b[-2] else 0
    return flops if flops < 2**62 else 0


def _is_matrix(shape: Any) -> bool:
    return isinstance(shape, Sequence) and len(shape) >= 2 and all(type(size) is int and size >= 0 for size in shape)
