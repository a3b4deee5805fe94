"""What a serving engine's decode attention reaches on a device."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from sightline.catalog import entry
from sightline.cost.attention.constants import fields_of
from sightline.cost.residual_surface import AttentionSurface
from sightline.quantities import Number

DecodeKind = Literal["mha", "mla"]
"""Kernel of a cache of keys and values per head, or of one latent that all heads share."""
PARTS = {"mha": "decode_attention", "mla": "latent_decode_attention"}
"""The calibration part of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAttentionConstants:
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
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "DecodeAttentionConstants":
        """The constants out of a calibration entry; other keys are left alone."""
        values = fields_of(cls, mapping)
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
