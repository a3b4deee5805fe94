"""What attention costs where few queries meet a long cache of keys and values: decoding, speculation.

A tile is the queries of the heads that share keys and values, over one split of a sequence's context (flash-decoding).
Symbols: ``b`` sequences, ``a`` and ``kv`` heads, ``d`` and ``dv`` dimensions of key and value, ``q`` queries per
sequence, ``ctx`` tokens seen. Sources: Flash-Decoding (Dao et al., 2023), FlashInfer (arXiv 2501.01005), FlashMLA.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from sightline.catalog import entry
from sightline.cost.attention.constants import with_surface
from sightline.cost.families import Stated, stated_values
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.residual_surface import AttentionSurface
from sightline.quantities import Number, anywhere, either, larger, plain, rounded_up, smaller
from sightline.scenario import Device

DecodeKind = Literal["mha", "mla"]
"""Kernel of a cache of keys and values per head, or of one latent that all heads share."""
PARTS = {"mha": "decode_attention", "mla": "latent_decode_attention"}
"""The calibration part of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAttentionConstants(Stated):
    """One set per device family and kernel kind; the catalog's calibration entry holds source and residuals."""

    memory_fraction: float
    """Share of the datasheet's memory bandwidth that reading the cache reaches."""
    l2_fraction: float
    """Share of the datasheet's L2 bandwidth that reading a cache held there reaches."""
    l2_share: float
    """Cache of this share of the L2 is half held there from one execution of a benchmark to the next."""
    compute_fraction: float
    """Share of the datasheet's FLOP/s that the matmuls reach."""
    row_block: float
    """Rows of a tile: queries of the heads that share keys and values."""
    row_granule: float
    """Rows of a tile's matmuls come in multiples of this."""
    context_block: float
    """Context tokens of a step; a tile works through whole ones."""
    tiles_per_unit: float
    """Tiles that a compute unit works on at once."""
    tile_bytes: float
    """Fixed time of a round of tiles, as the bytes of a 16-bit cache that a tile works through in it."""
    split_tiles: float
    """The context is split until there are this many tiles per compute unit."""
    split_sequences: float
    """The context is split no further than until sequences times splits reach this."""
    most_splits: float
    """No context is split into more."""
    split_tokens: float
    """No split is shorter than this."""
    split_s: Number
    """Time that joining the splits adds, for each doubling of their number."""
    sequence_s: Number
    """Time per sequence: planning the tiles."""
    overlap: float
    """How well tiles, memory and arithmetic hide each other: exponent of the sum of their powers, 1 for not at all."""
    latency_s: Number
    """Fixed time of the kernels."""
    unit_share: float = 0.0
    """Rate at which one tile works through a 16-bit cache, over its compute unit's share of the memory's bandwidth."""
    unit_bandwidth: Number | None = None
    """The same in bytes per second, of a kernel that is bound by its compute unit instead."""
    fp8_cache_time: float = 1.0
    """A tile's time for keys and values of 8 bits over that for as many of 16."""
    comfortable_bytes: float = 256.0
    """Widest key of a head, in bytes, that a tile holds without waiting."""
    wide_head_exponent: float = 0.0
    """A tile's time grows by (bytes of a key / comfortable ones) to this power beyond it."""
    repeated_share: float = 0.0
    """Share of the cache that came from L2 in the measurements whatever its size: a benchmark that reads pages twice."""
    largest_group: float = 1e9
    """Heads that share keys and values which one tile can serve; larger groups take the ungrouped kernel."""
    ungrouped: "DecodeAttentionConstants | None" = None
    """The kernel of heads with keys and values of their own, where it is another; its tiles serve one head."""
    surface: AttentionSurface | None = None
    """What an engine's choice of kernels adds, over tiles before splitting, context and what a key takes."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The constants out of a calibration entry; other keys are left alone."""
        values = with_surface(stated_values(cls, mapping))
        if values.get("ungrouped") is not None:
            values["ungrouped"] = cls.from_mapping(
                {**mapping, "ungrouped": None, "surface": None, **mapping["ungrouped"]}
            )
        return cls(**values)


VECTOR_FAMILY = "a100-sxm"
"""The family whose kernel of heads with keys and values of their own is known to compute on vector units."""
VECTOR_FLOPS_PER_UNIT = 19.5e12 / 108
"""Vector FLOP/s of one of its compute units, which bound what a tile works through."""


def vector_attention(vector_flops_per_unit: Number) -> DecodeAttentionConstants:
    """The constants of a kernel on vector units where a compute unit has so many FLOP/s; all else is as measured.

    Except for L2, of which reading every cache once shows nothing: heads that share one read it there at its full rate.
    """
    measured = load_decode_attention(VECTOR_FAMILY).ungrouped
    if measured is None or measured.unit_bandwidth is None:
        raise ValueError(f"{VECTOR_FAMILY} has no kernel of heads with keys and values of their own")
    rate = measured.unit_bandwidth * vector_flops_per_unit / VECTOR_FLOPS_PER_UNIT
    return replace(measured, unit_bandwidth=rate, l2_fraction=1.0)


