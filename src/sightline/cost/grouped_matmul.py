"""What a grouped matmul costs: the tokens of a mixture's experts, each times its own expert's matrix, in one kernel.

Symbols: ``E`` experts, ``k`` experts per token, ``r`` rows of an expert, ``B`` rows of a tile. Layouts and tiles:
DeepGEMM (deepseek-ai/DeepGEMM), README.
"""

from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry
from sightline.content import record
from sightline.cost.clock import library_share, shipped_law
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import UNMEASURED, Stated, family_of
from sightline.cost.prices import Alike, OperatorCost, Ranks
from sightline.program import GroupedMatmul
from sightline.quantities import Number
from sightline.scenario import Device
from sightline.scenario.precision import MATMUL_FORMATS

GroupedLayout = Literal["masked", "contiguous"]
"""How tokens lie before the kernel: each expert's in a slot of fixed size, or one expert's behind the other's, padded
to whole blocks."""


UNHINDERED = 0.97
"""Share of the peak that arithmetic reaches whose operands are there in time."""


@record
class GroupedConstants(Stated):
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

    def on(self, unit_flops: Number) -> tuple[Number, Number]:
        """Share of the peak and steps of overhead on compute units of so many FLOP/s.

        Operands reach a unit at a pace of its own, and filling its pipeline takes a time of its own: slower arithmetic
        hides more of the one (squares of the times add up, with ``UNHINDERED`` of the peak) and is fewer steps of the
        other.
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
    kernels = entry("calibrations", f"{calibration}/grouped")["kernels"]
    chosen = kernels[next(name for name in (kernel, *MATMUL_FORMATS[kernel].nearest) if name in kernels)]
    return GroupedConstants.from_mapping(chosen[layout]), str(chosen["evidence"])


OVERLAP = 4.0
"""Exponent of the norm in which arithmetic and traffic, which overlap, add up."""
LEAST_WIDTH = 1e-6
"""Of a mean over blocks: rows that are all equal are a mean over next to nothing."""

Array = NDArray[np.floating[Any]]


def _mean_of_ceiling(low: Array, high: Array) -> Array:
    """Mean of ``ceil(x)`` for ``x`` evenly spread from ``low`` to ``high``, at least 1: blocks that rows take up."""
    low = np.minimum(low, high - LEAST_WIDTH)
    whole_low, whole_high = np.floor(low), np.floor(high)
    area = (whole_high + 1) * (high - whole_high / 2) - (whole_low + 1) * (low - whole_low / 2)
    blocks: Array = np.maximum(area / (high - low), 1.0)
    return blocks


def grouped_matmul_cost(
    x: GroupedMatmul, device: Device, constants: GroupedConstants, *, unevenness: Number | None = None
) -> OperatorCost:
    """Seconds to multiply ``rows`` token-expert assignments, in total, with the ``k x n`` matrices of their experts.

    Of the ``experts`` on this device ``active`` (it may be an expectation) have rows. ``unevenness`` is how far their
    rows spread around the mean, as a share of it; left out, that of a random routing, ``sqrt(3 / r)``, at most 1.

    The compute leg is ``2 rows n k / peak``; the memory leg reads the weights of active experts, the rows once per
    product, and writes the output. The kernel pays whole blocks of ``B`` rows for every expert, so that few rows per
    expert cost as much arithmetic as ``B``, and on average half a last wave of tiles. With ``empty_rows`` all blocks
    are whole.

    ``arithmetic_s`` is the arithmetic of the rows alone, without padding, at the share of the peak that tiles reach.

    Left out: routing, permutation and the weighted sum (element-wise kernels); experts whose weights stay in L2.
    """
    c = constants
    rows, n, k = (np.asarray(size, dtype=float) for size in (x.rows, x.n, x.k))
    active = np.minimum(np.asarray(x.active, dtype=float), np.minimum(rows, x.experts))
    some = np.maximum(active, 1e-9)
    peak = device.peak_flops[x.dtype]
    compute_s = x.flops / peak
    memory_s = replace(x, active=active).bytes / device.memory_bandwidth

    mean = rows / some / c.block_rows
    spread = np.sqrt(3 * some / np.maximum(rows, 1e-9)) if unevenness is None else np.asarray(unevenness, dtype=float)
    spread = np.minimum(spread, 1.0)
    filled = active * _mean_of_ceiling(mean * (1 - spread), mean * (1 + spread))
    blocks = np.where(np.greater(x.empty_rows, 0.0), (rows + x.empty_rows) / c.block_rows, filled)
    tiles = blocks * np.ceil(n / c.block_columns)
    waves = tiles / device.compute_units
    waves = np.maximum(waves + 0.5 * -np.expm1(-waves), np.minimum(tiles, 1.0))
    peak_fraction, overhead_k = c.on(peak / device.compute_units)
    tile_flops = 2 * c.block_rows * c.block_columns * (k + overhead_k)
    kernel_s = waves * tile_flops * device.compute_units / (peak * peak_fraction)

    time_s = (kernel_s**OVERLAP + (memory_s / c.memory_fraction) ** OVERLAP) ** (1 / OVERLAP)
    cost = OperatorCost.on_roofline(np.maximum(time_s, compute_s) + c.latency_s, compute_s, memory_s)
    return cost._replace(arithmetic_s=compute_s / peak_fraction)


def price_experts(alike: Alike, on: Ranks) -> OperatorCost:
    """Grouped matmuls of one format, each in the faster layout; whole blocks lie behind each other.

    Libraries choose by rows per expert, whatever the pass: blocks of 8 to 64 in Marlin (vLLM 0.18, ``marlin_moe.py``),
    8 to 128 in TensorRT-LLM's (FlashInfer, ``calculate_tile_tokens_dim``), 16 to 128 in Triton's ``matmul_ogs``.
    """
    model, together = on.device_model, alike.together

    def laid_out(layout: GroupedLayout) -> OperatorCost:
        constants = model.constants(_of_family, together.kernel, layout)
        return grouped_matmul_cost(together, model.device, constants)

    contiguous = laid_out("contiguous")
    fastest_s = np.minimum(contiguous.time_s, laid_out("masked").time_s)
    return contiguous._replace(time_s=np.where(np.greater(together.empty_rows, 0.0), contiguous.time_s, fastest_s))


def _of_family(model: DeviceModel, kernel: str, layout: GroupedLayout) -> GroupedConstants:
    family = family_of(model.device, "grouped")
    constants = load_grouped(family, kernel, layout)[0]
    if family != UNMEASURED:
        return constants
    return replace(constants, peak_fraction=constants.peak_fraction * library_share(model.device, shipped_law()))
