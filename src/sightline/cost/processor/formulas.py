"""What operators cost on a processor, where every call returns when its work is done.

A product packs its operands into blocks that stay in the cores' caches and multiplies those at the vector units' rate
(Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008): thin ones spend
their time on packing, and the smallest are multiplied as they lie. Element-wise kernels take what they were measured
to take.
"""

from typing import Any

import numpy as np

from sightline.cost.attention.fused import BACKWARD_PRODUCTS
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.processor.constants import (
    FALLBACK,
    FALLBACK_TENSORS,
    FEW_ROWS,
    ROWS_AT_ONCE,
    Processor,
    ProductConstants,
)
from sightline.program import CachedAttention, FlashAttention
from sightline.quantities import Number

QUERY_BLOCKS = ((768.0, 256.0), (192.0, 64.0), (0.0, 32.0))
"""Queries that PyTorch's fused attention works on at a time, by the least length of a sequence that takes so many
(``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp``)."""
KEY_BLOCK = 512.0
"""Keys that it works on at a time: a causal pass leaves out whole blocks alone, so that short ones leave out none."""
UNPACKED = 2e5
"""Multiplications of a block of scores below which the library multiplies operands as they lie."""
PACKED_WIDTH = 64.0
"""Width of heads below which it does so whatever their number: blocks of 16 and 32 were as fast as small ones up to
1024 tokens, those of 64 slower from 128 on (torch 2.13, Cascade Lake, 2026-11)."""
UNPACKED_WEIGHT = 2.0**19
"""Elements of a weight up to which it stays near the cores while few rows go by."""

UNRECORDED = 0.6
"""Time of a call in PyTorch's inference mode over that of one that is recorded for a backward pass: 0.53 to 0.63 for
norms, rotary embeddings, activations and additions (torch 2.13, Cascade Lake, 2026-11)."""
CALLS = {"rope": 2.0, "rope gradient": 2.0}
"""Calls for what a program counts once: queries and keys are rotated one after the other."""


def product_cost(
    m: Number,
    n: Number,
    k: Number,
    batch: Number = 1.0,
    *,
    on: Processor,
    order: str = "forward",
    missing: Number = 0.0,
    code_is_near: bool = False,
) -> OperatorCost:
    """Seconds of ``batch`` products of an ``m x k`` with a ``k x n`` matrix, ``order`` saying how they lie.

    ``call + 2 b m n k / (f peak) + e b (p_l m k + p_r k n + p_o m n) / cache + missing (call_m + p_m bytes / memory)``:
    arithmetic, packing and stores, and what has to come from memory, one after the other. ``missing`` is the share of
    the operands' bytes that is not in the cache, and of the code, unless the operator before was a product
    too. Of few rows the weight goes by once for every ``ROWS_AT_ONCE``. Left out: padding to the library's blocks,
    steps where it shares work among cores.
    """
    m, n, k, batch = (np.asarray(x, dtype=float) for x in (m, n, k, batch))
    e, device, constants = on.element_bytes, on.device, on.constants
    compute_s = 2 * batch * m * n * k / on.peak
    bytes_ = e * batch * (m * k + n * k + m * n)

    def seconds(c: ProductConstants, weight: Any = n * k) -> Any:
        packed = e * batch * (c.left_passes * m * k + c.right_passes * weight + c.output_passes * m * n)
        code_s = 0.0 if code_is_near else c.missing_call_s
        loads_s = missing * (code_s + c.missing_passes * bytes_ / device.memory_bandwidth)
        return c.call_s + compute_s / c.peak_fraction + packed / device.l2_bandwidth + loads_s

    time_s = seconds(constants.products[order])
    if order == "forward":
        passes = np.ceil(m / ROWS_AT_ONCE)
        few_s = seconds(constants.thin("few rows"), np.where(n * k > UNPACKED_WEIGHT, passes * n * k, 0.0))
        time_s = np.where(m <= FEW_ROWS, few_s, time_s)
        time_s = np.where(m <= ROWS_AT_ONCE, seconds(constants.thin("one row")), time_s)
    return OperatorCost(np.maximum(time_s, compute_s), compute_s, bytes_ / device.memory_bandwidth)


