"""What a fused (flash-style) attention kernel costs: its scores never leave the compute unit.

A tile is a block of queries of one head; it walks along the context in steps. Symbols: ``b`` sequences, ``a`` heads,
``d`` head dimension, ``sq, sk`` query and context tokens. Sources: FlashAttention (arXiv 2205.14135),
FlashAttention-2 (2307.08691), FlashAttention-3 (2407.08608).
"""

from typing import Any, NamedTuple

from sightline.cost.attention.constants import AttentionConstants, load_attention, prefill_constants
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import family_of
from sightline.cost.operator_cost import Alike, OperatorCost, Ranks
from sightline.program import CachedAttention, FlashAttention
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, either, larger, plain, rounded_up, smaller
from sightline.scenario import Device

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


def _rounds_of_writing(tokens: Number, elements: Number) -> Number:
    """Rounds that one compute unit would take to write tokens of so many elements of keys to their pages."""
    return tokens * smaller(elements, WRITING_THREADS) / RESIDENT_THREADS


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
    kernel_s = _kernel_time(s, peak, device, c)
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


def _kernel_time(x: _Sizes, peak: Number, device: Device, c: AttentionConstants) -> Number:
    """Seconds of the kernel and of what no arithmetic hides."""
    eight_bits = x.kv_bytes < 2
    kernel_s = _tiles_time(x, _score_time(x, peak, device, c), device.compute_units, c)
    if c.throttled_share:
        throttled = either(eight_bits, 0.0, c.throttled_share)
        kernel_s = kernel_s / (1 - throttled * kernel_s / (kernel_s + c.throttle_s))
    exposed_bytes = c.exposed_queries * x.query_bytes + c.exposed_cache * x.cache_bytes
    kernel_s = kernel_s + exposed_bytes / device.memory_bandwidth
    if c.write_round_s:
        kernel_s = kernel_s + c.write_round_s * _rounds_of_writing(x.b * x.sq, x.kv * x.d) / device.compute_units
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


def price_fused(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention of whole sequences and its gradients."""
    return attention_cost(alike.together, on.device_model.device, on.device_model.constants(_of_framework))


def _of_framework(model: DeviceModel) -> AttentionConstants:
    return load_attention(family_of(model.device, "attention"), model.kernels.attention)


def price_cached(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention of one phase over cached and new tokens."""
    if alike.first.decode:
        from sightline.cost.attention.decode import price_decode

        return price_decode(alike, on)
    return attention_cost(alike.together, on.device_model.device, on.device_model.constants(_of_engines))


def _of_engines(model: DeviceModel) -> AttentionConstants:
    return prefill_constants(model.device)
