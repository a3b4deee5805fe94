"""Softmax attention: fused kernels over many queries, and decoding kernels over few."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np

from sightline.catalog import entry
from sightline.content import record
from sightline.cost.attention_constants import (
    PHASE_PARTS,
    AttentionConstants,
    AttentionPhase,
    AttentionSurface,
    at_clock_of,
    load_attention,
    prefill_constants,
    with_surface,
)
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Stated, family_of, stated_values
from sightline.cost.prices import Alike, OperatorCost, Ranks, kept_in_l2, priced_with
from sightline.program import CachedAttention, FlashAttention
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, either, larger, plain, rounded_up, smaller
from sightline.scenario import Device


@record
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
    """Share of the cache that came from L2 in the measurements whatever its size: a benchmark that reads pages
    twice."""
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


@cache
def load_decode_attention(family: str, phase: AttentionPhase = "decode") -> DecodeAttentionConstants:
    """The constants of a serving engine's decode kernel in a calibration family."""
    return DecodeAttentionConstants.from_mapping(entry("calibrations", f"{family}/{PHASE_PARTS[phase]}")["constants"])


def decode_constants(device: Device, phase: AttentionPhase) -> DecodeAttentionConstants:
    """The constants of attention of a step on ``device``, against keys and values per head or a shared latent."""
    family = family_of(device, PHASE_PARTS[phase])
    return at_clock_of(device, family, load_decode_attention(family, phase))


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


def decode_attention_cost(
    x: CachedAttention, device: Device, constants: DecodeAttentionConstants, *, in_l2: Any = False
) -> OperatorCost:
    """Seconds of one attention of ``query_tokens`` new tokens per sequence over ``context_tokens`` tokens of cache.

    The compute leg is ``2 b a q ctx (d + dv)`` FLOPs over the peak; the memory leg reads the cache, ``kv_bytes`` per
    element, once and moves query and output. ``shared_kv``: one latent of ``head_dim`` serves as key and value
    (absorbed multi-latent attention). ``window``: tokens that a sliding window sees. ``in_l2``: the execution before
    has left in L2 what fits there, as in a benchmark that repeats one layer; in a model other layers have overwritten
    it. ``heads_apart``: a tile serves one query head though heads share keys and values, which come from L2 all but
    once.

    The kernel takes rounds of tiles at a fixed time each, reads no faster per tile than a compute unit can, computes
    whole blocks of rows, and joins the splits of a context; these hide each other in part.

    Left out: pages of the cache (gathered at full speed), sequences of unequal length, a prefix read once for many.
    """
    c, peak = constants, device.peak_flops[x.dtype]
    b, a, q, widths = x.batch, x.heads, x.query_tokens, x.head_dim + x.value_dim
    compute_s = 2 * b * a * q * x.reach * widths / peak
    cache = b * x.reach * x.kv_heads * x.width * x.cache_bytes
    in_cache = in_l2 * larger(kept_in_l2(cache, c.l2_share * device.l2_bytes), c.repeated_share)
    memory_s = (cache * (1 - in_cache) + 2.0 * b * a * q * widths) / device.memory_bandwidth
    head_by_head = replace(x, kv_heads=a) if x.heads_apart or c.ungrouped is not None else x
    time_s = _kernel_time(head_by_head if x.heads_apart else x, memory_s, device, c)
    alone = (a == x.kv_heads) | (a > c.largest_group * x.kv_heads)
    if c.ungrouped is not None and anywhere(alone):
        time_s = either(alone, _kernel_time(head_by_head, memory_s, device, c.ungrouped), time_s)
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


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


def _of_device(model: DeviceModel, heads_apart: bool, shared_kv: bool) -> DecodeAttentionConstants:
    device = model.device
    if heads_apart:
        return vector_attention(device.vector_flops / device.compute_units)
    return decode_constants(device, "mla-decode" if shared_kv else "decode")


BACKWARD_PRODUCTS = 2.5
"""Five matmuls for the forward pass's two: the scores are computed again (arXiv 2307.08691, section 3.1.2)."""

WRITING_THREADS = 512
"""Most threads of the block that writes a token's keys and values to their pages, one per element of its keys (vLLM's
``reshape_and_cache_flash``)."""
RESIDENT_THREADS = 2048
"""Threads that a compute unit holds."""


