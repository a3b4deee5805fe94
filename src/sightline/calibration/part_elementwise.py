"""Constants of bandwidth-bound kernels from anybody's table."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.calibration.elementwise import fit_elementwise, predicted_seconds
from sightline.calibration.elementwise_tables import BYTES, ElementwiseTable
from sightline.calibration.entries import figures
from sightline.calibration.part_fit import Array, PartFit, Points, by_kernel, columns
from sightline.catalog import entry
from sightline.cost.elementwise import ElementwiseConstants, load_elementwise
from sightline.cost.families import family_of
from sightline.errors import InputError
from sightline.scenario import Cluster

if TYPE_CHECKING:
    import polars as pl

LENT = ("memory_fraction", "cache_gain", "vector_fraction", "kernel_latency_s")
"""Constants that a class which the table lacks takes from the nearest family."""


def bound(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """Reading and writing the distinct tensors in L2."""
    c = columns(rows, "tokens", "width", "distinct")
    return np.asarray(BYTES * c["distinct"] * c["tokens"] * c["width"] / cluster.device.l2_bandwidth)


def fit(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of every class of kernels in the rows; the other classes are the nearest family's."""
    generation = _generation(rows)
    shipped = entry("calibrations", f"{family_of(cluster.device, 'elementwise')}/elementwise")
    kernels = {name: _lent(classes) for name, classes in shipped["kernels"].items()}
    fitted: dict[str, Any] = dict(kernels.get(generation) or kernels[shipped["measured"]])
    counted, residuals, constants, drawn = {}, {}, {}, []
    for kind, part in by_kernel(rows).items():
        table = _table(part)
        result = fit_elementwise(table, cluster.device)
        fitted[kind] = {"evidence": "calibrated", **figures(result), **result.constants}
        counted[kind], residuals[kind], constants[kind] = result.rows, result.residuals, result.constants
        drawn.append(_points(kind, table, cluster, ElementwiseConstants(**result.constants)))
        done()
    content = {"measured": generation, "kernels": {**kernels, generation: fitted}}
    return PartFit(content=content, constants=constants, rows=counted, residuals=residuals, points=drawn)


def points(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict."""
    family = family_of(cluster.device, "elementwise")
    shipped = load_elementwise(family, "scalar" if _generation(rows) == "scalar" else "vectorized")
    return [_points(kind, _table(part), cluster, shipped[kind]) for kind, part in by_kernel(rows).items()]


def _generation(rows: "pl.DataFrame") -> str:
    found = sorted(rows["generation"].unique().to_list())
    if len(found) > 1:
        raise InputError(
            "the tables mix vLLM's kernels of 2023 (Vidur, Frontier) with later ones; fit them one after the other"
        )
    return str(found[0])


def _lent(classes: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: {"evidence": "extrapolated", **{name: c[name] for name in LENT}} for kind, c in classes.items()}


def _points(kind: str, table: ElementwiseTable, cluster: Cluster, constants: ElementwiseConstants) -> Points:
    predicted = predicted_seconds(table, cluster.device, constants)
    return Points(kernel=kind, size=table.traffic_bytes, unit="B", predicted=predicted, measured=table.seconds)


def _table(rows: "pl.DataFrame") -> ElementwiseTable:
    c = columns(rows, "tokens", "width", "tensors", "distinct", "launches", "seconds")
    elements = BYTES * c["tokens"] * c["width"]
    return ElementwiseTable(
        seconds=c["seconds"],
        traffic_bytes=elements * c["tensors"],
        footprint_bytes=elements * c["distinct"],
        kernels=c["launches"],
        width=c["width"],
        launch_s=np.zeros(len(rows)),
    )
