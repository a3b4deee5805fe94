"""What is remarkable in a step: slow collectives, uneven steps, small products."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.traces.activity import Pieces
from sightline.traces.breakdown import Breakdown
from sightline.traces.events import Flags, Integers, Operands, Trace, own_parts
from sightline.traces.shapes import factors, rows_of, told


def share_in_forward(ranks: Sequence[Breakdown]) -> float:
    """Return the share of all-reduces' time that is of those with more of the forward pass behind them.

    Without a device it is 0: there a thread of its own begins a collective at some later time than it was called.
    """
    parts = np.sum([_reductions_of_rank(rank) for rank in ranks if rank.trace.has_device] or [(0.0, 0.0)], axis=0)
    return float(parts[0] / parts[1]) if parts[1] else 0.0


def _reductions_of_rank(rank: Breakdown) -> tuple[float, float]:
    """Nanoseconds of all-reduces that are followed by a kernel of the forward pass, and of all."""
    talk, compute = rank.activity.communication, rank.activity.compute
    reduces = np.array([key.work.operator == "all-reduce" for key in rank.keys], bool)
    chosen = talk.where(reduces[talk.key]) if len(talk) else talk
    if not len(chosen) or not len(compute):
        return 0.0, 0.0
    is_forward = np.array([key.phase == "forward" for key in rank.keys], bool)[compute.key]
    order = np.argsort(compute.launch_start, kind="stable")
    place = np.searchsorted(compute.launch_start[order], chosen.launch_start, side="right")
    follows = (place < len(order)) & is_forward[order[np.minimum(place, len(order) - 1)]]
    length = (chosen.end - chosen.start).astype(np.float64)
    return float(length[follows].sum()), float(length.sum())


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
    products = [one for rank in ranks if rank.trace.has_device and (one := _products_of_rank(rank)) is not None]
    if not products:
        return None
    formats = {name for product in products for name in product.flops}
    rates = {name for product in products for name in product.large_flops_per_s}
    return SmallProducts(
        count=sum(product.count for product in products) / len(ranks),
        exposed_s=sum(product.exposed_s for product in products) / len(ranks),
        known_s=sum(product.known_s for product in products) / len(ranks),
        flops={name: sum(product.flops.get(name, 0.0) for product in products) / len(ranks) for name in formats},
        large_flops_per_s={
            name: max(product.large_flops_per_s.get(name, 0.0) for product in products) for name in rates
        },
        shortest_s=min(product.shortest_s for product in products),
        rows=products[0].rows,
        shared_input=products[0].shared_input,
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


def _products_of_rank(rank: Breakdown) -> SmallProducts | None:
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
    of_kernel = [next((name for name, form in _KERNELS if form.search(kernel)), "") for kernel in trace.names]
    by_kernel = np.array([*of_kernel, ""], object)[pieces.name]
    by_type = told(trace, pieces.operator, lambda _, called: _type(called), -1)
    names = np.array([*_TYPES.values(), ""], object)[by_type]
    return np.where((by_type >= 0) & (by_kernel != "tf32"), names, by_kernel)


def _type(called: Operands) -> int:
    known = [word for word in called.types if word in _TYPES]
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


_FAR = 5
"""Times the median of its kind and size from which on a collective is slow."""
_LEAST = 0.02
"""Share of the step that slow collectives have to take."""
_SLOW_LINK, _START_NS = 5.0, 200_000
"""Bytes per nanosecond (5 GB/s, half of 100 Gbit/s Ethernet) and nanoseconds that suffice for nearly any collective."""
_ELEMENT_BYTES, _ALGORITHM = 4, 2
"""At most: of 32-bit numbers, all-reduced in a ring."""


class SlowCollective(NamedTuple):
    """The one that costs most."""

    kind: str
    """all-reduce, all-gather, ..."""
    found: int
    """How many of these there are in all steps that count."""
    each_ns: float
    usual_ns: float
    """The median of its kind and size; 0 where there are no others to compare with and its bytes are what is known."""
    size: int
    """Elements; -1 unknown."""
    extra_ns: float
    """What they take longer than usual, of a mean step."""


def slow_collective(ranks: Sequence[Breakdown]) -> SlowCollective | None:
    """Return the slow collectives that cost most, of one kind and size on one rank; None where none is slow."""
    slow = [collective for rank in ranks for collective in _slow_of_rank(rank)]
    return max(slow, key=lambda collective: collective.extra_ns, default=None)


def _slow_of_rank(rank: Breakdown) -> list[SlowCollective]:
    pieces, slow = rank.activity.communication, []
    pieces = pieces.where(rank.steps.holds(pieces.start))
    kinds = np.array([key.work.operator for key in rank.activity.keys], object)[pieces.key]
    # Slow transfers are waits for other stages, or counted as what nobody knows the cause of.
    for kind in sorted(set(kinds.tolist()) - {"send-recv"}):
        for size in np.unique(pieces.size[kinds == kind]).tolist():
            own = (kinds == kind) & (pieces.size == size)
            length = (pieces.end - pieces.start)[own].astype(np.float64)
            median = float(np.median(length))
            is_slow, usual = length > _FAR * median, median
            if not is_slow.any() and size >= 0:
                enough = _START_NS + _ALGORITHM * _ELEMENT_BYTES * size / _SLOW_LINK
                is_slow, usual = length > _FAR * enough, 0.0
            extra = float((length[is_slow] - usual).sum()) / len(rank.steps.counted)
            if extra > _LEAST * rank.whole_ns:
                slow.append(
                    SlowCollective(kind, int(is_slow.sum()), float(length[is_slow].mean()), usual, int(size), extra)
                )
    return slow


_LEAST_STEPS = 3
"""Of two steps nobody knows which is the usual one."""
_LONGER = 1.3
"""Over the median step: from here on a step is a long one."""


class LongSteps(NamedTuple):
    """The long steps of a rank next to its usual ones, in nanoseconds."""

    steps: int
    of: int
    long_ns: float
    """The mean long step."""
    usual_ns: float
    """The mean of the others."""
    extra_ns: float
    """What the long steps add to the mean step."""
    reasons_ns: NDArray[np.float64]
    """The same by `Reason`; some may be negative."""
    call: str
    """What the host does longest in the waits of long steps; empty if nothing long is known."""


def long_steps(ranks: Sequence[Breakdown]) -> LongSteps | None:
    """Return the long steps of the rank whose long steps add most; None where no step is long."""
    uneven = [one for rank in ranks if (one := _uneven_of_rank(rank)) is not None]
    return max(uneven, key=lambda steps: steps.extra_ns, default=None)


def _uneven_of_rank(rank: Breakdown) -> LongSteps | None:
    places = rank.steps.counted
    lengths = rank.steps.lengths[places].astype(np.float64)
    is_long = lengths > _LONGER * np.median(lengths)
    if not rank.steps.are_named or len(places) < _LEAST_STEPS or not is_long.any():
        return None
    by_reason, share = rank.by_step[places], float(is_long.mean())
    apart = by_reason[is_long].mean(axis=0) - by_reason[~is_long].mean(axis=0)
    long_ns, usual_ns = float(lengths[is_long].mean()), float(lengths[~is_long].mean())
    return LongSteps(
        steps=int(is_long.sum()),
        of=len(places),
        long_ns=long_ns,
        usual_ns=usual_ns,
        extra_ns=share * (long_ns - usual_ns),
        reasons_ns=share * apart,
        call=max(rank.slow_calls, key=lambda name: rank.slow_calls[name], default=""),
    )