@cache
def load_decode_attention(family: str, kind: DecodeKind = "mha") -> DecodeAttentionConstants:
    """The constants of a serving engine's decode kernel in a calibration family."""
    return DecodeAttentionConstants.from_mapping(entry("calibrations", f"{family}/{PARTS[kind]}")["constants"])


L2_EDGE = 8.0
"""Steepness of the change from L2 to device memory as the cache outgrows the L2."""


class _Shape(NamedTuple):
    """Sizes by the symbols above, elements per token of a head's keys and values, bytes of the cache, memory leg."""

    b: Number
    a: Number
    kv: Number
    q: Number
    ctx: Number
    d: Number
    dv: Number
    width: Number
    kv_bytes: Number
    cache: Number
    memory_s: Number


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
    heads_apart: bool = False,
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
    c = constants
    b, a, kv, d, q, sk = map(plain, (batch, heads, kv_heads, head_dim, query_tokens, context_tokens))
    dv = d if value_dim is None else plain(value_dim)
    ctx = sk if window is None else smaller(sk, window)
    width = d if shared_kv else d + dv

    peak, cache = device.peak_flops[dtype], b * kv * ctx * width * kv_bytes
    compute_s = 2 * b * a * q * ctx * (d + dv) / peak
    held = in_l2 * larger(1 / (1 + (cache / (c.l2_share * device.l2_bytes)) ** L2_EDGE), c.repeated_share)
    memory_s = (cache * (1 - held) + 2.0 * b * a * q * (d + dv)) / device.memory_bandwidth
    shape = _Shape(b, a, kv, q, ctx, d, dv, width, kv_bytes, cache, memory_s)
    time_s = _kernel_time(shape._replace(kv=a) if heads_apart else shape, peak, device, c)
    alone = (a == kv) | (a > c.largest_group * kv)
    if c.ungrouped is not None and anywhere(alone):
        alone_s = _kernel_time(shape._replace(kv=a), peak, device, c.ungrouped)
        time_s = either(alone, alone_s, time_s)
    return OperatorCost(larger(time_s, larger(compute_s, memory_s)), compute_s, memory_s)


def _kernel_time(x: _Shape, peak: Number, device: Device, c: DecodeAttentionConstants) -> Number:
    """Seconds of a kernel whose tiles serve the ``a / kv`` heads of a group; read again by every block of rows."""
    units = device.compute_units
    rows = rounded_up(x.a / x.kv * x.q / c.row_granule) * c.row_granule
    blocks = rounded_up(rows / c.row_block)
    whole = x.b * x.kv * blocks
    splits = smaller(larger(c.split_tiles * units / whole, 1), larger(c.split_sequences / x.b, 1))
    splits = smaller(smaller(splits, c.most_splits), larger(x.ctx / c.split_tokens, 1))
    tiles = whole * splits
    rounds = rounded_up(tiles / (units * c.tiles_per_unit) - 1e-9)

    steps = rounded_up(x.ctx / splits / c.context_block) * c.context_block
    elements = steps * x.width * either(x.kv_bytes < 2, c.fp8_cache_time, 1.0)
    wide = larger(x.d * x.kv_bytes / c.comfortable_bytes, 1.0) ** c.wide_head_exponent
    unit_bandwidth = c.unit_share * device.memory_bandwidth / units if c.unit_bandwidth is None else c.unit_bandwidth
    unit_s = rounds * (c.tile_bytes + 2 * elements) / unit_bandwidth * wide
    read = whole * x.ctx * x.width * x.kv_bytes
    stream_s = larger(x.memory_s / c.memory_fraction, read / (device.l2_bandwidth * c.l2_fraction))
    flops = 2 * x.b * x.kv * rows * x.ctx * (x.d + x.dv)
    arithmetic_s = flops * units / (smaller(tiles, units) * c.compute_fraction * peak)

    work_s = (unit_s**c.overlap + stream_s**c.overlap + arithmetic_s**c.overlap) ** (1 / c.overlap)
    time_s: Number = work_s + c.split_s * np.log2(splits) + c.sequence_s * x.b + c.latency_s
    if c.surface is not None:
        sizes = {
            "tiles": x.b * x.kv,
            "context": x.ctx,
            "kv_heads": x.kv,
            "group": x.a / x.kv * x.q,
            "key_bytes": x.d * x.kv_bytes,
            "head_dim": x.d,
            "kv_bytes": x.kv_bytes,
        }
        time_s = time_s * c.surface.factor(sizes)
    return time_s
