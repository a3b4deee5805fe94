"""Constants of bandwidth-bound kernels fitted to measured ones, class by class."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.elementwise_tables import ElementwiseTable
from sightline.calibration.fitting import Constants, FitResult, Range, error_statistics, fit_constants, share_of
from sightline.cost.elementwise import ElementwiseConstants, elementwise_cost
from sightline.scenario import Device

Array = NDArray[np.float64]

RANGES: Mapping[str, Range] = {
    "memory_fraction": Range(low=0.05, starts=(0.5,), high=0.97),
    "cache_gain": Range(low=0.0, starts=(0.5,), high=1.0),
    "kernel_latency_s": Range(low=1e-7, starts=(4e-6,), high=6e-5),
}
VECTOR_FRACTION = 0.25
"""Not told by tables of kernels bound by bytes; training's estimate."""
SAMPLE = 1500
"""Measurements a fit uses."""


def predicted_seconds(table: ElementwiseTable, device: Device, constants: ElementwiseConstants) -> Array:
    """Predicted time of every kernel of a table."""
    cost = elementwise_cost(
        table.traffic_bytes,
        0.0,
        table.kernels,
        device=device,
        constants=constants,
        footprint_bytes=table.footprint_bytes,
    )
    return np.asarray(cost.time_s) + table.launch_s


def fit_elementwise(table: ElementwiseTable, device: Device, given: Mapping[str, float] | None = None) -> FitResult:
    """Return the constants of one class of kernels; whole widths are left out in turn where there are several.

    ``given`` holds constants that the table cannot tell.
    """
    used = table.where(_sample(table))
    known = {"vector_fraction": VECTOR_FRACTION, **(given or {})}
    ranges = {name: r for name, r in RANGES.items() if name not in known}

    def constants_of(fitted: Constants) -> ElementwiseConstants:
        return ElementwiseConstants(**{**known, **fitted})  # type: ignore[arg-type]

    def fitted_on(part: ElementwiseTable) -> dict[str, float]:
        return fit_constants(lambda x: predicted_seconds(part, device, constants_of(x)), part.seconds, ranges)

    fitted = fitted_on(used)
    residuals = {"fit": error_statistics(predicted_seconds(used, device, constants_of(fitted)), used.seconds)}
    widths = np.unique(used.width)
    if len(widths) > 1 and len(used) > 2 * len(widths):
        left_out = np.empty(len(used))
        for width in widths:
            out = used.width == width
            left_out[out] = predicted_seconds(used.where(out), device, constants_of(fitted_on(used.where(~out))))
        residuals["width left out"] = error_statistics(left_out, used.seconds)
    rows = {"table": len(table), "fitted": len(used)}
    return FitResult(constants={**known, **fitted}, rows=rows, residuals=residuals)


def _sample(table: ElementwiseTable) -> NDArray[np.bool_]:
    """A fixed selection of at most ``SAMPLE`` measurements."""
    keys = [f"{b:.0f}x{w:.0f}x{i}" for i, (b, w) in enumerate(zip(table.traffic_bytes, table.width, strict=True))]
    return np.asarray(share_of(keys) < SAMPLE / max(len(table), 1))
