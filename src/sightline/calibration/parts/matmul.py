"""Matmul constants fitted to a table of measured products."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import (
    ORDINARY_ERROR,
    Constants,
    FitResult,
    Range,
    error_statistics,
    fit_constants,
    share_of,
)
from sightline.calibration.samples import Array, Table
from sightline.cost.matmul.constants import MatmulConstants
from sightline.cost.matmul.dense import matmul_cost
from sightline.program import Matmul
from sightline.program.formats import format_of
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulTable(Table):
    """Measured products of an ``m x k`` with a ``k x n`` matrix."""

    m: Array
    n: Array
    k: Array


HELD_OUT = 0.25
"""Share of the (n, k) families that no fit sees."""
SAMPLE = {"training": 1600, "other": 900}
"""Measurements a fit uses: mostly those of the sizes that training has."""
OF_MEMORY = ("memory_fraction", "memory_ramp_s", "latency_s")
TELLING_ROWS = 512
"""Rows from which products tell of the arithmetic; with fewer all but ``OF_MEMORY`` is the relative's."""
PER_FAMILY = 60
"""Measurements of one (n, k) family that a fit to a small table uses."""

RANGES: Mapping[str, Range] = {
    "peak_fraction": Range(low=0.5, starts=(0.92,), high=1.0),
    "throttled_share": Range(low=0.0, starts=(0.13,), high=0.4),
    "throttle_s": Range(low=1e-5, starts=(1e-3,), high=2e-2),
    "l2_fraction": Range(low=0.3, starts=(1.2, 3.0), high=4.0),
    "tile_overhead_k": Range(low=0.0, starts=(165.0,), high=400.0),
    "lone_tile_elements": Range(low=0.0, starts=(1500.0,), high=20000.0),
    "small_tile_penalty": Range(low=0.0, starts=(0.1, 0.5), high=1.0),
    "split_latency_s": Range(low=0.0, starts=(2.2e-6,), high=1e-5),
    "split_k": Range(low=500.0, starts=(3200.0,), high=9000.0),
    "memory_fraction": Range(low=0.5, starts=(0.8,), high=1.0),
    "memory_ramp_s": Range(low=0.0, starts=(1e-6,), high=2e-5),
    "latency_s": Range(low=1e-6, starts=(2.5e-6,), high=6e-6),
}
"""What is fitted; the tiles and the slowdown of misaligned rows are given."""

_FREE = {
    **RANGES,
    "small_tile_penalty": Range(low=0.0, starts=(0.1,), high=1.0),
    "peak_fraction": Range(low=0.2, starts=(0.8,), high=1.0),
    "l2_fraction": Range(low=0.1, starts=(1.2,), high=4.0),
    "tile_overhead_k": Range(low=0.0, starts=(165.0,), high=2000.0),
    "lone_tile_elements": Range(low=0.0, starts=(1500.0,), high=60000.0),
    "split_latency_s": Range(low=0.0, starts=(2.2e-6, 3e-5), high=1e-4),
    "memory_fraction": Range(low=0.3, starts=(0.8,), high=1.0),
    "latency_s": Range(low=1e-6, starts=(8e-6,), high=2e-5),
}
_BY_VECTORS = {
    **_FREE,
    "vector_fraction": Range(low=0.05, starts=(0.5,), high=1.0),
    "vector_latency_s": Range(low=2e-6, starts=(7e-6,), high=1.5e-5),
}
_WEIGHT_ONLY = {**_BY_VECTORS, "shallow_s": Range(low=0.0, starts=(3e-6,), high=1e-5)}
KERNEL_RANGES: Mapping[str, Mapping[str, Range]] = {
    "16-bit": RANGES,
    "fp8": {
        **{name: r for name, r in _FREE.items() if name != "latency_s"},
        "quantization_s": Range(low=0.0, starts=(1.1e-5,), high=3e-5),
        "quantization_bytes": Range(low=0.0, starts=(10.0,), high=40.0),
    },
    "w8a8": _BY_VECTORS,
    "w8a16": _WEIGHT_ONLY,
    "w4a16": _WEIGHT_ONLY,
}
"""What is fitted by format; kernels other than the 16-bit ones are less even. A product in fp8 starts like a 16-bit one."""

SPREADS: Mapping[str, float] = {
    "peak_fraction": 0.1,
    "throttled_share": 0.5,
    "l2_fraction": 0.5,
    "tile_overhead_k": 0.5,
    "lone_tile_elements": 0.5,
    "memory_fraction": 0.1,
    "memory_ramp_s": 0.7,
    "latency_s": 0.5,
}
"""What a small table may move, and how far by the standard deviation of its logarithm, from a relative's constants."""


def training_sized(table: MatmulTable) -> NDArray[np.bool_]:
    """Shapes as training has them: at least 512 rows, wide operands, rows in whole blocks of 64."""
    return np.asarray((table.m >= 512) & (table.n >= 256) & (table.k >= 256) & (table.m % 64 == 0))


