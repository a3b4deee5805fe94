"""What a device's grouped matmul kernels, the experts of a mixture, reach of its datasheet."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Literal

import numpy as np

from sightline.catalog import entry
from sightline.quantities import Number

GroupedLayout = Literal["masked", "contiguous"]
"""How tokens lie before the kernel: each expert's in a slot of fixed size, as decoding under a CUDA graph needs, or one
expert's behind the other's, padded to whole blocks, as prefill has them."""


UNHINDERED = 0.97
"""Share of the peak that arithmetic reaches whose operands are there in time."""


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
    unit_flops: float = 0.0
    """FLOP/s of the compute units that the shares were measured on; 0 where they hold whatever the unit."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "GroupedConstants":
        """The constants out of a calibration entry's layout; other keys are left alone."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls) if f.name in mapping or f.default is MISSING})

    def on(self, unit_flops: Number) -> tuple[Number, Number]:
        """Share of the peak and steps of overhead on compute units of so many FLOP/s.

        Operands reach a unit at a pace of its own, and filling its pipeline takes a time of its own: slower arithmetic
        hides more of the one (squares of the times add up, beside ``UNHINDERED`` of the peak) and is fewer steps of the other.
        """
        if not self.unit_flops:
            return self.peak_fraction, self.tile_overhead_k
        ratio = unit_flops / self.unit_flops
        loads = np.maximum(1 / self.peak_fraction**2 - 1 / UNHINDERED**2, 0.0)
        share = 1 / np.sqrt(loads * ratio**2 + 1 / UNHINDERED**2)
        share = np.where(np.isclose(ratio, 1.0), self.peak_fraction, share)
        return share, self.tile_overhead_k * ratio * share / self.peak_fraction


@cache
def load_grouped(
    calibration: str, kernel: str = "16-bit", layout: GroupedLayout = "masked"
) -> tuple[GroupedConstants, str]:
    """Return the constants of a weight format in the calibration of that name, and their evidence."""
    chosen = entry("calibrations", f"{calibration}/grouped")["kernels"][kernel]
    return GroupedConstants.from_mapping(chosen[layout]), str(chosen["evidence"])
