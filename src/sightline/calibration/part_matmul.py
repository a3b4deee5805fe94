"""Matmul constants of a device from anybody's table of products."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.calibration.matmul import fit_matmul, predicted_seconds
from sightline.calibration.matmul_tables import MatmulTable
from sightline.calibration.part_fit import Array, PartFit, Points, by_kernel, columns
from sightline.catalog import entry
from sightline.cost.families import family_of
from sightline.cost.matmul import MatmulConstants
from sightline.errors import InputError
from sightline.program.matmul_formats import MATMUL_FORMATS, MODEL_DTYPE
from sightline.scenario import Cluster, Device

if TYPE_CHECKING:
    import polars as pl

GIVEN = ("tiles", "misaligned_slowdown")
"""What a table of times cannot tell, taken from the device's nearest family."""


def bound(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """The longer of arithmetic at the peak and of moving the operands from L2."""
    shape = columns(rows, "m", "n", "k")
    m, n, k = shape["m"], shape["n"], shape["k"]
    kernels = rows["kernel"].to_list()
    peak = np.array([_peak(kernel, cluster.device) for kernel in kernels])
    activation = np.array([MATMUL_FORMATS[kernel].activation_bytes for kernel in kernels])
    weight = np.array([MATMUL_FORMATS[kernel].weight_bytes for kernel in kernels])
    moved = activation * m * k + weight * k * n + 2 * m * n
    return np.asarray(np.maximum(2 * m * n * k / peak, moved / cluster.device.l2_bandwidth))


def _peak(kernel: str, device: Device) -> float:
    dtype = MATMUL_FORMATS[kernel].compute_dtype
    if dtype == MODEL_DTYPE:
        dtype = "bf16" if "bf16" in device.peak_flops else "fp16"
    if dtype not in device.peak_flops:
        raise InputError(
            f"{device.name} has no {dtype} peak, so no {kernel} products; it computes in {', '.join(device.peak_flops)}"
        )
    return float(device.peak_flops[dtype])


def fit(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of every number format in the rows."""
    shipped = entry("calibrations", f"{family_of(cluster.device, 'matmul')}/matmul")["kernels"]
    kernels: dict[str, Any] = {}
    points = []
    for kernel, part in by_kernel(rows).items():
        base = shipped.get(kernel, shipped["16-bit"])["constants"]
        table = MatmulTable(seconds=part["seconds"].to_numpy(), **columns(part, "m", "n", "k"))
        result = fit_matmul(table, cluster.device, {name: base[name] for name in GIVEN})
        kernels[kernel] = {
            "rows": dict(result.rows),
            "residuals": dict(result.residuals),
            "constants": result.constants,
        }
        predicted = predicted_seconds(table, cluster.device, MatmulConstants.from_mapping(result.constants))
        flops = 2 * table.m * table.n * table.k
        points.append(Points(kernel=kernel, size=flops, unit="FLOP", predicted=predicted, measured=table.seconds))
        done()
    return PartFit(
        content={"kernels": kernels},
        constants={name: _plain(k["constants"]) for name, k in kernels.items()},
        rows={name: k["rows"] for name, k in kernels.items()},
        residuals={name: k["residuals"] for name, k in kernels.items()},
        points=points,
    )


def _plain(constants: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in constants.items() if isinstance(value, int | float)}
