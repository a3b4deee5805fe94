"""What attention kernels reach on a device: each generation of fused ones, and each serving engine's by phase."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any, Literal, Self, TypeVar

from sightline.catalog import entry
from sightline.cost.clock import REFERENCE_HZ, clock_hz
from sightline.cost.families import UNMEASURED, Stated, family_of, stated_values
from sightline.cost.residual_surface import ResidualSurface
from sightline.program import CachedAttention
from sightline.quantities import Number
from sightline.scenario import Device

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    query_conversion_s: float = 0.0
    """Fixed time of converting queries to the 8 bits of the cache, in a kernel of its own."""
    query_conversion: float = 0.0
    """Passes over query and output that the conversion takes."""
    surface: AttentionSurface | None = None
    """What an engine's choice of kernels adds, over query tokens, heads and what a key takes."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The constants out of a calibration entry's kernel; other keys are left alone."""
        return cls(**_with_surface(stated_values(cls, mapping)))


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
        values = _with_surface(stated_values(cls, mapping))
        if values.get("ungrouped") is not None:
            values["ungrouped"] = cls.from_mapping(
                {**mapping, "ungrouped": None, "surface": None, **mapping["ungrouped"]}
            )
        return cls(**values)


Kernel = TypeVar("Kernel", AttentionConstants, DecodeAttentionConstants)


def _with_surface(values: dict[str, Any]) -> dict[str, Any]:
    """Values of constants with their residual surface read."""
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


@cache
def load_decode_attention(family: str, phase: AttentionPhase = "decode") -> DecodeAttentionConstants:
    """The constants of a serving engine's decode kernel in a calibration family."""
    return DecodeAttentionConstants.from_mapping(entry("calibrations", f"{family}/{PHASE_PARTS[phase]}")["constants"])


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


IN_CYCLES = ("latency_s", "split_s", "sequence_s")
"""Times of a kernel's start, of joining and planning its parts. A tile's start waits for memory instead."""


def prefill_constants(device: Device) -> AttentionConstants:
    """The constants of prefill attention on ``device``."""
    family = family_of(device, PHASE_PARTS["prefill"])
    return _at_clock_of(device, family, load_prefill_attention(family))


def decode_constants(device: Device, phase: AttentionPhase) -> DecodeAttentionConstants:
    """The constants of attention of a step on ``device``, against keys and values per head or a shared latent."""
    family = family_of(device, PHASE_PARTS[phase])
    return _at_clock_of(device, family, load_decode_attention(family, phase))


def _at_clock_of(device: Device, family: str, constants: Kernel) -> Kernel:
    if family != UNMEASURED:
        return constants
    stated = {name: getattr(constants, name) for name in IN_CYCLES if hasattr(constants, name)}
    return replace(constants, **at_clock(stated, device))


def at_clock(constants: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Constants of several devices together as they are on ``device``: as many cycles at its clock."""
    slower = REFERENCE_HZ / clock_hz(device)
    return {name: value * slower if name in IN_CYCLES else value for name, value in constants.items()}
