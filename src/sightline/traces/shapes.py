"""FLOPs and bytes of operators, by the shapes and types that the profiler recorded."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.traces.events import Flags, Integers, Kind, Operands, Trace
from sightline.traces.nesting import Nesting, outermost
from sightline.traces.operator_names import work_of

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
        values = [tell(trace.names[name], trace.operands[called]) for name, called in distinct.tolist()]
        result[known] = np.array(values, result.dtype)[which.reshape(-1)]
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


Bytes = NDArray[np.float64]

_ELEMENT_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("double", "long", "long int", "long long", "int64_t", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("c10::BFloat16", "c10::Half", "short", "short int"), 2),
    **dict.fromkeys(("bool", "unsigned char", "signed char", "char", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
}
_UNKNOWN = float("nan")
_WRITES = frozenset(("fill_", "zero_", "normal_", "uniform_", "bernoulli_"))
_COMPARES = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isfinite", "isnan", "isinf"))
_ALONG = frozenset(
    ("where", "masked_fill", "masked_fill_", "log_softmax", "_log_softmax", "_log_softmax_backward_data")
)
"""Operators whose result has the shape of their operands, other than those of ``_LIKE_OPERANDS``."""
_LIKE_OPERANDS = frozenset(("elementwise", "activation", "softmax"))
_COPIES = {Kind.COPY: 2, Kind.FILL: 1}
"""How often the device's memory carries the bytes of its copies and fills."""


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.element_bytes


def traffic_of(trace: Trace, operator: Integers, kernel: Integers) -> Bytes:
    """Return the bytes of each kernel's operator, at its first kernel, and 0 at the others; NaN where unknown.

    Args:
        trace: With shapes and types, or without.
        operator: Of each kernel, as a place in the events; -1 unknown.
        kernel: Places of the kernels in the events, of which copies and fills say their bytes themselves.
    """
    traffic = told(trace, operator, _traffic, _UNKNOWN)
    traffic = np.where(is_first(operator) | (operator < 0), traffic, 0.0)
    size, kind = trace.events.size[kernel], trace.events.kind[kernel]
    for one, times in _COPIES.items():
        traffic = np.where((kind == one) & (size >= 0) & ~np.isfinite(traffic), times * size, traffic)
    return traffic


def traffic_on_host(trace: Trace, nesting: Nesting, operator: Integers) -> Bytes:
    """Return the bytes of each operator of the host, a place in the events; NaN where unknown.

    One that calls others has theirs counted once: by the outermost that is known.
    """
    own = told(trace, nesting.order, _traffic, _UNKNOWN)
    known = np.isfinite(own)
    top = outermost(nesting, known)
    covered = (top >= 0) & (top != np.arange(len(top)))
    calls_known = np.zeros(len(own), bool)
    above = nesting.parent[known]
    while len(above := np.unique(above[above >= 0])):
        calls_known[above] = True
        above = nesting.parent[above]
    by_event = np.full(len(trace.events), _UNKNOWN)
    by_event[nesting.order] = np.where(covered | (~known & calls_known), 0.0, own)
    return by_event[operator]


def _traffic(name: str, called: Operands) -> float:
    """Bytes of one operator; NaN where its operands do not tell."""
    tensors = _tensors(called)
    if not tensors:
        return _UNKNOWN
    work, plain = work_of(name, "").operator, name.removeprefix("aten::")
    if work == "flash attention":
        return _attention(name, tensors)
    if plain == "copy_" and len(tensors) == 2:
        return float(sum(tensor.bytes for tensor in tensors))
    if plain in _WRITES:
        return float(tensors[0].bytes)
    shape = _result(name, plain, work, called, tensors)
    if shape is None:
        return _UNKNOWN
    kept = 1 if plain in _COMPARES else _first_full(tensors).element_bytes
    mask = prod(shape) if plain == "native_dropout" else 0
    return float(sum(tensor.bytes for tensor in tensors) + prod(shape) * kept + mask)


def _result(name: str, plain: str, work: str, called: Operands, tensors: Sequence[_Tensor]) -> tuple[int, ...] | None:
    """The shape of what an operator writes."""
    if both := factors(name, called):
        # Products of 8-bit operands write what another argument says.
        return (*both[0][:-1], both[1][-1]) if plain != "_scaled_mm" else None
    if plain in _ALONG or work in _LIKE_OPERANDS or plain.startswith("native_dropout"):
        return _broadcast([tensor.shape for tensor in tensors])
    if work == "norm":
        return max((tensor.shape for tensor in tensors), key=prod)
    return None


def _attention(name: str, tensors: Sequence[_Tensor]) -> float:
    """Queries, keys, values and output once; the backward pass, which has the gradient first, twice."""
    is_backward = "backward" in name.lower()
    operands = [tensor for tensor in tensors if len(tensor.shape) >= 3][is_backward:][:3]
    if len(operands) < 3:
        return _UNKNOWN
    q, _, v = operands
    output = prod(q.shape[:-1]) * v.shape[-1] * q.element_bytes
    return float((2 if is_backward else 1) * (sum(operand.bytes for operand in operands) + output))


def _first_full(tensors: Sequence[_Tensor]) -> _Tensor:
    """The tensor whose type a result has: the first, unless that is a number."""
    return next((tensor for tensor in tensors if tensor.shape), tensors[0])


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def _tensors(called: Operands) -> list[_Tensor]:
    """The operands that are tensors; none where the type of one is not known, as of those in lists."""
    if len(called.types) < len(called.shapes):
        return []
    tensors = []
    for shape, kind in zip(called.shapes, called.types, strict=False):
        if not _is_shape(shape) or (shape and kind not in _ELEMENT_BYTES):
            return []
        if kind in _ELEMENT_BYTES:
            tensors.append(_Tensor(tuple(shape), _ELEMENT_BYTES[kind]))
    return tensors


def _is_shape(shape: Any) -> bool:
    """Whether these are sizes of a tensor that some memory holds."""
    return isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape) and prod(shape) < LARGEST
