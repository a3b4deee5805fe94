"""Matmul constants as catalog entries: of the shipped families, and of a device from anybody's table of products."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from sightline.calibration.fits import Array, FitResult, by_kernel, columns
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.matmul import (
    HELD_OUT,
    MatmulTable,
    fit_matmul,
    fit_matmul_surface,
    fit_small_matmul,
    fit_sustained,
    has_enough,
    predicted_seconds,
)
from sightline.calibration.parts.part import (
    Entry,
    Part,
    between,
    figures,
    nearest_entry,
    provenance,
)
from sightline.catalog import entry
from sightline.cost.clock import SustainedLaw, clock_hz, lanes, sustained_share
from sightline.cost.families import family_of
from sightline.cost.matmul import MatmulConstants, at_clock, load_matmul
from sightline.cost.residual_surface import ResidualSurface
from sightline.errors import InputError
from sightline.quantities import significant
from sightline.scenario import Cluster, Device
from sightline.scenario.precision import MATMUL_FORMATS, MODEL_DTYPE

GIVEN = ("tiles", "misaligned_slowdown", "misaligned_loads")
"""What a table of times cannot tell."""
VECTOR_ROWS = 4.0
"""Rows up to which TensorRT-LLM multiplies quantized weights on the vector units."""
WEIGHT_ONLY = ("w8a16", "w4a16")
"""Formats whose products are computed in 16 bits."""
LENT = ("fp8", "fp8-block", "w8a8", "w8a16", "w4a16")
OF_MEMORY = "slower than one pass over its operands from device memory"


def matmul_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of matmuls by device family; ``generic`` lies between them."""
    families: Mapping[str, Stated] = stated["families"]
    measured: dict[str, dict[str, Entry]] = {name: {} for name in families}
    for moved in (False, True):  # a relative's constants are fitted before those that start from them
        for name, family in families.items():
            for table in family["tables"]:
                if ("relative" in table) == moved:
                    measured[name] |= _measured(table, device_of(name), measured, read)
    sustained = fit_sustained(stated["sustained"])
    law = SustainedLaw.from_mapping(sustained)
    entries = {
        name: {
            **provenance("each kernel names its own", "fitted", "matmul"),
            **_stated(family),
            "units": _units(device_of(name), law),
            "kernels": {**measured[name], **_lent(measured, name, family.get("lenders", ()))},
        }
        for name, family in families.items()
    }
    generic = _generic(measured, stated["generic_16_bit"])
    units = between([entries[name]["units"] for name in stated["generic_16_bit"]])
    entries["generic"] = {**generic, "units": units, "sustained": sustained}
    return entries


def _measured(table: Stated, device: Device, measured: Mapping[str, Mapping[str, Entry]], read: Read) -> Entry:
    """The formats of one table, each fitted to its own products."""
    rows, shapes = by_kernel(read(table)), _shapes(table["shapes_of"])
    kernels: dict[str, Entry] = {}
    for kernel, printed in table["kernels"].items():
        products = MatmulTable.of(rows[kernel])
        if "relative" in table:
            relative = {**measured[table["relative"]]["16-bit"]["constants"], **shapes}
            source = f"{table['source']}; constants of {table['relative']} moved as far as the table shows"
            kernels[kernel] = {"source": source, **_fitted(fit_small_matmul, products, device, relative, kernel)}
        else:
            given = _given(table, shapes, kernels, kernel)
            fitted = _fitted(fit_matmul, products, device, given, kernel)
            kernels[kernel] = {"source": f"{table['source']}, {printed}", **fitted}
    return kernels


def _shapes(family: str) -> Entry:
    shipped = entry("calibrations", f"{family}/matmul")["kernels"]["16-bit"]["constants"]
    return {name: shipped[name] for name in GIVEN if name in shipped}


def _given(table: Stated, shapes: Entry, fitted: Mapping[str, Entry], kernel: str) -> Entry:
    """What is not fitted of a format."""
    if kernel == table.get("kept"):
        return dict(entry("calibrations", f"{table['shapes_of']}/matmul")["kernels"][kernel]["constants"])
    if kernel == "fp8":
        return {**shapes, "latency_s": fitted["16-bit"]["constants"]["latency_s"]}
    if kernel == "16-bit":
        return dict(shapes)
    return {**shapes, "vector_rows": VECTOR_ROWS, **(table.get("weight_only", {}) if kernel in WEIGHT_ONLY else {})}


def _fitted(
    fit: Callable[[MatmulTable, Device, Mapping[str, Any], str], FitResult],
    table: MatmulTable,
    device: Device,
    given: Mapping[str, Any],
    kernel: str,
) -> Entry:
    """One format's part of an entry: constants, residuals, and the surface where the table is large enough for one.

    ``fit`` is `fit_matmul` where the table spans the plane, else `fit_small_matmul`, which moves a relative's
    constants.
    """
    result = fit(table, device, given, kernel)
    fitted = {**figures(result), "constants": dict(result.constants)}
    if not has_enough(table):
        return fitted
    surface, errors = fit_matmul_surface(table, device, MatmulConstants.from_mapping(result.constants), kernel)
    return {**fitted, "surface_residuals": errors, "surface": surface.to_mapping()}


def _stated(family: Stated) -> Entry:
    """Sources and filters that an entry states once."""
    grid = next((table for table in family["tables"] if "relative" not in table), None)
    if grid is None:
        return {"filters": [OF_MEMORY]}
    shipped, kept = entry("calibrations", f"{grid['shapes_of']}/matmul"), grid.get("kept")
    return {
        "filters": [
            OF_MEMORY,
            f"a fixed {HELD_OUT:.0%} of the (n, k) families held out; residuals are theirs, the surface left aside",
            "fit: rows above 512 only in multiples of 64; a fixed sample, two thirds of training's sizes",
            *([f"{kept}: constants as first fitted, because training's were fitted on them"] if kept else []),
        ],
        "sources": dict(shipped["sources"]),
        "evidences": dict(shipped["evidences"]),
    }


