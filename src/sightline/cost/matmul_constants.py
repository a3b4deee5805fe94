"""What a device's matmul kernels reach of its datasheet: a dozen numbers and the tiles its library chooses from."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sightline.catalog import entry


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulConstants:
    """One set per device family; the catalog's calibration entry holds value, source and residuals."""

    peak_fraction: float
    """Share of the datasheet's FLOP/s that the inner loop of a short matmul reaches, operand loads aside."""
    throttled_share: float
    """Share of that rate lost to the power limit by a matmul that runs for long."""
    throttle_s: float
    """Duration at which half of that loss has set in."""
    l2_fraction: float
    """Operand traffic that L2 sustains over its datasheet bandwidth; above 1 where neighbouring units share loads."""
    tile_overhead_k: float
    """What filling the pipeline and writing a tile out cost, in steps along ``k`` of 16-bit elements."""
    lone_tile_elements: float
    """Output elements on a compute unit at which its rate has halved: too few to keep it busy."""
    small_tile_penalty: float
    """Slowdown at which the library values smaller tiles once the largest ones fill the device."""
    split_latency_s: float
    """Time that adding up the slices of a matmul split along ``k`` starts with."""
    split_k: float
    """Least length of a slice along ``k`` when the tiles fill the device anyway."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth that large operands reach."""
    memory_ramp_s: float
    """Time that small transfers lose before the memory runs at that rate."""
    latency_s: float
    """Fixed time of a kernel: start and drain."""
    misaligned_slowdown: tuple[float, ...]
    """Slowdown when rows of the operands start at multiples of only 2, 4, 8 (narrow loads) and 16, 32, 64 bytes (loads
    that straddle cache lines)."""
    tiles: tuple[tuple[float, float], ...]
    """Output tiles (rows, columns) that the library's kernels come in."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "MatmulConstants":
        """The constants out of a calibration entry's mapping; other keys are left alone."""
        plain = {f.name: float(mapping[f.name]) for f in fields(cls) if f.type is float}
        slowdown = tuple(float(x) for x in mapping["misaligned_slowdown"])
        return cls(
            **plain, misaligned_slowdown=slowdown, tiles=tuple((float(a), float(b)) for a, b in mapping["tiles"])
        )


@cache
def load_matmul(calibration: str) -> MatmulConstants:
    """The matmul constants of the catalog's calibration of that name."""
    return MatmulConstants.from_mapping(entry("calibrations", f"{calibration}/matmul")["constants"])
