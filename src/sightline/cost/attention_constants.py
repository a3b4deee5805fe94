"""What each generation of fused attention kernels reaches on a device."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sightline.catalog import entry


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConstants:
    """One set per device family and kernel; the catalog's calibration entry holds value, source and residuals."""

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
    latency_s: float
    """Fixed time of the kernels of a pass."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "AttentionConstants":
        """The constants out of a calibration entry's kernel; other keys are left alone."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls)})


@cache
def load_attention(calibration: str, kernel: str = "flash-2") -> AttentionConstants:
    """The constants of an attention kernel (flash-1, flash-2, flash-3) in the calibration of that name."""
    return AttentionConstants.from_mapping(entry("calibrations", f"{calibration}/attention")["kernels"][kernel])
