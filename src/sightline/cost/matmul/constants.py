"""What a device's matmul kernels reach of its datasheet: a dozen numbers and the tiles its library chooses from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.cost import clock
from sightline.cost.families import UNMEASURED, Evidence, Stated, evidence_of, family_of, is_own
from sightline.cost.residual_surface import ResidualSurface
from sightline.cost.sustained import shipped_law, sustained_share
from sightline.quantities import Number
from sightline.scenario import Device
from sightline.scenario.precision import MATMUL_FORMATS

BLOCK_ROWS = 16.0
"""Rows that a tensor core's instruction takes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulConstants(Stated):
    """One set per device family; the catalog's calibration entry holds value, source and residuals."""

    peak_fraction: Number
    """Share of the datasheet's FLOP/s that the inner loop of a short matmul reaches, operand loads aside."""
    throttled_share: Number
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
    split_latency_s: Number
    """Time that adding up the slices of a matmul split along ``k`` starts with."""
    split_k: float
    """Least length of a slice along ``k`` when the tiles fill the device anyway."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth that large operands reach."""
    memory_ramp_s: float
    """Time that small transfers lose before the memory runs at that rate."""
    latency_s: Number
    """Fixed time of a kernel: start and drain."""
    misaligned_slowdown: tuple[float, ...]
    """Slowdown when rows of the operands start at multiples of only 2, 4, 8 (short loads) and 16, 32, 64 bytes (loads
    that straddle cache lines)."""
    tiles: tuple[tuple[float, float], ...]
    """Output tiles (rows, columns) that the library's kernels come in."""

    misaligned_loads: tuple[float, ...] = ()
    """Time of loading operands whose rows start at multiples of only 2, 4 and 8 bytes over that of aligned ones, where
    the library has kernels that load so little at a time; the arithmetic takes as long as ever. Empty: such products
    are altogether slower by ``misaligned_slowdown``."""
    vector_rows: float = 0.0
    """Rows up to which the library multiplies on the vector units, as it would a matrix and a vector."""
    vector_fraction: Number = 1.0
    """Share of the datasheet's vector FLOP/s that such a kernel reaches."""
    vector_latency_s: Number = 0.0
    """Fixed time of such a kernel."""
    tried_rows: float = 0.0
    """Rows up to which the library times such a kernel against those of the tensor cores and takes the faster one."""
    shallow_k: float = 0.0
    """Depth below which a product on the tensor cores takes ``shallow_s`` longer."""
    shallow_s: Number = 0.0
    """What the kernel for products of so little depth takes longer than the others."""
    quantization_s: float = 0.0
    """Fixed time of quantizing the input in kernels of its own before the product."""
    quantization_bytes: float = 0.0
    """What quantizing an element of the input costs, in bytes at the datasheet's memory bandwidth."""
    surface: ResidualSurface | None = None
    """What these numbers leave unexplained, smoothed over the sizes' logarithms; None where too little was measured."""

    def correction(self, m: Number, n: Number, k: Number) -> Number:
        """What the surface multiplies a product's time by, 1 without one."""
        if self.surface is None:
            return 1.0
        return self.surface.factor(m, n, k, kind=kind_of(m) if self.surface.kinds > 1 else 0)

    def of_older_library(self) -> "MatmulConstants":
        """The same of CUDA 11.6 and before, whose kernels for such rows were others."""
        return self if not self.misaligned_loads else replace(self, misaligned_loads=())

    def without_surface(self) -> "MatmulConstants":
        """The formula's own constants."""
        return replace(self, surface=None)

    def without_quantization(self) -> "MatmulConstants":
        """For inputs that an earlier kernel has quantized on its way, as engines fuse it with norms and activations."""
        if not self.quantization_s and not self.quantization_bytes:
            return self
        return replace(self, quantization_s=0.0, quantization_bytes=0.0, surface=None)


def kind_of(m: Number) -> NDArray[np.int64]:
    """1 for rows beyond whole blocks of ``BLOCK_ROWS``, 0 for whole blocks and for fewer rows than one has.

    For a last block of few rows libraries have other kernels, or tiles a little higher, so that a row more than whole
    tiles costs less than another row of tiles.
    """
    return ((np.asarray(m) > BLOCK_ROWS) & (np.mod(m, BLOCK_ROWS) > 0)).astype(np.int64)


