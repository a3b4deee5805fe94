"""What attention costs where few queries meet a long cache of keys and values: decoding, speculation.

A tile is the queries of the heads that share keys and values, over one split of a sequence's context (flash-decoding).
Symbols: ``b`` sequences, ``a`` heads, ``d`` and ``dv`` dimensions of key and value, ``q`` queries per sequence, ``ctx``
tokens seen. Sources: Flash-Decoding (Dao et al., 2023), FlashInfer (arXiv 2501.01005), FlashMLA.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sightline.cost.attention.constants import DecodeAttentionConstants, decode_constants, vector_attention
from sightline.cost.device_model import DeviceModel
from sightline.cost.operator_cost import Alike, OperatorCost, Ranks
from sightline.program import CachedAttention
from sightline.quantities import Number, anywhere, either, larger, rounded_up, smaller
from sightline.scenario import Device

L2_EDGE = 8.0
"""Steepness of the change from L2 to device memory as the cache outgrows the L2."""


def decode_attention_cost(
    x: CachedAttention, device: Device, constants: DecodeAttentionConstants, *, in_l2: Any = False
) -> OperatorCost:
    """Seconds of one attention of ``query_tokens`` new tokens per sequence over ``context_tokens`` tokens of cache.

    The compute leg is ``2 b a q ctx (d + dv)`` FLOPs over the peak; the memory leg reads the cache, ``kv_bytes`` per
    element, once and moves query and output. ``shared_kv``: one latent of ``head_dim`` serves as key and value (absorbed
    multi-latent attention). ``window``: tokens that a sliding window sees. ``in_l2``: the execution before has left in
    L2 what fits there, as in a benchmark that repeats one layer; in a model other layers have overwritten it.
    ``heads_apart``: a tile serves one query head though heads share keys and values, which come from L2 all but once.

    The kernel takes rounds of tiles at a fixed time each, reads no faster per tile than a compute unit can, computes
    whole blocks of rows, and joins the splits of a context; these hide each other in part.

    Left out: pages of the cache (gathered at full speed), sequences of unequal length, a prefix read once for many.
    """
    c, peak = constants, device.peak_flops[x.dtype]
    b, a, q, widths = x.batch, x.heads, x.query_tokens, x.head_dim + x.value_dim
    compute_s = 2 * b * a * q * x.reach * widths / peak
    cache = b * x.reach * x.kv_heads * x.width * x.cache_bytes
    held = in_l2 * larger(1 / (1 + (cache / (c.l2_share * device.l2_bytes)) ** L2_EDGE), c.repeated_share)
    memory_s = (cache * (1 - held) + 2.0 * b * a * q * widths) / device.memory_bandwidth
    head_by_head = replace(x, kv_heads=a) if x.heads_apart or c.ungrouped is not None else x
    time_s = _kernel_time(head_by_head if x.heads_apart else x, memory_s, device, c)
    alone = (a == x.kv_heads) | (a > c.largest_group * x.kv_heads)
    if c.ungrouped is not None and anywhere(alone):
        time_s = either(alone, _kernel_time(head_by_head, memory_s, device, c.ungrouped), time_s)
    return OperatorCost(larger(time_s, larger(compute_s, memory_s)), compute_s, memory_s)


def _kernel_time(x: CachedAttention, memory_s: Number, device: Device, c: DecodeAttentionConstants) -> Number:
    """Seconds of a kernel whose tiles serve the heads of a group; what is read comes again for every block of rows."""
    units, ctx = device.compute_units, x.reach
    rows = rounded_up(x.heads / x.kv_heads * x.query_tokens, c.row_granule)
    whole = x.batch * x.kv_heads * rounded_up(rows / c.row_block)
    splits = smaller(larger(c.split_tiles * units / whole, 1), larger(c.split_sequences / x.batch, 1))
    splits = smaller(smaller(splits, c.most_splits), larger(ctx / c.split_tokens, 1))
    tiles = whole * splits
    rounds = rounded_up(tiles / (units * c.tiles_per_unit) - 1e-9)

    elements = rounded_up(ctx / splits, c.context_block) * x.width * either(x.cache_bytes < 2, c.fp8_cache_time, 1.0)
    slower = larger(x.head_dim * x.cache_bytes / c.comfortable_bytes, 1.0) ** c.wide_head_exponent
    unit_bandwidth = c.unit_share * device.memory_bandwidth / units if c.unit_bandwidth is None else c.unit_bandwidth
    unit_s = rounds * (c.tile_bytes + 2 * elements) / unit_bandwidth * slower
    read = whole * ctx * x.width * x.cache_bytes
    stream_s = larger(memory_s / c.memory_fraction, read / (device.l2_bandwidth * c.l2_fraction))
    flops = 2 * x.batch * x.kv_heads * rows * ctx * (x.head_dim + x.value_dim)
    arithmetic_s = flops * units / (smaller(tiles, units) * c.compute_fraction * device.peak_flops[x.dtype])

    work_s = (unit_s**c.overlap + stream_s**c.overlap + arithmetic_s**c.overlap) ** (1 / c.overlap)
    time_s: Number = work_s + c.split_s * np.log2(splits) + c.sequence_s * x.batch + c.latency_s
    return time_s if c.surface is None else time_s * c.surface.factor(x)


def price_decode(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention of few new tokens over cached and new ones."""
    first, model = alike.first, on.device_model
    constants = model.constants(_of_device, first.heads_apart, first.shared_kv)
    return decode_attention_cost(alike.together, model.device, constants)


def _of_device(model: DeviceModel, heads_apart: bool, shared_kv: bool) -> DecodeAttentionConstants:
    device = model.device
    if heads_apart:
        return vector_attention(device.vector_flops / device.compute_units)
    return decode_constants(device, "mla-decode" if shared_kv else "decode")
