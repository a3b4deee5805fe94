"""What attention kernels reach on a device: each generation of fused ones, and each serving engine's by phase."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from sightline.catalog import entry
from sightline.content import record
from sightline.cost.clock import REFERENCE_HZ, clock_hz, library_share, shipped_law
from sightline.cost.families import UNMEASURED, Stated, family_of, stated_values
from sightline.cost.residual_surface import ResidualSurface
from sightline.program import CachedAttention
from sightline.quantities import Number
from sightline.scenario import Device

if TYPE_CHECKING:
    from sightline.cost.attention import DecodeAttentionConstants

AttentionPhase = Literal["prefill", "decode", "mla-decode"]
"""Queries of a prompt, of a step against keys and values per head, and of a step against a shared latent."""

PHASE_PARTS: Mapping[AttentionPhase, str] = {
    "prefill": "prefill_attention",
    "decode": "decode_attention",
    "mla-decode": "latent_decode_attention",
}
"""The calibration part of each phase."""

SURFACE_SIZES: Mapping[str, Callable[[CachedAttention], Number]] = {
    "tiles": lambda x: x.batch * x.kv_heads,
    "heads": lambda x: x.batch * x.heads,
    "context": lambda x: x.reach,
    "queries": lambda x: x.query_tokens,
    "kv_heads": lambda x: x.kv_heads,
    "group": lambda x: x.heads / x.kv_heads * x.query_tokens,
    "group_heads": lambda x: x.heads / x.kv_heads,
    "key_bytes": lambda x: x.head_dim * x.cache_bytes,
    "head_dim": lambda x: x.head_dim,
    "kv_bytes": lambda x: x.cache_bytes,
}
"""Sizes that a residual surface may lie over; of a group, queries or heads that share keys and values."""


@record
class AttentionSurface:
    """A residual surface that knows its axes by name."""

    over: tuple[str, ...]
    """Sizes along the axes, of ``SURFACE_SIZES``."""
    surface: ResidualSurface

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "AttentionSurface":
        """The surface out of a calibration entry."""
        return cls(over=tuple(mapping["over"]), surface=ResidualSurface.from_mapping(mapping))

    def to_mapping(self) -> dict[str, Any]:
        """What ``from_mapping`` reads."""
        return {"over": list(self.over), **self.surface.to_mapping()}

    def factor(self, x: CachedAttention) -> Number:
        """Return what the predicted time is multiplied by."""
        return self.surface.factor(*(SURFACE_SIZES[name](x) for name in self.over))


@record
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
    """Time of a round of the kernel that writes new keys and values to their pages: a block of threads for each
    token."""
    fp8_cache_time: float = 1.0
    """Time per score with keys and values of 8 bits over that with 16."""
    throttled_share: float = 0.0
    """Share of the speed in 16 bits lost to the power limit by a kernel that runs for long."""
    throttle_s: float = 1e-3
    """Duration at which half of that loss has set in."""
    query_conversion_s: float = 0.0
    """Fixed time of converting queries to the 8 bits of the cache, in a kernel of its own."""
    query_conversion: float = 0.0
    """Passes over query and output that the conversion takes."""
    surface: AttentionSurface | None = None
    """What an engine's choice of kernels adds, over query tokens, heads and what a key takes."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The constants out of a calibration entry's kernel; other keys are left alone."""
        return cls(**with_surface(stated_values(cls, mapping)))


Kernel = TypeVar("Kernel", AttentionConstants, "DecodeAttentionConstants")


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
    return AttentionConstants.from_mapping(entry("calibrations", f"{family}/{PHASE_PARTS['prefill']}")["constants"])


IN_CYCLES = ("latency_s", "split_s", "sequence_s")
"""Times of a kernel's start, of joining and planning its parts. A tile's start waits for memory instead."""
OF_PEAK = ("peak_fraction", "compute_fraction")
"""Shares of the peak, of which a device's library reaches as much in attention as in products."""


def prefill_constants(device: Device) -> AttentionConstants:
    """The constants of prefill attention on ``device``."""
    family = family_of(device, PHASE_PARTS["prefill"])
    return at_clock_of(device, family, load_prefill_attention(family))


def at_clock_of(device: Device, family: str, constants: Kernel) -> Kernel:
    """Return the constants of a family as they are on ``device``."""
    if family != UNMEASURED:
        return constants
    stated = {name: getattr(constants, name) for name in (*IN_CYCLES, *OF_PEAK) if hasattr(constants, name)}
    return replace(constants, **at_clock(stated, device))


def at_clock(constants: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Constants of several devices together as they are on ``device``: as many cycles at its clock, by its library."""
    factors = dict.fromkeys(IN_CYCLES, REFERENCE_HZ / clock_hz(device))
    factors |= dict.fromkeys(OF_PEAK, library_share(device, shipped_law()))
    return {name: value * factors[name] if name in factors else value for name, value in constants.items()}