def predicted_seconds(table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit") -> Array:
    """Predicted time of every product of a table, whose operands are in the format ``kernel`` and results in 16 bits."""
    stored = format_of(kernel, _half(device), device)
    products = Matmul(
        module="mlp",
        part="matmul",
        m=table.m,
        n=table.n,
        k=table.k,
        dtype=stored.compute_dtype,
        element_bytes=stored.activation_bytes,
        weight_bytes=stored.weight_bytes,
        output_bytes=2,
    )
    return np.asarray(matmul_cost(products, device, constants).time_s)


def _half(device: Device) -> str:
    return "bf16" if "bf16" in device.peak_flops else "fp16"


def possible(table: MatmulTable, device: Device, kernel: str = "16-bit") -> NDArray[np.bool_]:
    """Measurements no faster than the device's memory: operands left in L2 by the benchmark's last round are not meant."""
    stored = format_of(kernel, _half(device), device)
    operands = stored.activation_bytes * table.m * table.k + stored.weight_bytes * table.k * table.n
    return np.asarray(table.seconds >= (operands + 2 * table.m * table.n) / device.memory_bandwidth)


def held_out(table: MatmulTable) -> NDArray[np.bool_]:
    """Measurements of the (n, k) families that are kept for testing."""
    return share_of(families(table)) < HELD_OUT


def next_in_line(table: MatmulTable) -> NDArray[np.bool_]:
    """A quarter of the other families: left out in their turn, they say how far a fit is off where it saw nothing."""
    share = share_of(families(table))
    return (share >= HELD_OUT) & (share < HELD_OUT + (1 - HELD_OUT) / 4)


def fit_matmul(table: MatmulTable, device: Device, given: Mapping[str, Any], kernel: str = "16-bit") -> FitResult:
    """Return a device's matmul constants from measured products in one format.

    ``given`` holds what the table cannot tell: the library's ``tiles``, ``misaligned_slowdown`` and whatever else is not
    to be fitted; given everything, constants are only judged. Products with odd row counts above 512 do not occur in training and are left out of the fit, not of
    the statistics.
    """
    kept = table.where(possible(table, device, kernel))
    test = held_out(kept)
    used = kept.where(~test & ((kept.m <= 512) | (kept.m % 64 == 0)))
    used = used.where(_sample(used))

    def constants_of(fitted: Constants) -> MatmulConstants:
        return MatmulConstants.from_mapping({**fitted, **given})

    known = {*given} if "shallow_k" in given else {*given, "shallow_s"}
    ranges = {name: r for name, r in KERNEL_RANGES[kernel].items() if name not in known}
    fitted = (
        fit_constants(lambda x: predicted_seconds(used, device, constants_of(x), kernel), used.seconds, ranges)
        if ranges
        else {}
    )
    rows = {"table": len(table), "possible": len(kept), "fitted": len(used), "held_out": int(test.sum())}
    residuals = residuals_by_range(kept.where(test), device, constants_of(fitted), kernel)
    return FitResult(constants={**fitted, **given}, rows=rows, residuals=residuals)


def fit_small_matmul(
    table: MatmulTable, device: Device, relative: Mapping[str, Any], kernel: str = "16-bit"
) -> FitResult:
    """Return a device's matmul constants from a table of few shapes: a relative's, moved as far as the table shows.

    A relative's constant counts as one measurement whose error, of the ordinary size, is its distance in ``SPREADS``
    (the maximum a posteriori). Every (n, k) family is held out of the fit that its residuals come from, in four parts.
    """
    kept = table.where(possible(table, device, kernel))
    part = np.floor(4 * share_of(families(kept)))
    fitted = _moved(kept, device, relative, kernel)
    predicted = np.empty(len(kept))
    for i in range(4):
        if (part == i).any():
            others = _moved(kept.where(part != i), device, relative, kernel) if (part != i).any() else relative
            predicted[part == i] = predicted_seconds(
                kept.where(part == i), device, MatmulConstants.from_mapping(others), kernel
            )
    rows = {"table": len(table), "possible": len(kept), "fitted": len(kept)}
    return FitResult(constants=fitted, rows=rows, residuals=_by_range(kept, predicted))


def _moved(table: MatmulTable, device: Device, relative: Mapping[str, Any], kernel: str) -> dict[str, Any]:
    told = SPREADS if table.m.max() >= TELLING_ROWS else OF_MEMORY
    names = [name for name in told if relative[name] > 0]
    used = table.where(_evenly(table))
    centre = np.array([relative[name] for name in names])
    weight = ORDINARY_ERROR / np.array([SPREADS[name] for name in names])
    ranges = {
        name: Range(low=0.2 * relative[name], starts=(0.99 * relative[name],), high=_most(name, 5 * relative[name]))
        for name in names
    }

    def predict(fitted: Constants) -> Array:
        constants = MatmulConstants.from_mapping({**relative, **fitted})
        prior = (np.array([fitted[name] for name in names]) / centre) ** weight
        return np.concatenate([predicted_seconds(used, device, constants, kernel), prior])

    fitted = fit_constants(predict, np.concatenate([used.seconds, np.ones(len(names))]), ranges)
    return {**relative, **fitted}


def _most(name: str, value: float) -> float:
    return min(value, 1.0) if name in {"peak_fraction", "memory_fraction", "throttled_share"} else value


def families(table: MatmulTable) -> list[str]:
    """The (n, k) family of every measurement: one weight matrix."""
    return [f"{n:.0f}x{k:.0f}" for n, k in zip(table.n, table.k, strict=True)]


def residuals_by_range(
    table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit"
) -> dict[str, dict[str, float]]:
    """Error statistics of a table for the ranges of shapes that matter."""
    return _by_range(table, predicted_seconds(table, device, constants, kernel))


def _by_range(table: MatmulTable, predicted: Array) -> dict[str, dict[str, float]]:
    training = training_sized(table)
    large = 2 * table.m * table.n * table.k > 1e11
    ranges = {
        "all": table.m > 0,
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


def _evenly(table: MatmulTable) -> NDArray[np.bool_]:
    """A fixed selection of at most ``PER_FAMILY`` measurements of every (n, k) family, spread over the rows."""
    names = np.array(families(table))
    chosen = np.zeros(len(table), dtype=bool)
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        ordered = members[np.argsort(table.m[members], kind="stable")]
        logs = np.log(table.m[ordered])
        wanted = np.linspace(logs[0], logs[-1], PER_FAMILY)
        chosen[ordered[np.minimum(np.searchsorted(logs, wanted), len(ordered) - 1)]] = True
    return chosen