def _busy_time(tiles: Number, mean_s: Number, longest_s: Number, units: Number, tail: float) -> Number:
    """Seconds until all tiles are done: whole waves of mean tiles, or the longest tile where there are few.

    Tiles of a causal pass differ in length and fill each other's gaps, so only equal ones pay for whole waves; ``tail``
    of the longest is what is left at the end when there are more tiles than units.
    """
    waves = tiles / units
    whole = rounded_up(waves - 1e-9)
    uneven = waves * mean_s + tail * longest_s * (waves > 1)
    return larger(either(longest_s > mean_s, uneven, whole * mean_s), longest_s)


def _seen_scores(query: Number, context: Number, causal: Any, window: Number | None) -> Number:
    """Context tokens that a query sees, in the mean over the queries: the last ``query`` of ``context`` tokens."""
    if window is None:
        return either(causal, context - (smaller(query, context) - 1) / 2, context)
    late = smaller(query, context)
    growing = smaller(larger(window - (context - late + 1), 0.0), late)
    masked = (growing * (context - late + 1 + (growing - 1) / 2) + (late - growing) * window) / late
    return either(causal, masked, smaller(context, window))


def attention_cost(x: FlashAttention | CachedAttention, device: Device, constants: AttentionConstants) -> OperatorCost:
    """Seconds of one attention pass, forward or (``backward``) for the gradients of query, key and value.

    The compute leg is ``2 b a sq sk (d + dv)`` FLOPs over the peak, with ``causal`` counting only scores that are seen,
    and 2.5 times that backward; the memory leg moves query, key, value and output (and backward their gradients) once.
    The kernel pays whole query blocks, context blocks on the diagonal in full, padded heads, the softmax that matmuls
    do not hide, and whole waves of tiles, and is never faster than either leg. ``value_dim`` (``dv``): width of value
    and output where it is not the key's; ``kv_bytes``: bytes per element of cached keys and values; ``window``: tokens
    that a query of a sliding window sees, itself among them.

    Left out: key and value blocks read again by other query blocks (they come from L2), dropout, splitting the context
    of few queries (``decode_attention_cost``).
    """
    s, c, peak = _sizes(x), constants, device.peak_flops[x.dtype]
    compute_s = s.products * 2 * s.b * s.a * s.sq * s.seen * (s.d + s.dv) / peak
    memory_s = (2.0 if s.backward else 1.0) * (s.query_bytes + s.cache_bytes) / device.memory_bandwidth
    kernel_s = _fused_kernel_time(s, peak, device, c)
    if c.surface is not None and isinstance(x, CachedAttention):
        kernel_s = kernel_s * c.surface.factor(x)
    time_s = larger(larger(kernel_s, memory_s / c.memory_fraction), compute_s) + c.latency_s
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


class _Sizes(NamedTuple):
    """Sizes by the symbols above."""

    b: Number
    a: Number
    kv: Number
    d: Number
    dv: Number
    sq: Number
    causal: Any
    backward: bool
    seen: Number
    """Context tokens that a query sees, in the mean over the queries."""
    reach: Number
    """Most context tokens that any query sees."""
    read: Number
    """Context tokens that any query sees."""
    element_bytes: float
    kv_bytes: Number

    @property
    def products(self) -> float:
        """Pairs of matmuls."""
        return BACKWARD_PRODUCTS if self.backward else 1.0

    @property
    def query_bytes(self) -> Number:
        """Bytes of queries and outputs."""
        return self.b * self.a * self.sq * self.element_bytes * (self.d + self.dv)

    @property
    def cache_bytes(self) -> Number:
        """Bytes of the keys and values that are read."""
        return self.b * self.kv * self.read * self.kv_bytes * (self.d + self.dv)


def _sizes(x: FlashAttention | CachedAttention) -> _Sizes:
    b, a, kv, d, dv = map(plain, (x.batch, x.heads, x.kv_heads, x.head_dim, x.value_dim))
    sq, sk = plain(x.query_tokens), plain(x.context_tokens)
    # Queries come in the type that the kernel computes in, whatever type they were kept in before.
    element_bytes = ELEMENT_BYTES.get(x.dtype, 2.0)
    if isinstance(x, FlashAttention):
        # Kernels take as long as if both products were of the mean width.
        d = dv = 0.5 * (d + dv)
        seen = _seen_scores(sq, sk, x.causal, None)
        reach, read = sk, sk
    else:
        seen = _seen_scores(sq, sk, x.causal, x.window)
        read = sk if x.window is None else smaller(sk, x.window + sq)
        reach = plain(x.reach)
    return _Sizes(
        b=b,
        a=a,
        kv=kv,
        d=d,
        dv=dv,
        sq=sq,
        causal=x.causal,
        backward=isinstance(x, FlashAttention) and x.backward,
        seen=seen,
        reach=reach,
        read=read,
        element_bytes=element_bytes,
        kv_bytes=x.cache_bytes if isinstance(x, CachedAttention) else element_bytes,
    )


