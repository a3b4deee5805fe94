"""Bytes that operators read and write, by the shapes and types that the profiler recorded.

Counted as our programs count them: every operand once and the result once, whatever a kernel reads again. Results are
not recorded, so only operators are known whose operands tell the result; of all others nothing is said (NaN).
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.traces.events import Integers, Kind, Operands, Trace
from sightline.traces.operators.names import work_of
from sightline.traces.operators.nesting import Nesting, outermost
from sightline.traces.operators.shapes import LARGEST, factors, is_first, told

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
    found = told(trace, operator, _traffic, _UNKNOWN)
    found = np.where(is_first(operator) | (operator < 0), found, 0.0)
    size, kind = trace.events.size[kernel], trace.events.kind[kernel]
    for one, times in _COPIES.items():
        found = np.where((kind == one) & (size >= 0) & ~np.isfinite(found), times * size, found)
    return found


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
        return float(sum(one.bytes for one in tensors))
    if plain in _WRITES:
        return float(tensors[0].bytes)
    shape = _result(name, plain, work, called, tensors)
    if shape is None:
        return _UNKNOWN
    kept = 1 if plain in _COMPARES else _first_full(tensors).element_bytes
    mask = prod(shape) if plain == "native_dropout" else 0
    return float(sum(one.bytes for one in tensors) + prod(shape) * kept + mask)


def _result(name: str, plain: str, work: str, called: Operands, tensors: Sequence[_Tensor]) -> tuple[int, ...] | None:
    """The shape of what an operator writes."""
    if both := factors(name, called):
        # Products of 8-bit operands write what another argument says.
        return (*both[0][:-1], both[1][-1]) if plain != "_scaled_mm" else None
    if plain in _ALONG or work in _LIKE_OPERANDS or plain.startswith("native_dropout"):
        return _broadcast([one.shape for one in tensors])
    if work == "norm":
        return max((one.shape for one in tensors), key=prod)
    return None


def _attention(name: str, tensors: Sequence[_Tensor]) -> float:
    """Queries, keys, values and output once; the backward pass, which has the gradient first, twice."""
    is_backward = "backward" in name.lower()
    operands = [one for one in tensors if len(one.shape) >= 3][is_backward:][:3]
    if len(operands) < 3:
        return _UNKNOWN
    q, _, v = operands
    output = prod(q.shape[:-1]) * v.shape[-1] * q.element_bytes
    return float((2 if is_backward else 1) * (sum(one.bytes for one in operands) + output))


def _first_full(tensors: Sequence[_Tensor]) -> _Tensor:
    """The tensor whose type a result has: the first, unless that is a number."""
    return next((one for one in tensors if one.shape), tensors[0])


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def _tensors(called: Operands) -> list[_Tensor]:
    """The operands that are tensors; none where the type of one is not known, as of those in lists."""
    if len(called.types) < len(called.shapes):
        return []
    found = []
    for shape, kind in zip(called.shapes, called.types, strict=False):
        if not _is_shape(shape) or (shape and kind not in _ELEMENT_BYTES):
            return []
        if kind in _ELEMENT_BYTES:
            found.append(_Tensor(tuple(shape), _ELEMENT_BYTES[kind]))
    return found


def _is_shape(shape: Any) -> bool:
    """Whether these are sizes of a tensor that some memory holds."""
    return isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape) and prod(shape) < LARGEST
