"""Constants of experts' grouped matmuls: the fits, the shipped entries, anybody's table."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl

from sightline.calibration.fits import Array, FitResult, Table, by_kernel, columns, fit_and_judge, ranges_of, within
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import (
    Entry,
    Part,
    between,
    constants_in,
    figures,
    nearest_entry,
    provenance,
)
from sightline.cost.grouped_matmul import GroupedConstants, grouped_matmul_cost
from sightline.errors import InputError
from sightline.program import GroupedMatmul
from sightline.quantities import significant
from sightline.scenario import Cluster, Device

FITTED = "fp8-block"
"""What DeepGEMM's tables were measured in."""
TILES: Mapping[str, Mapping[str, float]] = {
    "masked": {"block_rows": 64.0, "block_columns": 128.0},
    "contiguous": {"block_rows": 128.0, "block_columns": 128.0},
}
"""DeepGEMM's: the smallest that Hopper multiplies for slots mostly empty, the padding of the other layout."""
DRAWN_WITHIN = 0.3
"""How far the tables' rows per expert spread around their mean."""


HIGHEST_SHARE = 0.95
"""Of a peak or a bandwidth that is estimated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedTable(Table):
    """Measured products of rows with the ``k x n`` matrices of their experts."""

    family: Array
    """The model that the shape is of, by its number of experts."""
    rows: Array
    """Rows of all experts."""
    active: Array
    """Experts with rows."""
    n: Array
    k: Array

    @property
    def size(self) -> Array:
        """FLOPs."""
        return 2 * self.rows * self.n * self.k


def grouped_table(rows: pl.DataFrame, device: Device) -> GroupedTable:
    """The products of samples on a device.

    Rows per expert were drawn within 30 % of the stated number and rounded down; the share that a table states of the
    device's peak in fp8 tells how many there were. Of experts with one row on average, half had none.
    """
    c = columns(rows, "seconds", "experts", "local_experts", "rows_per_expert", "mfu", "n", "k")
    done = c["mfu"] * _peak(device) * c["seconds"] / (2 * c["n"] * c["k"])
    active = np.where(c["rows_per_expert"] == 1, np.minimum(done, c["local_experts"]), c["local_experts"])
    return GroupedTable(seconds=c["seconds"], family=c["experts"], rows=done, active=active, n=c["n"], k=c["k"])


def _peak(device: Device) -> float:
    if "fp8" not in device.peak_flops:
        raise InputError(f"{device.name} has no fp8 peak, but grouped matmul tables use fp8")
    return float(device.peak_flops["fp8"])


def predicted_seconds(table: GroupedTable, device: Device, constants: GroupedConstants) -> Array:
    """Predicted time of every product of a table, in fp8 with a 16-bit output."""
    products = table.operators(
        GroupedMatmul,
        "experts",
        "matmul",
        experts=table.active,
        dtype="fp8",
        element_bytes=1.0,
        weight_bytes=1.0,
        output_bytes=2.0,
        kernel=FITTED,
    )
    return np.asarray(grouped_matmul_cost(products, device, constants, unevenness=DRAWN_WITHIN).time_s)


def fit_grouped(table: GroupedTable, device: Device, layout: str) -> FitResult:
    """Return a layout's constants; whole models, or shapes where there is one model only, are left out in turn."""
    known = {**TILES[layout], "unit_flops": significant(device.peak_flops["fp8"] / device.compute_units, 6)}

    def predict(part: GroupedTable, constants: Mapping[str, Any]) -> Array:
        return predicted_seconds(part, device, GroupedConstants.from_mapping(constants))

    several = len(np.unique(table.family)) > 1
    groups = {"model": table.family} if several else {"shape": table.n}
    result = fit_and_judge(table, within(ranges_of(manifest("grouped")["ranges"]), known, predict), predict, groups)
    constants = GroupedConstants.from_mapping(result.constants)
    return replace(result, constants={f.name: getattr(constants, f.name) for f in fields(GroupedConstants)})