def _fused_kernel_time(x: _Sizes, peak: Number, device: Device, c: AttentionConstants) -> Number:
    """Seconds of the kernel and of what no arithmetic hides."""
    eight_bits = x.kv_bytes < 2
    kernel_s = _tiles_time(x, _score_time(x, peak, device, c), device.compute_units, c)
    if c.throttled_share:
        throttled = either(eight_bits, 0.0, c.throttled_share)
        kernel_s = kernel_s / (1 - throttled * kernel_s / (kernel_s + c.throttle_s))
    exposed_bytes = c.exposed_queries * x.query_bytes + c.exposed_cache * x.cache_bytes
    kernel_s = kernel_s + exposed_bytes / device.memory_bandwidth
    if c.write_round_s:
        # Rounds that one compute unit would take to write all tokens' keys to their pages.
        rounds = x.b * x.sq * smaller(x.kv * x.d, WRITING_THREADS) / RESIDENT_THREADS
        kernel_s = kernel_s + c.write_round_s * rounds / device.compute_units
    if c.query_conversion_s:
        kernel_s = kernel_s + eight_bits * (
            c.query_conversion_s + c.query_conversion * x.query_bytes / device.memory_bandwidth
        )
    return kernel_s


def _score_time(x: _Sizes, peak: Number, device: Device, c: AttentionConstants) -> Number:
    """Seconds of a compute unit per score: matmuls over padded heads, and the softmax that they do not hide."""
    padded, padded_value = (rounded_up(width, c.head_granule) for width in (x.d, x.dv))
    slower = larger(padded / c.comfortable_head, 1.0) ** c.wide_head_exponent
    rate = peak * (c.backward_fraction if x.backward else c.peak_fraction)
    matmul_s = x.products * 2 * (padded + padded_value) * slower / rate
    softmax_s = smaller(c.softmax_flops / device.vector_flops, c.most_softmax * matmul_s)
    score_s = (matmul_s**c.overlap + softmax_s**c.overlap) ** (1 / c.overlap) * device.compute_units
    return score_s * either(x.causal, c.causal_slowdown, 1.0) * either(x.kv_bytes < 2, c.fp8_cache_time, 1.0)


def _tiles_time(x: _Sizes, score_s: Number, units: Number, c: AttentionConstants) -> Number:
    """Seconds until all tiles are done: whole query blocks, and context blocks on the diagonal in full."""
    packed = x.a / x.kv if c.packed_heads else 1.0
    rows = x.sq * packed
    block: Number = c.query_block
    if c.wide_heads_halve_blocks:
        padded = rounded_up(x.d, c.head_granule)
        block = block / larger(padded / c.comfortable_head, 1.0)
    tiles = rounded_up(rows / block) * x.b * x.a / packed
    tile_rows = block if c.row_granule is None else smaller(rounded_up(rows, c.row_granule), block)
    steps = either(x.causal, smaller(x.seen + (tile_rows / packed + c.context_block) / 2, x.reach), x.reach)
    tile_s, longest_s = (tile_rows * (length + c.tile_overhead) * score_s + c.tile_s for length in (steps, x.reach))
    return _busy_time(tiles, tile_s, longest_s, units, c.tail)


def _of_framework(model: DeviceModel) -> AttentionConstants:
    return load_attention(family_of(model.device, "attention"), model.kernels.attention)


price_fused = priced_with(attention_cost, _of_framework)
"""Attention of whole sequences and its gradients."""


def price_cached(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention of one phase over cached and new tokens."""
    first, model = alike.first, on.device_model
    if not first.decode:
        return attention_cost(alike.together, model.device, model.constants(_of_engines))
    constants = model.constants(_of_device, first.heads_apart, first.shared_kv)
    return decode_attention_cost(alike.together, model.device, constants)


def _of_engines(model: DeviceModel) -> AttentionConstants:
    return prefill_constants(model.device)
