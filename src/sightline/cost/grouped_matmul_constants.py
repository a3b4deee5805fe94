"""What a device's grouped matmul kernels, the experts of a mixture, reach of its datasheet."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from sightline.catalog import entry

GroupedLayout = Literal["masked", "contiguous"]
"""How tokens lie before the kernel: each expert's in a slot of fixed size, as decoding under a CUDA graph needs, or one
expert's behind the other's, padded to whole blocks, as prefill has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedConstants:
    """One set per device family, weight format and layout."""

    peak_fraction: float
    """Share of the datasheet's FLOP/s that a tile's inner loop reaches."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth at which the experts' weights are read."""
    tile_overhead_k: float
    """What filling the pipeline and writing a tile out cost, in steps along ``k``."""
    block_rows: float
    """Rows to which the tokens of an expert are padded."""
    block_columns: float
    """Columns of a tile."""
    latency_s: float
    """Fixed time of a kernel: start and drain."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "GroupedConstants":
        """The constants out of a calibration entry's layout; other keys are left alone."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls)})


@cache
def load_grouped(
    calibration: str, kernel: str = "16-bit", layout: GroupedLayout = "masked"
) -> tuple[GroupedConstants, str]:
    """Return the constants of a weight format in the calibration of that name, and their evidence."""
    chosen = entry("calibrations", f"{calibration}/grouped")["kernels"][kernel]
    return GroupedConstants.from_mapping(chosen[layout]), str(chosen["evidence"])
