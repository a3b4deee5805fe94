"""Matrix products that are too small to keep a device busy: how many there are, and at which rates products run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.traces.activity import Pieces
from sightline.traces.breakdown import Breakdown
from sightline.traces.events import Flags, Integers, Operands, Trace
from sightline.traces.intervals import own_parts
from sightline.traces.operators.shapes import factors, rows_of, told

SMALL_NS, _LARGE_NS = 10_000, 50_000
"""Products of less are small: filling and draining a device alone takes a few microseconds. From the second on they are
large, so that their rate is what products reach here."""
_OPERATORS = ("matmul", "batched matmul")
_TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "c10::Float8_e4m3fn": "fp8"}
_KERNELS = (
    ("tf32", re.compile("tf32|tensorop_s1688gemm")),
    ("bf16", re.compile("bf16|bfloat16", re.IGNORECASE)),
    ("fp8", re.compile("e4m3|fp8", re.IGNORECASE)),
    ("fp16", re.compile("fp16|f16|half|hgemm|884gemm|s16816gemm", re.IGNORECASE)),
    ("fp32", re.compile("sgemm|f32")),
)
"""Formats that names of kernels say, the first that is found; TF32 is seen nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallProducts:
    """The small products of a mean step, the mean over ranks."""

    count: float
    exposed_s: float
    """What they add to the step."""
    known_s: float
    """The part of it that is of products whose FLOPs are known."""
    flops: Mapping[str, float]
    """By format; an empty name stands for a format that nothing tells."""
    large_flops_per_s: Mapping[str, float]
    """The fastest large product of each format; formats without one are left out."""
    shortest_s: float
    rows: int
    """The median of forward products; -1 unknown."""
    shared_input: float
    """Share of forward products that follow one of the same first matrix, with no kernel between them."""


def small_products(ranks: Sequence[Breakdown]) -> SmallProducts | None:
    """Return the small products of a job; None where there are none, or no device."""
    found = [one for rank in ranks if rank.trace.has_device and (one := _of_rank(rank)) is not None]
    if not found:
        return None
    formats = {name for one in found for name in one.flops}
    rates = {name for one in found for name in one.large_flops_per_s}
    return SmallProducts(
        count=sum(one.count for one in found) / len(ranks),
        exposed_s=sum(one.exposed_s for one in found) / len(ranks),
        known_s=sum(one.known_s for one in found) / len(ranks),
        flops={name: sum(one.flops.get(name, 0.0) for one in found) / len(ranks) for name in formats},
        large_flops_per_s={name: max(one.large_flops_per_s.get(name, 0.0) for one in found) for name in rates},
        shortest_s=min(one.shortest_s for one in found),
        rows=found[0].rows,
        shared_input=found[0].shared_input,
    )


class _Products(NamedTuple):
    """The products of the steps that count, one for all kernels of an operator; columns of shape ``[products]``."""

    length: NDArray[np.float64]
    exposed: NDArray[np.float64]
    flops: NDArray[np.float64]
    main: Integers
    """Place of the longest kernel in the pieces."""
    of: Integers
    """Of each piece the product that it is of, as a place in these columns; -1 of no product."""


def _of_rank(rank: Breakdown) -> SmallProducts | None:
    pieces, steps = rank.activity.compute, len(rank.steps.counted)
    products = _products(rank)
    small = products.length < SMALL_NS
    if not small.any():
        return None
    formats = _formats(rank.trace, pieces)[products.main]
    is_forward = np.array([key.phase == "forward" for key in rank.keys], bool)[pieces.key[products.main]] & small
    known = small & (products.flops > 0)
    large = (products.length >= _LARGE_NS) & (products.flops > 0)
    rate = products.flops / np.maximum(products.length, 1.0) * 1e9
    rows = rows_of(rank.trace, pieces.operator[products.main[is_forward]])
    return SmallProducts(
        count=float(small.sum()) / steps,
        exposed_s=float(products.exposed[small].sum()) / steps / 1e9,
        known_s=float(products.exposed[known].sum()) / steps / 1e9,
        flops=_by(formats[known], products.flops[known] / steps),
        large_flops_per_s={name: float(rate[large & (formats == name)].max()) for name in set(formats[large].tolist())},
        shortest_s=float(products.length[small].min()) / 1e9,
        rows=int(np.median(rows[rows >= 0])) if (rows >= 0).any() else -1,
        shared_input=_shared_input(rank.trace, pieces, products, is_forward),
    )


def _products(rank: Breakdown) -> _Products:
    """Put the kernels of each product together: a fill before it, and a reduction behind it, take time of their own."""
    pieces = rank.activity.compute
    inside = rank.steps.holds(pieces.start)
    places = np.flatnonzero(np.array([key.work.operator in _OPERATORS for key in rank.keys], bool)[pieces.key] & inside)
    own = own_parts(pieces.start, pieces.end)
    length = (pieces.end - pieces.start)[places]
    places = places[order := np.argsort(-length, kind="stable")]
    operator = pieces.operator[places]
    alone = len(rank.trace.events) + np.arange(len(places))
    _, main, which = np.unique(np.where(operator >= 0, operator, alone), return_index=True, return_inverse=True)
    of = np.full(len(pieces), -1)
    of[places] = which = which.reshape(-1)
    return _Products(
        length=_sums(which, length[order]),
        exposed=_sums(which, (own.end - own.start)[places]),
        flops=_sums(which, pieces.flops[places]),
        main=places[main],
        of=of,
    )


def _sums(place: Integers, values: Integers) -> NDArray[np.float64]:
    return np.bincount(place, weights=values).astype(np.float64)


def _by(names: NDArray[np.object_], values: NDArray[np.float64]) -> dict[str, float]:
    return {name: float(values[names == name].sum()) for name in sorted(set(names[values > 0].tolist()))}


def _formats(trace: Trace, pieces: Pieces) -> NDArray[np.object_]:
    """The format of each product: what its kernel's name says of TF32, then its operands, then its kernel's name."""
    of_kernel = [next((name for name, form in _KERNELS if form.search(one)), "") for one in trace.names]
    by_kernel = np.array([*of_kernel, ""], object)[pieces.name]
    by_type = told(trace, pieces.operator, lambda _, called: _type(called), -1)
    names = np.array([*_TYPES.values(), ""], object)[by_type]
    return np.where((by_type >= 0) & (by_kernel != "tf32"), names, by_kernel)


def _type(called: Operands) -> int:
    known = [one for one in called.types if one in _TYPES]
    return list(_TYPES).index(known[-1]) if known else -1


def _shared_input(trace: Trace, pieces: Pieces, products: _Products, is_forward: Flags) -> float:
    """Share of forward products that read the first matrix of the product right before them, as far as shapes tell."""
    numbers: dict[tuple[int, ...], int] = {}
    first = told(trace, pieces.operator, lambda *of: numbers.setdefault(_first_matrix(*of), len(numbers) + 1), 0)
    before, this = products.of[:-1], products.of[1:]
    follows = (this >= 0) & (before >= 0) & (this != before)
    same = follows & is_forward[np.maximum(this, 0)] & (first[1:] == first[:-1]) & (first[1:] > 0)
    return float(same.sum()) / max(int(is_forward.sum()), 1)


def _first_matrix(name: str, called: Operands) -> tuple[int, ...]:
    both = factors(name, called)
    return tuple(both[0]) if both else ()