def grouped_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of grouped matmuls by device family; ``generic`` lies between them."""
    entries: dict[str, Entry] = {}
    for family, told in stated["families"].items():
        rows, device = by_kernel(read(told["tables"])), device_of(family)
        fitted: Entry = {"evidence": "calibrated"}
        for layout in TILES:
            result = fit_grouped(grouped_table(rows[layout], device), device, layout)
            fitted[layout] = {**figures(result), **result.constants}
        entries[family] = {
            **provenance(told["source"], "fitted", "grouped"),
            "kernels": {FITTED: fitted, **_other_formats(fitted, "extrapolated", stated)},
        }
    middle: Entry = {"evidence": "datasheet"}
    common = device_of(stated["common"])
    for layout in TILES:
        middle[layout] = between([_on(common, e["kernels"][FITTED][layout]) for e in entries.values()])
    entries["generic"] = {
        **provenance(f"geometric mean of the fits for {' and '.join(entries)}", "datasheet", "grouped"),
        "kernels": {FITTED: middle, **_other_formats(middle, "datasheet", stated)},
    }
    return entries


def _other_formats(fitted: Entry, evidence: str, stated: Stated) -> dict[str, Entry]:
    """What number formats that were not measured take, by their rates over the measured one's."""
    formats: dict[str, Entry] = {}
    for name, (peak, memory) in stated["relative_rates"].items():
        formats[name] = {"evidence": evidence}
        for layout in TILES:
            constants = constants_in(fitted[layout])
            if evidence != "datasheet":  # estimates for this very unit
                constants.pop("unit_flops")
            for share, rate in (("peak_fraction", peak), ("memory_fraction", memory)):
                constants[share] = significant(min(constants[share] * rate, HIGHEST_SHARE))
            formats[name][layout] = constants
    return formats


def _on(device: Device, layout: Entry) -> Entry:
    """A layout's constants as they would be on the device."""
    unit_flops = float(device.peak_flops["fp8"] / device.compute_units)
    peak_fraction, overhead_k = GroupedConstants.from_mapping(layout).on(unit_flops)
    return {
        **constants_in(layout),
        "peak_fraction": float(peak_fraction),
        "tile_overhead_k": float(overhead_k),
        "unit_flops": unit_flops,
    }


def _bound(rows: pl.DataFrame, cluster: Cluster) -> Array:
    """Arithmetic at the peak; the share of it that a table states is not asked."""
    c = columns(rows, "experts", "local_experts", "rows_per_expert", "n", "k")
    least = 0.5 * c["rows_per_expert"] * c["local_experts"]
    return np.asarray(2 * least * c["n"] * c["k"] / _peak(cluster.device))


def _fit_layout(layout: str, table: GroupedTable, cluster: Cluster) -> tuple[FitResult, Entry]:
    result = fit_grouped(table, cluster.device, layout)
    return result, {**figures(result), **result.constants}


def _content(fitted: Mapping[str, Entry], _: pl.DataFrame, cluster: Cluster) -> Entry:
    """The layouts that were fitted; number formats that were not measured come from the nearest family."""
    shipped = nearest_entry("grouped", cluster)["kernels"]
    kernels: Entry = {name: {**layouts, "evidence": "extrapolated"} for name, layouts in shipped.items()}
    kernels[FITTED] |= {"evidence": "calibrated", **fitted}
    return {"kernels": kernels}


def _predict(layout: str, table: GroupedTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> Array:
    kernels = (stated or nearest_entry("grouped", cluster))["kernels"]
    return predicted_seconds(table, cluster.device, GroupedConstants.from_mapping(kernels[FITTED][layout]))


GROUPED = Part(
    keys=("kernel", "experts", "local_experts", "rows_per_expert", "n", "k"),
    least=8,
    bound=_bound,
    table=lambda rows, cluster: grouped_table(rows, cluster.device),
    fit_kernel=_fit_layout,
    content=_content,
    predict=_predict,
)
