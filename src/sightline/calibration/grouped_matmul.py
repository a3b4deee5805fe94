"""Constants of grouped matmuls fitted to measured experts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fitting import Constants, FitResult, Range, error_statistics, fit_constants
from sightline.calibration.grouped_matmul_tables import GroupedTable
from sightline.cost.matmul.grouped import GroupedConstants, grouped_matmul_cost
from sightline.quantities import significant
from sightline.scenario import Device

Array = NDArray[np.float64]

RANGES: Mapping[str, Range] = {
    "peak_fraction": Range(low=0.3, starts=(0.9, 0.7), high=1.0),
    "memory_fraction": Range(low=0.3, starts=(0.8,), high=0.92),
    "tile_overhead_k": Range(low=0.0, starts=(100.0, 600.0), high=2000.0),
    "latency_s": Range(low=0.0, starts=(5e-6,), high=3e-5),
}
TILES: Mapping[str, Mapping[str, float]] = {
    "masked": {"block_rows": 64.0, "block_columns": 128.0},
    "contiguous": {"block_rows": 128.0, "block_columns": 128.0},
}
"""DeepGEMM's: the smallest that Hopper multiplies for slots mostly empty, the padding of the other layout."""
DRAWN_WITHIN = 0.3
"""How far the tables' rows per expert spread around their mean."""


def predicted_seconds(table: GroupedTable, device: Device, constants: GroupedConstants) -> Array:
    """Predicted time of every product of a table, in fp8 with a 16-bit output."""
    cost = grouped_matmul_cost(
        table.rows,
        table.active,
        table.n,
        table.k,
        active=table.active,
        dtype="fp8",
        element_bytes=1.0,
        weight_bytes=1.0,
        output_bytes=2.0,
        device=device,
        constants=constants,
        unevenness=DRAWN_WITHIN,
    )
    return np.asarray(cost.time_s)


def fit_grouped(table: GroupedTable, device: Device, layout: str) -> FitResult:
    """Return a layout's constants; whole models, or shapes where there is one model only, are left out in turn."""
    unit_flops = significant(device.peak_flops["fp8"] / device.compute_units, 6)

    def fitted_on(part: GroupedTable) -> GroupedConstants:
        def constants_of(fitted: Constants) -> GroupedConstants:
            return GroupedConstants.from_mapping({**TILES[layout], "unit_flops": unit_flops, **fitted})

        return constants_of(
            fit_constants(lambda x: predicted_seconds(part, device, constants_of(x)), part.seconds, RANGES)
        )

    constants = fitted_on(table)
    several = len(np.unique(table.family)) > 1
    kind, groups = ("model", table.family) if several else ("shape", table.n)
    left_out = np.empty(len(table))
    for group in np.unique(groups):
        out = groups == group
        left_out[out] = predicted_seconds(table.where(out), device, fitted_on(table.where(~out)))
    residuals = {
        "fit": error_statistics(predicted_seconds(table, device, constants), table.seconds),
        f"{kind} left out": error_statistics(left_out, table.seconds),
    }
    plain: dict[str, Any] = {name: getattr(constants, name) for name in GroupedConstants.__dataclass_fields__}
    return FitResult(constants=plain, rows={"fitted": len(table)}, residuals=residuals)