def fused_attention_cost(x: FlashAttention | CachedAttention, on: Processor, *, missing: Number = 0.0) -> OperatorCost:
    """Seconds of one pass of fused attention, forward or for the gradients of its inputs.

    ``call + scores (4 d products / (f peak) + operations / vector rate) + blocks (block + packing + p keys' and values'
    bytes / cache) + p tokens' bytes / cache + missing (call_m + p_m bytes / memory)``: for every block of queries, keys
    and values are packed again, and of what it touches the share ``missing`` is not in the cache. A causal pass of
    whole sequences leaves out blocks of keys that none of a block's queries sees. Left out: cores that have no block
    left while others work on their last.
    """
    sizes = (x.batch, x.heads, x.kv_heads, x.head_dim, x.query_tokens, x.context_tokens)
    b, a, kv, d, sq, sk = (np.asarray(size, dtype=float) for size in sizes)
    products = BACKWARD_PRODUCTS if x.backward else 1.0
    half = (np.minimum(sq, sk) - 1) / 2
    seen = sq * np.where(x.causal, sk - half, sk)
    worked = np.where(np.logical_and(x.causal, sq == sk), _causal_scores(sk), sq * sk)
    rows = np.minimum(sq, np.select([sq >= least for least, _ in QUERY_BLOCKS], [size for _, size in QUERY_BLOCKS]))
    keys = np.minimum(sk, KEY_BLOCK)
    packs = (rows * keys * d >= UNPACKED) & (d >= PACKED_WIDTH)
    e, peak, device = on.element_bytes, on.peak, on.device
    compute_s = products * 4 * b * a * seen * d / peak
    bytes_ = (2.0 if x.backward else 1.0) * e * b * d * 2 * (sq * a + sk * kv)

    c = on.constants.attention["backward" if x.backward else "forward"]
    score_s = products * 4 * d / (c.peak_fraction * peak) + c.score_operations / device.vector_flops
    packing_s = c.packed_block_s + c.key_passes * 2 * e * keys * d / device.l2_bandwidth
    block_s = products * (c.block_s + np.where(packs, packing_s, 0.0))
    loads_s = missing * (c.missing_call_s + c.missing_passes * bytes_ / device.memory_bandwidth)
    passes_s = c.token_passes * bytes_ / device.l2_bandwidth
    time_s = c.call_s + b * a * worked * (score_s + block_s / (rows * keys)) + passes_s + loads_s
    return OperatorCost(np.maximum(time_s, compute_s), compute_s, bytes_ / device.memory_bandwidth)


def _causal_scores(tokens: Any) -> Any:
    """Scores that a causal pass over a sequence works on: every query's keys in whole blocks up to its own."""
    blocks = np.ceil(tokens / KEY_BLOCK)
    before = KEY_BLOCK * (blocks - 1)
    return KEY_BLOCK * before * blocks / 2 + (tokens - before) * tokens


def kernels_cost(
    kind: str,
    elements: Number,
    traffic_bytes: Number,
    kernels: Number,
    *,
    on: Processor,
    missing: Number = 0.0,
    recorded: bool = True,
) -> OperatorCost:
    """Seconds of the element-wise kernels ``kind`` over ``elements``, on as many cores as there are.

    Kernels that were not measured take as long as additions that move the same bytes in as many kernels. Calls are
    shorter where no graph is ``recorded``.
    """
    device, constants = on.device, on.constants
    traffic = np.asarray(traffic_bytes, dtype=float)
    memory_s = traffic / device.memory_bandwidth
    fewer = constants.cores / np.asarray(device.compute_units, dtype=float)
    known = constants.kernels.get(kind)
    times = constants.kernels[FALLBACK] if known is None else known
    each = CALLS.get(kind, 1.0) if known is not None else np.maximum(kernels, 1.0)
    size = elements if known is not None else traffic / (FALLBACK_TENSORS * on.element_bytes)
    size = size / each
    call_s = times.cached_s[0]
    rest_s = np.maximum(times.seconds(size, missing) - call_s, 0.0)
    call_s = call_s if recorded else UNRECORDED * call_s
    return OperatorCost(each * (call_s + fewer * rest_s), 0.0 * traffic, memory_s)
