"""What a matrix multiplication costs: a hierarchical roofline with tile and wave quantization.

A kernel cuts the ``m x n`` output into tiles, one per compute unit at a time; each tile walks along ``k``. Symbols:
``m, n, k`` the dimensions, ``tm, tn`` a tile's sides, ``U`` compute units.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device

TILES = np.array([(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32)], dtype=float)
"""Tile sides that vendor libraries choose from on tensor cores (CUTLASS defaults for 16-bit operands)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulConstants:
    """What a device's matmul kernels reach of its datasheet; fitted per device, see the catalog's calibrations."""

    peak_fraction: float
    """Share of the datasheet's FLOP/s that long matmuls sustain (power limit, issue)."""
    tile_overhead_k: float
    """Steps along ``k`` that filling the pipeline and writing the tile out cost, in elements."""
    small_tile_elements: float
    """Output elements at which a tile reaches half of the sustained rate."""
    wave_smoothing: float
    """Share of a last, partly filled wave that is hidden: 0 whole waves, 1 none lost."""
    l2_fraction: float
    """Share of the datasheet's L2 bandwidth that operand tiles reach."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth that large operands reach."""
    latency_s: float
    """Fixed time of a kernel: ramp-up, drain."""
    k_granule: float
    """Elements of one pipeline stage along ``k``; ``k`` is padded to it."""
    alignment_bytes: float
    """Row alignment that vector loads need; rows aligned to less take narrower loads."""
    misaligned_exponent: float
    """Time grows by (alignment_bytes / row alignment) to this power."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "MatmulConstants":
        """The constants out of a calibration entry; other keys (source, residuals) are left alone."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls)})


@cache
def load_matmul(calibration: str) -> MatmulConstants:
    """The matmul constants of the catalog's calibration of that name."""
    return MatmulConstants.from_mapping(entry("calibrations", f"{calibration}/matmul")["constants"])


def _column(value: Number) -> NDArray[np.float64]:
    """A number with a trailing axis, along which the candidate tiles broadcast."""
    return np.asarray(value, dtype=float)[..., None]


def _row_alignment(width: Number, element_bytes: Number, limit: float) -> NDArray[np.float64]:
    """Largest power of two, up to ``limit`` bytes, that divides a row of ``width`` elements."""
    row_bytes = np.asarray(np.asarray(width) * element_bytes, dtype=np.int64)
    return np.minimum((row_bytes & -row_bytes).astype(float), limit)


def matmul_cost(
    m: Number,
    n: Number,
    k: Number,
    batch: Number = 1,
    *,
    dtype: str,
    element_bytes: Number,
    output_bytes: Number,
    device: Device,
    constants: MatmulConstants,
) -> OperatorCost:
    """Seconds of ``batch`` products of an ``m x k`` with a ``k x n`` matrix.

    The compute leg is ``2 b m n k / peak``, the memory leg ``b ((m k + k n) element_bytes + m n output_bytes)`` over the
    memory's bandwidth. The kernel pays whole tiles and (nearly) whole waves of them, and loads each tile's operands
    from L2; the fastest tile shape is taken. ``n`` and ``k`` are the dimensions operands are contiguous in. Left out:
    cache hits across operators, power throttling that builds up over seconds, split-K.
    """
    c = constants
    m, n, k, batch = (np.asarray(x, dtype=float) for x in (m, n, k, batch))
    peak = device.peak_flops[dtype]
    compute_s = 2 * batch * m * n * k / peak
    memory_s = batch * ((m * k + k * n) * element_bytes + m * n * output_bytes) / device.memory_bandwidth

    tm, tn = TILES[:, 0], TILES[:, 1]
    tiles = np.ceil(_column(m) / tm) * np.ceil(_column(n) / tn) * _column(batch)
    waves = tiles / _column(device.compute_units)
    whole = np.ceil(waves)
    waves = whole - c.wave_smoothing * (whole - waves) * (waves > 1)
    steps = np.ceil(k / c.k_granule) * c.k_granule
    area = tm * tn
    tile_flops = 2 * (area + c.small_tile_elements) * _column(steps + c.tile_overhead_k)
    tile_s = tile_flops * _column(np.asarray(device.compute_units) / (peak * c.peak_fraction))
    l2_s = tiles * (tm + tn) * _column(steps * element_bytes / (device.l2_bandwidth * c.l2_fraction))
    kernel_s = np.maximum(waves * tile_s, l2_s).min(axis=-1)

    aligned = np.minimum(
        _row_alignment(n, element_bytes, c.alignment_bytes), _row_alignment(k, element_bytes, c.alignment_bytes)
    )
    kernel_s = kernel_s * (c.alignment_bytes / aligned) ** c.misaligned_exponent
    time_s = np.maximum(np.maximum(kernel_s, memory_s / c.memory_fraction), compute_s) + c.latency_s
    return OperatorCost(time_s, compute_s, memory_s)