def _lent(measured: Mapping[str, Mapping[str, Entry]], name: str, lenders: Sequence[str]) -> dict[str, Entry]:
    """Formats that ``name`` was not measured in, with the constants of the first lender that was."""
    lent: dict[str, Entry] = {}
    for kernel in ("16-bit", *LENT):
        lender = next((other for other in lenders if kernel in measured[other]), None)
        if lender and kernel not in measured[name]:
            constants = measured[lender][kernel]["constants"]
            moved = constants_at(device_of(name), constants, _units(device_of(lender)))
            lent[kernel] = {"of": lender, "constants": moved}
    return lent


def constants_at(device: Device, constants: Mapping[str, Any], units: Mapping[str, float]) -> Entry:
    """The constants of an entry, measured on compute units of such clock and lanes, as they are on ``device``."""
    measured = MatmulConstants.from_mapping(constants)
    moved = at_clock(measured, device, clock_hz=units["clock_hz"], lanes=units["lanes"])
    return {
        name: significant(getattr(moved, name)) if isinstance(value, float) else value
        for name, value in constants.items()
    }


def _units(device: Device, law: SustainedLaw | None = None) -> dict[str, float]:
    """What tells times in cycles, work per cycle, and the power limit's share, from one device to another."""
    units = {"clock_hz": significant(clock_hz(device), 4), "lanes": round(float(lanes(device)))}
    share = None if law is None else sustained_share(device, law)
    return units if share is None else {**units, "sustained": significant(share)}


def _generic(measured: Mapping[str, Mapping[str, Entry]], sources_16_bit: Sequence[str]) -> Entry:
    """Geometric means over the families that were measured in a format."""
    kernels: dict[str, Entry] = {}
    for kernel in ("16-bit", *LENT):
        sources = sources_16_bit if kernel == "16-bit" else [n for n in measured if kernel in measured[n]]
        sets = [measured[name][kernel]["constants"] for name in sources]
        sets = [{name: x[name] for name in x if all(name in other for other in sets)} for x in sets]
        constants = {**between(sets), "tiles": sets[0]["tiles"]}
        kernels[kernel] = {"source": f"geometric mean of {' and '.join(sources)}", "constants": constants}
    return {**provenance("each kernel names its own", "datasheet", "matmul"), "kernels": kernels}


def _bound(rows: pl.DataFrame, cluster: Cluster) -> Array:
    """The longer of arithmetic at the peak and of moving the operands from L2."""
    m, n, k = columns(rows, "m", "n", "k").values()
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


def _fit_kernel(kernel: str, table: MatmulTable, cluster: Cluster) -> tuple[FitResult, Entry]:
    """Constants of their own and a surface from a table over the whole plane; else the nearest family's, moved."""
    lent: Mapping[str, Entry] = nearest_entry("matmul", cluster)["kernels"]
    nearest = next(name for name in (kernel, *MATMUL_FORMATS[kernel].nearest, "16-bit") if name in lent)
    relative = lent[nearest]["constants"]
    if has_enough(table) and kernel in manifest("matmul")["ranges"]:
        given = {name: relative[name] for name in GIVEN if name in relative}
        given |= {"latency_s": relative["latency_s"]} if kernel == "fp8" else {}
        given |= {"vector_rows": VECTOR_ROWS} if kernel.startswith("w") else {}
        found = _fitted(fit_matmul, table, cluster.device, given, kernel)
    else:
        found = _fitted(fit_small_matmul, table, cluster.device, relative, kernel)
    return FitResult(constants=found["constants"], rows=found["rows"], residuals=_residuals(found)), found


def _content(fitted: Mapping[str, Entry], _: pl.DataFrame, cluster: Cluster) -> Entry:
    """The number formats that were fitted; 16-bit ones that are missing are the nearest family's."""
    family = family_of(cluster.device, "matmul")
    lent = {"of": family, "constants": entry("calibrations", f"{family}/matmul")["kernels"]["16-bit"]["constants"]}
    return {"kernels": {**fitted, **({} if "16-bit" in fitted else {"16-bit": lent})}}


def _constants(kernel: Entry) -> MatmulConstants:
    constants = MatmulConstants.from_mapping(kernel["constants"])
    if "surface" not in kernel:
        return constants
    return replace(constants, surface=ResidualSurface.from_mapping(kernel["surface"]))


def _residuals(kernel: Entry) -> dict[str, Mapping[str, float]]:
    """Errors of the formula on families left out, and with the surface where there is one."""
    with_surface = {f"with the surface, {name}": r for name, r in kernel.get("surface_residuals", {}).items()}
    return {**{f"left out, {name}": r for name, r in kernel["residuals"].items()}, **with_surface}


def _predict(kernel: str, table: MatmulTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> Array:
    family = family_of(cluster.device, "matmul")
    constants = load_matmul(family, kernel) if stated is None else _constants(stated["kernels"][kernel])
    return predicted_seconds(table, cluster.device, constants, kernel)


MATMUL = Part(
    keys=("kernel", "m", "n", "k"),
    least=24,
    bound=_bound,
    table=lambda rows, _: MatmulTable.of(rows),
    fit_kernel=_fit_kernel,
    content=_content,
    predict=_predict,
)
