"""What the kernels of sparse attention with an indexer reach on a device."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sightline.catalog import entry


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseConstants:
    """One set per device family."""

    index_peak_fraction: float
    """Share of the datasheet's FLOP/s that the indexer's products reach."""
    index_memory_fraction: float
    """Share of the memory bandwidth at which decoding reads the indexer's keys."""
    prefill_peak_fraction: float
    """Share of the FLOP/s that attention over selected tokens reaches over many queries."""
    decode_peak_fraction: float
    """The same over few queries, whose cached tokens are converted from fp8."""
    latency_s: float
    """Fixed time of a kernel."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "SparseConstants":
        """The constants out of a calibration entry; other keys are left alone."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls)})


@cache
def load_sparse(calibration: str) -> SparseConstants:
    """The constants of sparse attention in the catalog's calibration of that name."""
    return SparseConstants.from_mapping(entry("calibrations", f"{calibration}/sparse")["constants"])
