"""What DeepSeek V3.2's sparse attention costs: an indexer scores every cached token, attention reads the chosen ones.

Source of the operators: DeepSeek-V3.2-Exp, technical report; kernels: DeepGEMM's fp8 MQA logits, FlashMLA's sparse ones.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.cost.families import Stated
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseConstants(Stated):
    """One set per device family."""

    index_peak_fraction: float
    """Share of the datasheet's FLOP/s that the indexer's products reach."""
    index_memory_fraction: float
    """Share of the memory bandwidth at which decoding reads the indexer's keys."""
    prefill_peak_fraction: float
    """Share of the FLOP/s that attention over selected tokens reaches over many queries."""
    decode_peak_fraction: float
    """The same over few queries, whose cached tokens are converted from fp8."""
    latency_s: float
    """Fixed time of a kernel."""


@cache
def load_sparse(calibration: str) -> SparseConstants:
    """The constants of sparse attention in the catalog's calibration of that name."""
    return SparseConstants.from_mapping(entry("calibrations", f"{calibration}/sparse")["constants"])


SCORE_BYTES = 4.0
OVERLAP = 4.0
"""Exponent of the norm in which arithmetic and traffic, which overlap, add up."""


def indexer_cost(
    sequences: Number,
    new_tokens: Number,
    context_tokens: Number,
    heads: Number,
    head_dim: Number,
    *,
    backward: Any = False,
    dtype: str,
    key_bytes: Number,
    device: Device,
    constants: SparseConstants,
) -> OperatorCost:
    """Seconds to score the ``context_tokens`` (the new ones included) that each new token sees, summed over ``heads``.

    The compute leg is ``2 heads head_dim`` FLOPs per pair of tokens; the memory leg reads the indexer's keys, one head
    for all, with ``key_bytes`` per element, and the queries, and writes an fp32 score per pair. ``backward`` makes the
    gradients of queries and keys from as many selected tokens, whose scores it makes again: three products. Left out: the
    choice of the best scores, an element-wise kernel.
    """
    c = constants
    b, q, k = (np.asarray(x, dtype=float) for x in (sequences, new_tokens, context_tokens))
    pairs = b * q * np.where(backward, k, k - (np.minimum(q, k) - 1) / 2)
    compute_s = np.where(backward, 6, 2) * heads * head_dim * pairs / device.peak_flops[dtype]
    operands = np.where(backward, 2.0, 1.0) * b * (k + q * heads) * head_dim * key_bytes
    memory_s = (operands + SCORE_BYTES * pairs) / device.memory_bandwidth
    legs = (compute_s / c.index_peak_fraction) ** OVERLAP + (memory_s / c.index_memory_fraction) ** OVERLAP
    return OperatorCost(legs ** (1 / OVERLAP) + c.latency_s, compute_s, memory_s)


def sparse_attention_cost(
    sequences: Number,
    new_tokens: Number,
    context_tokens: Number,
    selected_tokens: Number,
    heads: Number,
    key_dim: Number,
    value_dim: Number,
    *,
    decode: Any,
    backward: Any = False,
    dtype: str,
    element_bytes: Number,
    cache_bytes: Number,
    device: Device,
    constants: SparseConstants,
) -> OperatorCost:
    """Seconds of latent attention of each new token over the ``selected_tokens`` that its indexer chose.

    The compute leg is ``2 heads (key_dim + value_dim)`` FLOPs per query and token that it reads; the memory leg moves
    queries and outputs and every cached latent that any query may read, once. The kernel works on all slots, also those
    that a short context leaves empty, and gathers the latents of many queries from L2. A ``backward`` pass has five
    products for two (the scores again) and adds every query's share of the latents' gradients to fp32 sums in L2.
    """
    c = constants
    b, q, k = (np.asarray(x, dtype=float) for x in (sequences, new_tokens, context_tokens))
    tokens, latent = b * q, key_dim * cache_bytes
    width = np.where(backward, 3 * key_dim + 2 * value_dim, key_dim + value_dim)
    flops = 2 * heads * width * tokens
    compute_s = flops * np.minimum(selected_tokens, k) / device.peak_flops[dtype]
    read = b * np.minimum(q * np.minimum(selected_tokens, k), k) * latent
    once = read + tokens * heads * (key_dim + value_dim) * element_bytes
    memory_s = np.where(backward, 2.0, 1.0) * once / device.memory_bandwidth

    fraction = np.where(decode, c.decode_peak_fraction, c.prefill_peak_fraction)
    kernel_s = flops * selected_tokens / device.peak_flops[dtype] / fraction
    summed = np.where(backward, 2 * SCORE_BYTES * key_dim, 0.0)
    gather_s = tokens * selected_tokens * (latent + summed) / device.l2_bandwidth
    time_s = np.maximum(np.maximum(kernel_s, gather_s), memory_s / c.index_memory_fraction) + c.latency_s
    return OperatorCost(time_s, compute_s, memory_s)
