"""Suites of measured matmuls, dense and grouped: by number format and device family."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.entries import device_of
from sightline.calibration.grouped_matmul import predicted_seconds as grouped_seconds
from sightline.calibration.grouped_matmul_entries import FITTED, GROUPED_TABLES, PHASES
from sightline.calibration.grouped_matmul_tables import read_infersim_grouped
from sightline.calibration.matmul import held_out, next_in_line, possible, predicted_seconds
from sightline.calibration.matmul_entries import DTYPES, FAMILIES, Grid, Layers
from sightline.calibration.matmul_surface import surface_over
from sightline.calibration.matmul_tables import MatmulTable, read_aiconfigurator_matmul
from sightline.catalog import entry, names
from sightline.cost.matmul.constants import MatmulConstants, load_matmul
from sightline.cost.matmul.grouped import GroupedLayout, load_grouped
from sightline.loading.clusters import read_cluster
from sightline.validation.operator_suite import Array, Compared, OperatorSuite
from sightline.validation.suite import Split

GRID_DECISIONS = (
    "Device time of one product; rows faster than one pass over the operands from device memory are left out.",
    "Split by (n, k), whole weight matrices: a quarter of them is kept from the fit of the constants.",
    "The fitted part is predicted as shipped, with the surface of residuals where the format has one; the test part with a surface that has not seen it.",
    "Intervals are as wide as the errors of a quarter of the fitted matrices with a surface that has not seen them.",
)
FORMULA_DECISIONS = (*GRID_DECISIONS[:2], "Predicted by the formula alone, without the surface of residuals.")
LAYER_DECISIONS = (
    "Linear layers of a few models; rows faster than one pass over the operands are left out.",
    "All of them are fitted on: too few matrices to keep some. The catalog's entry holds the errors of leaving each out in turn.",
)
GROUPED_DECISIONS = (
    "DeepGEMM's grouped products with fp8 blocks, up and down matrices of the experts of published models; rows per expert drawn within 30 % of the stated number.",
    "All of them are fitted on. The catalog's entry holds the errors of leaving each model out in turn.",
)
GOAL, FORMULA_GOAL = "median 3 %, p90 9 % fitted; median 5 % on test", "median 7 %"


def matmul_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of dense matmuls whose tables are in the data folder and whose constants are in the catalog."""
    for name, family in FAMILIES.items():
        if family.grid and (data / "aiconfigurator" / family.grid.file).is_file():
            yield from _grid_suites(data, name, family.grid)
        for layers in family.layers:
            if _is_fitted(name, layers.kernel) and all((data / file).is_file() for file in layers.files):
                yield OperatorSuite(
                    name=f"matmul-{layers.kernel} {name}",
                    source=layers.source,
                    decisions=LAYER_DECISIONS,
                    compare=partial(_compare_layers, data, name, layers),
                )


def _is_fitted(family: str, kernel: str) -> bool:
    """Say whether the catalog has constants of the format that were fitted to the family's own measurements."""
    if f"{family}/matmul" not in names("calibrations"):
        return False
    stated = entry("calibrations", f"{family}/matmul")["kernels"].get(kernel, {})
    return "constants" in stated and "of" not in stated


def _grid_suites(data: Path, name: str, grid: Grid) -> Iterator[OperatorSuite]:
    path = data / "aiconfigurator" / grid.file
    for kernel in grid.kernels:
        if not _is_fitted(name, kernel):
            continue
        source = f"ai-dynamo/aiconfigurator@095f58a, matmuls of {grid.device} with {grid.library}"
        yield OperatorSuite(
            name=f"matmul-{kernel} {name}",
            source=source,
            decisions=GRID_DECISIONS,
            compare=partial(_compare_grid, path, name, grid.device, kernel),
            goal=GOAL,
        )
        if load_matmul(name, kernel).surface is None:
            continue
        yield OperatorSuite(
            name=f"matmul-{kernel}-formula {name}",
            source=source,
            decisions=FORMULA_DECISIONS,
            compare=partial(_compare_grid, path, name, grid.device, kernel, formula=True),
            goal=FORMULA_GOAL,
        )


def _compare_grid(
    path: Path, family: str, device_name: str, kernel: str, *, formula: bool = False
) -> Mapping[Split, Compared]:
    device = read_cluster(f"1x {device_name}").device
    table = read_aiconfigurator_matmul(path, DTYPES[kernel])
    table = table.where(possible(table, device, kernel))
    constants = load_matmul(family, kernel)
    test = held_out(table)
    plain = predicted_seconds(table, device, constants.without_surface(), kernel)
    if formula or constants.surface is None:
        return {"fit": _compared(table, plain, ~test), "test": _compared(table, plain, test)}
    factor = np.where(
        test, _unseen_factor(table, plain, constants, ~test), constants.correction(table.m, table.n, table.k)
    )
    fitted, near = _compared(table, plain * factor, ~test), next_in_line(table)
    beside = plain[near] * _unseen_factor(table, plain, constants, ~test & ~near)[near]
    unseen = np.log(beside / table.seconds[near])
    return {"fit": replace(fitted, unseen=unseen), "test": _compared(table, plain * factor, test)}


def _unseen_factor(table: MatmulTable, plain: Array, constants: MatmulConstants, seen: NDArray[np.bool_]) -> Array:
    """Return what a surface fitted to the ``seen`` rows alone corrects everywhere."""
    fitted = replace(constants, surface=surface_over(table, plain, seen))
    return np.asarray(fitted.correction(table.m, table.n, table.k))


def _compare_layers(data: Path, family: str, layers: Layers) -> Mapping[Split, Compared]:
    device = read_cluster(f"1x {layers.device}").device
    table = layers.read([data / file for file in layers.files])
    table = table.where(possible(table, device, layers.kernel))
    predicted = predicted_seconds(table, device, load_matmul(family, layers.kernel), layers.kernel)
    return {"fit": _compared(table, predicted, np.ones(len(table), dtype=bool))}


def _compared(table: MatmulTable, predicted: Array, rows: NDArray[np.bool_]) -> Compared:
    part = table.where(rows)
    return Compared(predicted=predicted[rows], measured=part.seconds, sizes={"m": part.m, "n": part.n, "k": part.k})


def grouped_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites of grouped matmuls by layout."""
    layouts: tuple[GroupedLayout, ...] = ("masked", "contiguous")
    for family, table_name in GROUPED_TABLES.items():
        for layout in layouts:
            path = data / "infersim" / f"grouped_gemm_{PHASES[layout]}_{table_name}_data.csv"
            if path.is_file() and f"{family}/grouped" in names("calibrations"):
                yield OperatorSuite(
                    name=f"grouped-matmul-{PHASES[layout]} {family}",
                    source=f"alibaba/InferSim, bench_data of DeepGEMM on {table_name.upper()}",
                    decisions=GROUPED_DECISIONS,
                    compare=partial(_compare_grouped, path, family, layout),
                )


def _compare_grouped(path: Path, family: str, layout: GroupedLayout) -> Mapping[Split, Compared]:
    device = device_of(family)
    table = read_infersim_grouped(path, float(device.peak_flops["fp8"]))
    constants, _ = load_grouped(family, FITTED, layout)
    sizes = {"rows": table.rows, "experts": table.active, "n": table.n, "k": table.k}
    return {
        "fit": Compared(
            predicted=grouped_seconds(table, device, constants), measured=np.asarray(table.seconds), sizes=sizes
        )
    }
