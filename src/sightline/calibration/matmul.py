"""Matmul constants fitted to a table of measured products."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fitting import Constants, FitResult, Range, error_statistics, fit_constants, share_of
from sightline.calibration.matmul_tables import MatmulTable
from sightline.cost.matmul import MatmulConstants, matmul_cost
from sightline.scenario import Device

Array = NDArray[np.float64]

HELD_OUT = 0.25
"""Share of the (n, k) families that no fit sees."""
SAMPLE = {"training": 1600, "other": 900}
"""Measurements a fit uses: mostly those of the sizes that training has."""

RANGES: Mapping[str, Range] = {
    "peak_fraction": Range(low=0.5, starts=(0.92,), high=1.0),
    "throttled_share": Range(low=0.0, starts=(0.13,), high=0.4),
    "throttle_s": Range(low=1e-5, starts=(1e-3, 5e-3), high=2e-2),
    "l2_fraction": Range(low=0.3, starts=(1.2, 3.0), high=4.0),
    "tile_overhead_k": Range(low=0.0, starts=(165.0,), high=400.0),
    "lone_tile_elements": Range(low=0.0, starts=(1500.0,), high=20000.0),
    "small_tile_penalty": Range(low=0.0, starts=(0.1, 0.5), high=1.0),
    "split_latency_s": Range(low=0.0, starts=(2.2e-6,), high=1e-5),
    "split_k": Range(low=500.0, starts=(3200.0, 1200.0), high=9000.0),
    "memory_fraction": Range(low=0.5, starts=(0.8,), high=1.0),
    "memory_ramp_s": Range(low=0.0, starts=(1e-6,), high=2e-5),
    "latency_s": Range(low=1e-6, starts=(2.5e-6,), high=6e-6),
}
"""What is fitted; the tiles and the slowdown of misaligned rows are given."""


def training_sized(table: MatmulTable) -> NDArray[np.bool_]:
    """Shapes as training has them: at least 512 rows, wide operands, rows in whole blocks of 64."""
    return np.asarray((table.m >= 512) & (table.n >= 256) & (table.k >= 256) & (table.m % 64 == 0))


def predicted_seconds(table: MatmulTable, device: Device, constants: MatmulConstants) -> Array:
    """Predicted time of every 16-bit product of a table."""
    cost = matmul_cost(
        table.m, table.n, table.k, dtype="bf16", element_bytes=2, output_bytes=2, device=device, constants=constants
    )
    return np.asarray(cost.time_s)


def possible(table: MatmulTable, device: Device) -> NDArray[np.bool_]:
    """Measurements no faster than the device's memory: operands left in L2 by the benchmark's last round are not meant."""
    moved = 2 * (table.m * table.k + table.k * table.n + table.m * table.n)
    return np.asarray(table.seconds >= moved / device.memory_bandwidth)


def held_out(table: MatmulTable) -> NDArray[np.bool_]:
    """Measurements of the (n, k) families that are kept for testing."""
    return share_of([f"{n:.0f}x{k:.0f}" for n, k in zip(table.n, table.k, strict=True)]) < HELD_OUT


def fit_matmul(table: MatmulTable, device: Device, given: Mapping[str, Any]) -> FitResult:
    """Return a device's matmul constants from measured 16-bit products.

    ``given`` holds what the table cannot tell: the library's ``tiles`` and ``misaligned_slowdown``. Products with odd
    row counts above 512 do not occur in training and are left out of the fit, not of the statistics.
    """
    kept = table.where(possible(table, device))
    test = held_out(kept)
    used = kept.where(~test & ((kept.m <= 512) | (kept.m % 64 == 0)))
    used = used.where(_sample(used))

    def constants_of(fitted: Constants) -> MatmulConstants:
        return MatmulConstants.from_mapping({**given, **fitted})

    fitted = fit_constants(lambda x: predicted_seconds(used, device, constants_of(x)), used.seconds, RANGES)
    rows = {"table": len(table), "possible": len(kept), "fitted": len(used), "held_out": int(test.sum())}
    residuals = residuals_by_range(kept.where(test), device, constants_of(fitted))
    return FitResult(constants={**fitted, **given}, rows=rows, residuals=residuals)


def residuals_by_range(table: MatmulTable, device: Device, constants: MatmulConstants) -> dict[str, dict[str, float]]:
    """Error statistics of a table for the ranges of shapes that matter."""
    predicted = predicted_seconds(table, device, constants)
    training = training_sized(table)
    large = 2 * table.m * table.n * table.k > 1e11
    ranges = {
        "m >= 16": table.m >= 16,
        "training": training,
        "training, above 0.1 TFLOP": training & large,
        "m 16 to 511": (table.m >= 16) & (table.m < 512),
        "m below 16": table.m < 16,
    }
    return {name: error_statistics(predicted[q], table.seconds[q]) for name, q in ranges.items() if q.any()}


def _sample(table: MatmulTable) -> NDArray[np.bool_]:
    """A fixed selection of ``SAMPLE`` measurements from either kind."""
    keys = [f"{m:.0f}x{n:.0f}x{k:.0f}" for m, n, k in zip(table.m, table.n, table.k, strict=True)]
    order = share_of(keys)
    training = training_sized(table)
    chosen = np.zeros(len(table), dtype=bool)
    for mask, count in ((training, SAMPLE["training"]), (~training, SAMPLE["other"])):
        members = np.flatnonzero(mask)
        chosen[members[np.argsort(order[members], kind="stable")[:count]]] = True
    return chosen
