"""What a serving engine's decode attention reaches on a device."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sightline.catalog import entry
from sightline.cost.attention_constants import fields_of
from sightline.cost.residual_surface import ResidualSurface

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
    unit_bandwidth: float
    """Bytes per second that one tile takes in, wherever from."""
    compute_fraction: float
    """Share of the datasheet's FLOP/s that the matmuls reach."""
    row_block: float
    """Rows (queries of the heads that share keys and values) of a tile, padded to this."""
    largest_group: float
    """Heads that one tile can serve; with more, every head reads the cache for itself."""
    tiles_per_unit: float
    """Tiles that a compute unit works on at once."""
    tile_s: float
    """Fixed time of a round of tiles."""
    split_tiles: float
    """The context is split until there are this many tiles per compute unit."""
    split_sequences: float
    """The context is split until sequences times splits reach this."""
    split_tokens: float
    """No split is shorter than this."""
    split_s: float
    """Time that joining the splits adds, for each doubling of their number."""
    overlap: float
    """How well rounds, memory and arithmetic hide each other: exponent of the sum of their powers, 1 for not at all."""
    latency_s: float
    """Fixed time of the kernels."""
    fp8_cache_time: float = 1.0
    """Time per byte of keys and values of 8 bits over that of 16."""
    surface: ResidualSurface | None = None
    """Correction over (rows of a group's queries, context tokens, tiles before splitting)."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "DecodeAttentionConstants":
        """The constants out of a calibration entry; other keys are left alone."""
        return cls(**fields_of(cls, mapping))


@cache
def load_decode_attention(family: str, kind: DecodeKind = "mha") -> DecodeAttentionConstants:
    """The constants of a serving engine's decode kernel in a calibration family."""
    return DecodeAttentionConstants.from_mapping(entry("calibrations", f"{family}/{PARTS[kind]}")["constants"])
