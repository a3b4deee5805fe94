"""Matrix products that are too small to keep a device busy: how many there are, and at which rates products run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightline.traces.activity import Pieces
from sightline.traces.breakdown import Breakdown
from sightline.traces.events import Flags, Operands, Trace
from sightline.traces.intervals import own_parts
from sightline.traces.operators.shapes import factors, is_first, rows_of, told

SMALL_NS, _LARGE_NS = 10_000, 50_000
"""Kernels of less are small: filling and draining a device alone takes a few microseconds. From the second on they are
large, so that their rate is what products reach here."""
_OPERATORS = ("matmul", "batched matmul")
_TYPES = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "c10::Float8_e4m3fn": "fp8"}
_KERNELS = (
    ("tf32", re.compile("tf32")),
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
    trains: bool
    """Whether there is a backward pass."""


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
        trains=found[0].trains,
    )


def _of_rank(rank: Breakdown) -> SmallProducts | None:
    edges, counted = rank.steps.edges, rank.steps.counted
    everything = rank.activity.compute
    low, high = edges[counted[0]], edges[counted[-1] + 1]
    inside = (everything.start >= low) & (everything.start < high)
    is_product = np.array([key.work.operator in _OPERATORS for key in rank.keys], bool)[everything.key] & inside
    own = own_parts(everything.start, everything.end)
    length = everything.end - everything.start
    small = is_product & (length < SMALL_NS)
    if not small.any():
        return None
    forward = np.array([key.phase == "forward" for key in rank.keys], bool)[everything.key] & small
    formats = _formats(rank.trace, everything)
    exposed = (own.end - own.start)[small] / len(counted) / 1e9
    flops = everything.flops[small] / len(counted)
    large = is_product & (length >= _LARGE_NS) & (everything.flops > 0)
    rate = everything.flops / np.maximum(length, 1) * 1e9
    rows = rows_of(rank.trace, everything.operator)[forward]
    return SmallProducts(
        count=float(small.sum()) / len(counted),
        exposed_s=float(exposed.sum()),
        known_s=float(exposed[flops > 0].sum()),
        flops=_by(formats[small], flops),
        large_flops_per_s={name: float(rate[large & (formats == name)].max()) for name in set(formats[large].tolist())},
        shortest_s=float(length[small].min()) / 1e9,
        rows=int(np.median(rows[rows >= 0])) if (rows >= 0).any() else -1,
        shared_input=_shared_input(rank.trace, everything, is_product, forward),
        trains=any(key.phase == "backward" for key in rank.keys),
    )


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


def _shared_input(trace: Trace, pieces: Pieces, is_product: Flags, forward: Flags) -> float:
    """Share of forward products that read the first matrix of the product right before them, as far as shapes tell."""
    numbers: dict[tuple[int, ...], int] = {}
    first = told(trace, pieces.operator, lambda *of: numbers.setdefault(_first_matrix(*of), len(numbers) + 1), 0)
    follows = is_product[1:] & is_product[:-1] & forward[1:] & is_first(pieces.operator)[1:]
    same = follows & (first[1:] == first[:-1]) & (first[1:] > 0)
    return float(same.sum()) / max(int(forward.sum()), 1)


def _first_matrix(name: str, called: Operands) -> tuple[int, ...]:
    both = factors(name, called)
    return tuple(both[0]) if both else ()
