"""What a fused (flash-style) attention kernel costs: its scores never leave the compute unit.

A tile is a block of queries of one head; it walks along the context in steps. Symbols: ``b`` sequences, ``a`` heads,
``d`` head dimension, ``sq, sk`` query and context tokens. Sources: FlashAttention (arXiv 2205.14135),
FlashAttention-2 (2307.08691), FlashAttention-3 (2407.08608).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.cost.attention_constants import AttentionConstants, load_attention
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device

__all__ = ["AttentionConstants", "attention_cost", "load_attention"]

BACKWARD_PRODUCTS = 2.5
"""Five matmuls for the forward pass's two: the scores are computed again (arXiv 2307.08691, section 3.1.2)."""

Array = NDArray[np.float64]


def _busy_time(tiles: Array, mean_s: Array, longest_s: Array, units: Number) -> Array:
    """Seconds until all tiles are done: whole waves of mean tiles, or the longest tile where there are few.

    Tiles of a causal pass differ in length and fill each other's gaps, so only equal ones pay for whole waves.
    """
    waves = tiles / units
    whole = np.ceil(waves - 1e-9)
    return np.maximum(np.where(longest_s > mean_s, waves, whole) * mean_s, longest_s)


def attention_cost(
    batch: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    query_tokens: Number,
    context_tokens: Number,
    *,
    causal: Any,
    backward: Any,
    dtype: str,
    device: Device,
    constants: AttentionConstants,
) -> OperatorCost:
    """Seconds of one attention pass, forward or (``backward``) for the gradients of query, key and value.

    The compute leg is ``4 b a sq sk d`` FLOPs over the peak, with ``causal`` counting only scores that are seen, and 2.5
    times that backward; the memory leg moves query, key, value and output (and backward their gradients) once. The
    kernel pays whole query blocks, context blocks on the diagonal in full, padded heads, the softmax that matmuls do not
    hide, and whole waves of tiles, and is never faster than either leg.

    Left out: key and value blocks read again by other query blocks (they come from L2), dropout, splitting the context
    of a single query (decoding).
    """
    c = constants
    b, a, kv, d, sq, sk = (
        np.asarray(x, dtype=float) for x in (batch, heads, kv_heads, head_dim, query_tokens, context_tokens)
    )
    causal, backward = np.asarray(causal, dtype=bool), np.asarray(backward, dtype=bool)
    products = np.where(backward, BACKWARD_PRODUCTS, 1.0)
    peak, element_bytes = device.peak_flops[dtype], 4.0 if dtype in {"fp32", "tf32"} else 2.0

    seen = np.where(causal, sk - (np.minimum(sq, sk) - 1) / 2, sk)
    compute_s = products * 4 * b * a * sq * seen * d / peak
    tensors = np.where(backward, 4.0, 2.0) * (b * a * sq + b * kv * sk) * d
    memory_s = tensors * element_bytes / device.memory_bandwidth

    padded = np.ceil(d / c.head_granule) * c.head_granule
    width = np.maximum(padded / c.comfortable_head, 1.0) ** c.wide_head_exponent
    rate = peak * np.where(backward, c.backward_fraction, c.peak_fraction)
    score_s = (products * 4 * padded * width / rate + c.softmax_flops / device.vector_flops) * device.compute_units
    score_s = score_s * np.where(causal, c.causal_slowdown, 1.0)
    steps = np.where(causal, np.minimum(seen + (c.query_block + c.context_block) / 2, sk), sk)
    tile_s, longest_s = (c.query_block * (x + c.tile_overhead) * score_s for x in (steps, sk))
    kernel_s = _busy_time(np.ceil(sq / c.query_block) * b * a, tile_s, longest_s, device.compute_units)

    time_s = np.maximum(np.maximum(kernel_s, memory_s / c.memory_fraction), compute_s) + c.latency_s
    return OperatorCost(time_s, compute_s, memory_s)
