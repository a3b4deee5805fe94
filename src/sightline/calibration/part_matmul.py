"""Matmul constants of a device from anybody's table of products."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.calibration.matmul import KERNEL_RANGES, fit_small_matmul, predicted_seconds
from sightline.calibration.matmul_entries import GIVEN, VECTOR_ROWS, kernel_entry
from sightline.calibration.matmul_surface import has_enough
from sightline.calibration.matmul_tables import MatmulTable
from sightline.calibration.part_fit import Array, PartFit, Points, by_kernel, columns
from sightline.catalog import entry
from sightline.cost.families import family_of
from sightline.cost.matmul.constants import NEAREST_KERNELS, MatmulConstants, load_matmul
from sightline.cost.residual_surface import ResidualSurface
from sightline.errors import InputError
from sightline.program.matmul_formats import MATMUL_FORMATS, MODEL_DTYPE
from sightline.scenario import Cluster, Device

if TYPE_CHECKING:
    import polars as pl

Kernel = dict[str, Any]
"""A number format's part of a catalog entry."""


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
    """The constants of every number format in the rows; 16-bit ones that are missing are the nearest family's."""
    relative = family_of(cluster.device, "matmul")
    lent: Mapping[str, Kernel] = entry("calibrations", f"{relative}/matmul")["kernels"]
    kernels: dict[str, Kernel] = {}
    drawn = []
    for kernel, part in by_kernel(rows).items():
        table = _table(part)
        kernels[kernel] = _fitted(table, cluster.device, kernel, lent)
        drawn.append(_points(table, cluster.device, _constants(kernels[kernel]), kernel))
        done()
    measured = dict(kernels)
    if "16-bit" not in kernels:
        kernels["16-bit"] = {"of": relative, "constants": lent["16-bit"]["constants"]}
    return PartFit(
        content={"kernels": kernels},
        constants={name: _plain(k["constants"]) for name, k in measured.items()},
        rows={name: k["rows"] for name, k in measured.items()},
        residuals={name: _residuals(k) for name, k in measured.items()},
        points=drawn,
    )


def points(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict."""
    family = family_of(cluster.device, "matmul")
    return [
        _points(_table(part), cluster.device, load_matmul(family, kernel), kernel)
        for kernel, part in by_kernel(rows).items()
    ]


def _table(rows: "pl.DataFrame") -> MatmulTable:
    return MatmulTable(seconds=rows["seconds"].to_numpy(), **columns(rows, "m", "n", "k"))


def _points(table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str) -> Points:
    predicted = predicted_seconds(table, device, constants, kernel)
    flops = 2 * table.m * table.n * table.k
    return Points(kernel=kernel, size=flops, unit="FLOP", predicted=predicted, measured=table.seconds)


def _fitted(table: MatmulTable, device: Device, kernel: str, lent: Mapping[str, Kernel]) -> Kernel:
    """Constants of their own and a surface from a table over the whole plane; else the nearest family's, moved."""
    nearest = next(name for name in (kernel, *NEAREST_KERNELS.get(kernel, ()), "16-bit") if name in lent)
    relative = lent[nearest]["constants"]
    if has_enough(table) and kernel in KERNEL_RANGES:
        given = {name: relative[name] for name in GIVEN}
        given |= {"latency_s": relative["latency_s"]} if kernel == "fp8" else {}
        given |= {"vector_rows": VECTOR_ROWS} if kernel.startswith("w") else {}
        return kernel_entry(table, device, given, kernel)
    result = fit_small_matmul(table, device, relative, kernel)
    return {"rows": result.rows, "residuals": result.residuals, "constants": result.constants}


def _constants(kernel: Kernel) -> MatmulConstants:
    constants = MatmulConstants.from_mapping(kernel["constants"])
    if "surface" not in kernel:
        return constants
    return replace(constants, surface=ResidualSurface.from_mapping(kernel["surface"]))


def _residuals(kernel: Kernel) -> dict[str, Mapping[str, float]]:
    """Errors of the formula on families left out, and with the surface where there is one."""
    with_surface = {f"with the surface, {name}": r for name, r in kernel.get("surface_residuals", {}).items()}
    return {**{f"left out, {name}": r for name, r in kernel["residuals"].items()}, **with_surface}


def _plain(constants: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in constants.items() if isinstance(value, int | float)}
