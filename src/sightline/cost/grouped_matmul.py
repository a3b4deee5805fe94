"""What a grouped matmul costs: the tokens of a mixture's experts, each times its own expert's matrix, in one kernel.

Symbols: ``E`` experts, ``k`` experts per token, ``r`` rows of an expert, ``B`` rows of a tile. Layouts and tiles:
DeepGEMM (deepseek-ai/DeepGEMM), README.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.cost.grouped_matmul_constants import GroupedConstants, GroupedLayout, load_grouped
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device

__all__ = [
    "GroupedConstants",
    "GroupedLayout",
    "grouped_matmul_cost",
    "load_grouped",
]

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
    rows: Number,
    experts: Number,
    n: Number,
    k: Number,
    *,
    active: Number,
    dtype: str,
    element_bytes: Number,
    weight_bytes: Number,
    output_bytes: Number,
    device: Device,
    constants: GroupedConstants,
    unevenness: Number | None = None,
) -> OperatorCost:
    """Seconds to multiply ``rows`` token-expert assignments, in total, with the ``k x n`` matrices of their experts.

    Of the ``experts`` on this device ``active`` (it may be an expectation) have rows. ``unevenness`` is how far their
    rows spread around the mean, as a share of it; left out, that of a random routing, ``sqrt(3 / r)``, at most 1.

    The compute leg is ``2 rows n k / peak``; the memory leg reads the weights of active experts, the rows once per
    product, and writes the output. The kernel pays whole blocks of ``B`` rows for every expert, so that few rows per
    expert cost as much arithmetic as ``B``, and on average half a last wave of tiles.

    Left out: routing, permutation and the weighted sum (element-wise kernels); experts whose weights stay in L2.
    """
    c = constants
    rows, n, k = (np.asarray(x, dtype=float) for x in (rows, n, k))
    active = np.minimum(np.asarray(active, dtype=float), np.minimum(rows, experts))
    some = np.maximum(active, 1e-9)
    peak = device.peak_flops[dtype]
    compute_s = 2 * rows * n * k / peak
    memory_s = (active * n * k * weight_bytes + rows * (element_bytes * k + output_bytes * n)) / device.memory_bandwidth

    mean = rows / some / c.block_rows
    spread = np.sqrt(3 * some / np.maximum(rows, 1e-9)) if unevenness is None else np.asarray(unevenness, dtype=float)
    spread = np.minimum(spread, 1.0)
    tiles = active * _mean_of_ceiling(mean * (1 - spread), mean * (1 + spread)) * np.ceil(n / c.block_columns)
    waves = tiles / device.compute_units
    waves = np.maximum(waves + 0.5 * -np.expm1(-waves), np.minimum(tiles, 1.0))
    peak_fraction, overhead_k = c.on(peak / device.compute_units)
    tile_flops = 2 * c.block_rows * c.block_columns * (k + overhead_k)
    kernel_s = waves * tile_flops * device.compute_units / (peak * peak_fraction)

    time_s = (kernel_s**OVERLAP + (memory_s / c.memory_fraction) ** OVERLAP) ** (1 / OVERLAP)
    return OperatorCost(np.maximum(time_s, compute_s) + c.latency_s, compute_s, memory_s)
