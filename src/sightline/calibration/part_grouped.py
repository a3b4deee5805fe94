"""Constants of experts' grouped matmuls from anybody's table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.calibration.grouped_matmul import fit_grouped, predicted_seconds
from sightline.calibration.grouped_matmul_tables import GroupedTable
from sightline.calibration.part_fit import Array, PartFit, Points, by_kernel, columns
from sightline.catalog import entry
from sightline.cost.families import family_of
from sightline.cost.matmul.grouped import GroupedConstants
from sightline.errors import InputError
from sightline.scenario import Cluster

if TYPE_CHECKING:
    import polars as pl

FORMAT = "fp8-block"
"""What DeepGEMM's tables were measured in."""


def bound(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """Arithmetic at the peak; the share of it that a table states is not asked."""
    c = columns(rows, "experts", "local_experts", "rows_per_expert", "n", "k")
    least = 0.5 * c["rows_per_expert"] * c["local_experts"]
    return np.asarray(2 * least * c["n"] * c["k"] / _peak(cluster))


def _peak(cluster: Cluster) -> float:
    if "fp8" not in cluster.device.peak_flops:
        raise InputError(f"{cluster.device.name} has no fp8 peak, and tables of grouped matmuls are in fp8")
    return float(cluster.device.peak_flops["fp8"])


def fit(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of every layout in the rows; number formats that were not measured come from the nearest family."""
    shipped = entry("calibrations", f"{family_of(cluster.device, 'grouped')}/grouped")["kernels"]
    kernels: dict[str, Any] = {name: dict(layouts) for name, layouts in shipped.items()}
    for layouts in kernels.values():
        layouts["evidence"] = "extrapolated"
    kernels[FORMAT]["evidence"] = "calibrated"
    counted, residuals, constants, drawn = {}, {}, {}, []
    for layout, part in by_kernel(rows).items():
        table = _table(part, _peak(cluster))
        result = fit_grouped(table, cluster.device, layout)
        kernels[FORMAT][layout] = {"rows": dict(result.rows), "residuals": dict(result.residuals), **result.constants}
        constants[layout], counted[layout], residuals[layout] = result.constants, result.rows, result.residuals
        drawn.append(_points(layout, table, cluster, GroupedConstants.from_mapping(result.constants)))
        done()
    return PartFit(content={"kernels": kernels}, constants=constants, rows=counted, residuals=residuals, points=drawn)


def points(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict."""
    shipped = entry("calibrations", f"{family_of(cluster.device, 'grouped')}/grouped")["kernels"][FORMAT]
    return [
        _points(layout, _table(part, _peak(cluster)), cluster, GroupedConstants.from_mapping(shipped[layout]))
        for layout, part in by_kernel(rows).items()
    ]


def _points(layout: str, table: GroupedTable, cluster: Cluster, constants: GroupedConstants) -> Points:
    predicted = predicted_seconds(table, cluster.device, constants)
    flops = 2 * table.rows * table.n * table.k
    return Points(kernel=layout, size=flops, unit="FLOP", predicted=predicted, measured=table.seconds)


def _table(rows: "pl.DataFrame", peak: float) -> GroupedTable:
    c = columns(rows, "seconds", "experts", "local_experts", "rows_per_expert", "mfu", "n", "k")
    done = c["mfu"] * peak * c["seconds"] / (2 * c["n"] * c["k"])
    active = np.where(c["rows_per_expert"] == 1, np.minimum(done, c["local_experts"]), c["local_experts"])
    return GroupedTable(seconds=c["seconds"], family=c["experts"], rows=done, active=active, n=c["n"], k=c["k"])