def matmul_constants(device: Device, kernel: str = "16-bit") -> MatmulConstants:
    """The constants of a format on ``device``: its own family's, or a relative's as they are at its clock."""
    return borrowed_matmul(family_of(device, "matmul"), device, kernel)


def borrowed_matmul(family: str, device: Device, kernel: str = "16-bit") -> MatmulConstants:
    """The constants of a family on ``device``, at its clock and power where another device was measured.

    The mean of several devices is moved only to devices whose rule of power is known.
    """
    constants = load_matmul(family, kernel)
    measured = entry("calibrations", f"{family}/matmul").get("units")
    if measured is None or is_own(device, family, "matmul"):
        return constants
    share = sustained_share(device, shipped_law())
    if family == UNMEASURED and share is None:
        return constants
    there = at_clock(constants, device, clock_hz=measured["clock_hz"], lanes=measured["lanes"])
    return there if share is None else at_power(there, share / measured["sustained"])


def at_clock(c: MatmulConstants, device: Device, *, clock_hz: Number, lanes: Number) -> MatmulConstants:
    """Constants measured at another clock, and on compute units of so many fp32 lanes, as they are on ``device``.

    Kernels start, and slices join, in as many cycles; a compute unit widens as many quantized weights per cycle on its
    integer lanes, which grew no wider with those for fp32. Where the datasheet tells no plausible clock, because
    units are no GPU's, kernels start as fast.
    """
    here = clock.clock_hz(device)
    slower = np.where(np.greater(here, clock.FASTEST_CLOCK_HZ), 1.0, clock_hz / here)
    return replace(
        c,
        latency_s=c.latency_s * slower,
        vector_latency_s=c.vector_latency_s * slower,
        shallow_s=c.shallow_s * slower,
        split_latency_s=c.split_latency_s * slower,
        vector_fraction=np.minimum(c.vector_fraction * lanes / clock.lanes(device), 1.0),
    )


def at_power(c: MatmulConstants, ratio: Number) -> MatmulConstants:
    """Constants on a device whose long products keep ``ratio`` times as much of the peak as where they were measured.

    Less power makes long products slower; with more, they lose less to the limit, and then reach more of the peak.
    """
    kept = (1 - c.throttled_share) * ratio
    return replace(
        c,
        throttled_share=1 - np.minimum(kept, 1.0),
        peak_fraction=np.minimum(c.peak_fraction * np.maximum(kept, 1.0), 1.0),
    )


@cache
def load_matmul(family: str, kernel: str = "16-bit") -> MatmulConstants:
    """The matmul constants of a calibration family and a format (``MATMUL_FORMATS``).

    A format that the family was not measured with takes the constants of its nearest measured one, without a surface.
    """
    kernels = entry("calibrations", f"{family}/matmul")["kernels"]
    measured = _measured(kernels, kernel)
    stated = kernels[measured]
    constants = MatmulConstants.from_mapping(stated["constants"])
    if measured != kernel or "surface" not in stated:
        return constants
    return replace(constants, surface=ResidualSurface.from_mapping(stated["surface"]))


@cache
def borrows(family: str, kernel: str) -> bool:
    """Whether a family has a format's constants from another family or from another format."""
    stated = entry("calibrations", f"{family}/matmul")["kernels"].get(kernel)
    return stated is None or "of" in stated


def matmul_evidence(device: Device, kernel: str = "16-bit") -> Evidence:
    """What the constants of ``kernel`` rest on for ``device``.

    A format that its family was not measured with borrows.
    """
    family = family_of(device, "matmul")
    found = evidence_of(device, "matmul")
    return "extrapolated" if borrows(family, kernel) and family != UNMEASURED else found


def _measured(kernels: Mapping[str, Any], kernel: str) -> str:
    return next((name for name in (kernel, *MATMUL_FORMATS[kernel].nearest) if name in kernels), "16-bit")
