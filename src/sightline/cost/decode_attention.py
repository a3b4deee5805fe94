"""What attention costs where few queries meet a long cache of keys and values: decoding, speculation.

A tile is the queries of the heads that share keys and values, over one split of a sequence's context (flash-decoding).
Symbols: ``b`` sequences, ``a`` and ``kv`` heads, ``d`` and ``dv`` dimensions of key and value, ``q`` queries per
sequence, ``ctx`` tokens seen. Sources: Flash-Decoding (Dao et al., 2023), FlashInfer (arXiv 2501.01005), FlashMLA.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.cost.decode_attention_constants import DecodeAttentionConstants, load_decode_attention
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device

__all__ = ["DecodeAttentionConstants", "decode_attention_cost", "load_decode_attention"]

Array = NDArray[np.float64]

STREAM_OVERLAP = 4.0
"""Exponent that joins the device's and the busiest unit's time of reading: the longer of the two, without an edge."""
L2_EDGE = 4.0
"""Steepness of the change from L2 to device memory as the cache outgrows the L2."""


def decode_attention_cost(
    batch: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    query_tokens: Number,
    context_tokens: Number,
    *,
    value_dim: Number | None = None,
    shared_kv: bool = False,
    kv_bytes: Number,
    dtype: str,
    device: Device,
    constants: DecodeAttentionConstants,
    window: Number | None = None,
    in_l2: Any = False,
) -> OperatorCost:
    """Seconds of one attention of ``query_tokens`` new tokens per sequence over ``context_tokens`` tokens of cache.

    The compute leg is ``2 b a q ctx (d + dv)`` FLOPs over the peak; the memory leg reads the cache, ``kv_bytes`` per
    element, once and moves query and output. ``shared_kv``: one latent of ``head_dim`` serves as key and value (absorbed
    multi-latent attention). ``window``: tokens that a sliding window sees. ``in_l2``: the execution before has left in
    L2 what fits there, as in a benchmark that repeats one layer; in a model other layers have overwritten it.

    The kernel takes rounds of tiles at a fixed time each, reads no faster per tile than a compute unit can, computes
    whole blocks of rows, and joins the splits of a context; these hide each other in part.

    Left out: pages of the cache (gathered at full speed), sequences of unequal length, a prefix read once for many.
    """
    c = constants
    b, a, kv, d, q, sk = (
        np.asarray(x, dtype=float) for x in (batch, heads, kv_heads, head_dim, query_tokens, context_tokens)
    )
    dv = d if value_dim is None else np.asarray(value_dim, dtype=float)
    ctx = sk if window is None else np.minimum(sk, window)
    units, bandwidth = device.compute_units, device.memory_bandwidth

    group = a / kv * q
    compute_s = 2 * b * a * q * ctx * (d + dv) / device.peak_flops[dtype]
    cache = b * kv * ctx * (d if shared_kv else d + dv) * kv_bytes
    moved = 2.0 * b * a * q * (d + dv)
    held = in_l2 / (1 + (cache / (c.l2_share * device.l2_bytes)) ** L2_EDGE)
    memory_s = (cache * (1 - held) + moved) / bandwidth

    alone = group > c.largest_group * q
    blocks = np.ceil(group / c.row_block)
    whole = b * kv * blocks
    splits = np.minimum(np.maximum(c.split_tiles * units / whole, 1), np.maximum(c.split_sequences / b, 1))
    splits = np.minimum(splits, np.maximum(ctx / c.split_tokens, 1))
    tiles = whole * splits
    rounds = np.ceil(tiles / (units * c.tiles_per_unit) - 1e-9)
    busy = np.minimum(tiles, units)

    read = cache * np.where(alone, a / kv, blocks)
    slow = np.where(np.less(kv_bytes, 2), c.fp8_cache_time, 1.0)
    from_l2_s = read / (device.l2_bandwidth * c.l2_fraction)
    from_memory_s = np.maximum(memory_s / c.memory_fraction, from_l2_s)
    unit_s = rounds * read / (tiles * c.unit_bandwidth)
    stream_s = (from_memory_s**STREAM_OVERLAP + unit_s**STREAM_OVERLAP) ** (1 / STREAM_OVERLAP) * slow
    arithmetic_s = (
        2 * whole * c.row_block * ctx * (d + dv) * units / (busy * c.compute_fraction * device.peak_flops[dtype])
    )
    round_s = rounds * c.tile_s
    work_s = (round_s**c.overlap + stream_s**c.overlap + arithmetic_s**c.overlap) ** (1 / c.overlap)
    time_s = work_s + c.split_s * np.log2(splits) + c.latency_s
    if c.surface is not None:
        time_s = time_s * c.surface.factor(group, ctx, whole)
    return OperatorCost(np.maximum(time_s, np.maximum(compute_s, memory_s)), compute_s, memory_s)
