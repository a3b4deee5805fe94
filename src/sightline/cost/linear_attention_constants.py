"""What the kernels of mixers with a state of fixed size (gated delta, state spaces) reach on a device."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sightline.catalog import entry


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearConstants:
    """One set per device family and kind of mixer."""

    chunk_tokens: float
    """Tokens that prefill works on as dense matmuls; from chunk to chunk it hands the state on."""
    peak_fraction: float
    """Share of the datasheet's FLOP/s that the matmuls within chunks reach."""
    memory_fraction: float
    """Share of the memory bandwidth at which prefill's kernels pass their tensors on."""
    step_s: float
    """Time in which a compute unit takes one head's state (a block of ``STATE_COLUMNS`` columns) past a chunk."""
    update_fraction: float
    """Share of the memory bandwidth at which decoding reads and writes the states."""
    conv_fraction: float
    """The same of the short convolution over a prompt."""
    conv_update_fraction: float
    """The same of the convolution of single tokens with the kept ones."""
    latency_s: float
    """Fixed time of a kernel."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "LinearConstants":
        """The constants out of a calibration entry's mixer; other keys are left alone."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls)})


@cache
def load_linear(calibration: str, mixer: str = "gated-delta") -> tuple[LinearConstants, str]:
    """Return the constants of a mixer (gated-delta, state-space) in the calibration of that name, and their evidence."""
    chosen = entry("calibrations", f"{calibration}/linear")["mixers"][mixer]
    return LinearConstants.from_mapping(chosen), str(chosen["evidence"])
