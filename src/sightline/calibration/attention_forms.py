"""How engines' attention kernels cut their work into tiles, as their code gives it, and the kernels of any device."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sightline.calibration.attention_serving import DECODE_PRIORS, PREFILL_PRIORS, Kernel

Form = Mapping[str, Any]
"""Constants of a kernel that its code gives."""
UNLIMITED = 1e9
NARROW_TIME = 0.75
"""Time for keys and values of 8 bits over that for 16 where nobody measured: half the bytes, as many elements. Hopper's
matmuls take 8-bit values only along the context, so that its kernels turn them about first (arXiv 2407.08608)."""

_PREFILL = {
    "query_block": 128.0,
    "context_block": 128.0,
    "head_granule": 32.0,
    "comfortable_head": 256.0,
    "wide_head_exponent": 0.0,
    "memory_fraction": 0.95,
    "backward_fraction": 0.5,
}
SMALL_TILES = {**_PREFILL, "query_block": 64.0, "context_block": 64.0, "row_granule": 64.0}
"""Kernels of Ampere and Ada: 64 queries a tile."""
PACKED = {**_PREFILL, "packed_heads": True, "row_granule": 64.0, "most_softmax": 1.0}
"""FlashAttention-3 of vLLM: the heads of a group fill a tile together."""
PAIRED = {
    **_PREFILL,
    "query_block": 256.0,
    "row_granule": 128.0,
    "comfortable_head": 128.0,
    "wide_heads_halve_blocks": True,
}
"""FlashInfer's kernels for Blackwell: two blocks of 128 queries take turns on a compute unit."""

BY_GROUPS = {
    "row_block": 64.0,
    "row_granule": 16.0,
    "context_block": 128.0,
    "split_sequences": UNLIMITED,
    "most_splits": UNLIMITED,
    "tiles_per_unit": 1.0,
    "split_tiles": 1.0,
}
_SMALL_DECODE = {**BY_GROUPS, "row_block": 16.0, "context_block": 64.0, "fp8_cache_time": 1.0}
FREE_ROUNDS = {n: v for n, v in _SMALL_DECODE.items() if n not in {"tiles_per_unit", "split_tiles"}}
SPLITS = {n: v for n, v in BY_GROUPS.items() if n != "split_tiles"}

_ALONE = replace(PREFILL_PRIORS["exposed_queries"], value=0.3)
"""Passes over queries, or keys and values, of a kernel that is timed without others beside it."""
ANY_PREFILL = Kernel(
    decode=False,
    given={**SMALL_TILES, "most_softmax": 1.0},
    priors={**PREFILL_PRIORS, "exposed_queries": _ALONE, "exposed_cache": _ALONE},
)
ANY_DECODE = Kernel(decode=True, given=SPLITS, priors=DECODE_PRIORS)
ANY_LATENT = Kernel(decode=True, given={**SPLITS, "fp8_cache_time": 1.0}, priors=DECODE_PRIORS, latent=True)
"""The kernels of devices that nobody measured: the plainest of those that were."""
