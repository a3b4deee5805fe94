"""What a fused (flash-style) attention kernel costs: its scores never leave the compute unit.

A tile is a block of queries of one head; it walks along the context in steps. Symbols: ``b`` sequences, ``a`` heads,
``d`` head dimension, ``sq, sk`` query and context tokens. Sources: FlashAttention (arXiv 2205.14135),
FlashAttention-2 (2307.08691), FlashAttention-3 (2407.08608).
"""

from typing import Any, NamedTuple

from sightline.cost.attention.constants import AttentionConstants
from sightline.cost.operator_cost import OperatorCost
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
    value_dim: Number | None = None,
    kv_bytes: Number | None = None,
    window: Number | None = None,
) -> OperatorCost:
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
    x = _sizes(batch, heads, kv_heads, head_dim, query_tokens, context_tokens, causal, backward, value_dim, window)
    x = x._replace(element_bytes=4.0 if dtype in {"fp32", "tf32"} else 2.0)
    x = x._replace(kv_bytes=x.element_bytes if kv_bytes is None else kv_bytes)
    c, peak = constants, device.peak_flops[dtype]
    compute_s = x.products * 2 * x.b * x.a * x.sq * x.seen * (x.d + x.dv) / peak
    memory_s = either(backward, 2.0, 1.0) * (x.query_bytes + x.cache_bytes) / device.memory_bandwidth
    kernel_s = _kernel_time(x, peak, device, c)
    if c.surface is not None:
        kernel_s = kernel_s * c.surface.factor(x.axes)
    time_s = larger(larger(kernel_s, memory_s / c.memory_fraction), compute_s) + c.latency_s
    return OperatorCost(time_s, compute_s, memory_s)


class _Sizes(NamedTuple):
    """Sizes by the symbols above."""

    b: Number
    a: Number
    kv: Number
    d: Number
    dv: Number
    sq: Number
    sk: Number
    causal: Any
    backward: Any
    seen: Number
    """Context tokens that a query sees, in the mean over the queries."""
    reach: Number
    """Most context tokens that any query sees."""
    read: Number
    """Context tokens that any query sees."""
    element_bytes: float = 2.0
    kv_bytes: Number = 2.0

    @property
    def products(self) -> Number:
        """Pairs of matmuls."""
        return either(self.backward, BACKWARD_PRODUCTS, 1.0)

    @property
    def query_bytes(self) -> Number:
        """Bytes of queries and outputs."""
        return self.b * self.a * self.sq * self.element_bytes * (self.d + self.dv)

    @property
    def cache_bytes(self) -> Number:
        """Bytes of the keys and values that are read."""
        return self.b * self.kv * self.read * self.kv_bytes * (self.d + self.dv)

    @property
    def axes(self) -> dict[str, Number]:
        """Sizes along the axes that a residual surface may have."""
        return {
            "queries": self.sq,
            "context": self.reach,
            "heads": self.b * self.a,
            "kv_heads": self.kv,
            "group_heads": self.a / self.kv,
            "head_dim": self.d,
            "kv_bytes": self.kv_bytes,
        }


def _sizes(
    batch: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    query_tokens: Number,
    context_tokens: Number,
    causal: Any,
    backward: Any,
    value_dim: Number | None,
    window: Number | None,
) -> _Sizes:
    numbers = (batch, heads, kv_heads, head_dim, head_dim if value_dim is None else value_dim)
    b, a, kv, d, dv, sq, sk = (plain(x) for x in (*numbers, query_tokens, context_tokens))
    seen = _seen_scores(sq, sk, causal, window)
    reach, read = (sk, sk) if window is None else (smaller(sk, window), smaller(sk, window + sq))
    return _Sizes(b, a, kv, d, dv, sq, sk, causal, backward, seen, reach, read)


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
    if c.narrowing_s:
        kernel_s = kernel_s + eight_bits * (c.narrowing_s + c.narrowing * x.query_bytes / device.memory_bandwidth)
    return kernel_s


def _score_time(x: _Sizes, peak: Number, device: Device, c: AttentionConstants) -> Number:
    """Seconds of a compute unit per score: matmuls over padded heads, and the softmax that they do not hide."""
    padded, padded_value = (rounded_up(width / c.head_granule) * c.head_granule for width in (x.d, x.dv))
    slower = larger(padded / c.comfortable_head, 1.0) ** c.wide_head_exponent
    rate = peak * either(x.backward, c.backward_fraction, c.peak_fraction)
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
        padded = rounded_up(x.d / c.head_granule) * c.head_granule
        block = block / larger(padded / c.comfortable_head, 1.0)
    tiles = rounded_up(rows / block) * x.b * x.a / packed
    tile_rows = block if c.row_granule is None else smaller(rounded_up(rows / c.row_granule) * c.row_granule, block)
    steps = either(x.causal, smaller(x.seen + (tile_rows / packed + c.context_block) / 2, x.reach), x.reach)
    tile_s, longest_s = (tile_rows * (length + c.tile_overhead) * score_s + c.tile_s for length in (steps, x.reach))
    return _busy_time(tiles, tile_s, longest_s, units, c.tail)
