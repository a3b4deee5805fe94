"""What each generation of fused attention kernels, and each serving engine's, reaches on a device."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, Self

from sightline.catalog import entry
from sightline.cost.families import Stated, stated_values
from sightline.cost.residual_surface import AttentionSurface
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConstants(Stated):
    """One set per device family and kernel; the catalog's calibration entry holds value, source and residuals.

    The fields with a default are those of serving engines; their defaults leave a chart's kernel as it is.
    """

    peak_fraction: float
    """Share of the datasheet's FLOP/s that the forward pass's matmuls reach."""
    backward_fraction: float
    """The same of the backward pass."""
    softmax_flops: float
    """fp32 operations per score that the matmuls do not hide: exponential, maximum, sum, scaling."""
    query_block: float
    """Query tokens of a tile."""
    context_block: float
    """Context tokens of a step."""
    head_granule: float
    """Head dimensions are padded to multiples of this."""
    comfortable_head: float
    """Widest head dimension whose tiles fit a compute unit's registers."""
    wide_head_exponent: float
    """Time grows by (head dimension / comfortable one) to this power beyond it."""
    causal_slowdown: float
    """Time per seen score of a causal pass over that of a full one: masking, tiles of unequal length."""
    tile_overhead: float
    """Context tokens that starting and ending a tile costs."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth that is reached."""
    latency_s: Number
    """Fixed time of the kernels of a pass."""
    overlap: float = 1.0
    """How well matmuls and softmax hide each other: exponent of the sum of their powers, 1 for not at all."""
    most_softmax: float = inf
    """Most softmax per matmul, in time: kernels for faster matmuls move exponentials off the busiest unit."""
    packed_heads: bool = False
    """Query heads that share keys and values fill a tile's rows together."""
    row_granule: float | None = None
    """Rows of a tile's matmuls come in multiples of this; None: every tile costs all its rows."""
    wide_heads_halve_blocks: bool = False
    """Tiles have fewer queries the wider the head is than the comfortable one."""
    tail: float = 0.0
    """Share of the longest tile that a causal pass of more tiles than compute units ends with."""
    tile_s: float = 0.0
    """Fixed time of a tile on its compute unit."""
    exposed_queries: float = 0.0
    """Passes over query and output that no arithmetic hides: first loads, last stores, rotation."""
    exposed_cache: float = 0.0
    """The same over key and value: gathering pages, filling the cache."""
    write_round_s: float = 0.0
    """Time of a round of the kernel that writes new keys and values to their pages: a block of threads for each token."""
    fp8_cache_time: float = 1.0
    """Time per score with keys and values of 8 bits over that with 16."""
    throttled_share: float = 0.0
    """Share of the speed in 16 bits lost to the power limit by a kernel that runs for long."""
    throttle_s: float = 1e-3
    """Duration at which half of that loss has set in."""
    narrowing_s: float = 0.0
    """Fixed time of converting queries to the 8 bits of the cache, in a kernel of its own."""
    narrowing: float = 0.0
    """Passes over query and output that the conversion takes."""
    surface: AttentionSurface | None = None
    """What an engine's choice of kernels adds, over query tokens, heads and what a key takes."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The constants out of a calibration entry's kernel; other keys are left alone."""
        return cls(**with_surface(stated_values(cls, mapping)))


def with_surface(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of constants with their residual surface read."""
    stated = values.get("surface")
    return values if stated is None else {**values, "surface": AttentionSurface.from_mapping(stated)}


@cache
def load_attention(calibration: str, kernel: str = "flash-2") -> AttentionConstants:
    """The constants of an attention kernel (flash-1, flash-2, flash-3) in the calibration of that name."""
    return AttentionConstants.from_mapping(entry("calibrations", f"{calibration}/attention")["kernels"][kernel])


@cache
def load_prefill_attention(family: str) -> AttentionConstants:
    """The constants of a serving engine's prefill kernel in a calibration family."""
    return AttentionConstants.from_mapping(entry("calibrations", f"{family}/prefill_attention")["constants"])
