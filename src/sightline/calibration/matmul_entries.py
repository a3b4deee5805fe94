"""Fits of matmuls as catalog entries: constants with their source, rows, filters and residuals."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightline.calibration.entries import Entry, between, existing, figures, provenance
from sightline.calibration.matmul import HELD_OUT, fit_matmul, fit_small_matmul
from sightline.calibration.matmul_families import DTYPES, FAMILIES, Family, Grid, Layers
from sightline.calibration.matmul_surface import fit_matmul_surface, has_enough
from sightline.calibration.matmul_tables import MatmulTable, read_aiconfigurator_matmul
from sightline.catalog import entry
from sightline.cost.clock import clock_hz, lanes
from sightline.cost.matmul.constants import MatmulConstants, at_clock
from sightline.loading.clusters import read_cluster
from sightline.quantities import significant
from sightline.scenario import Device

__all__ = ["DTYPES", "FAMILIES", "GIVEN", "VECTOR_ROWS", "Family", "Grid", "Layers", "kernel_entry", "matmul_entries"]

GIVEN = ("tiles", "misaligned_slowdown")
"""What a table of times cannot tell."""
VECTOR_ROWS = 4.0
"""Rows up to which TensorRT-LLM multiplies quantized weights on the vector units."""
WEIGHT_ONLY = ("w8a16", "w4a16")
"""Formats whose products are computed in 16 bits."""
LENT = ("fp8", "fp8-block", "w8a8", "w8a16", "w4a16")
GENERIC_16_BIT = ("a100-sxm", "h100-sxm")
"""Families whose mean stands for devices that nobody measured, as training's constants were fitted with it."""


def matmul_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of matmuls by device family, fitted to the tables under ``data``; ``generic`` lies between them."""
    measured: dict[str, dict[str, Entry]] = {}
    for name, family in FAMILIES.items():
        measured[name] = _grid_kernels(data, family.grid) if family.grid else {}
    for name, family in FAMILIES.items():
        for layers in family.layers:
            relative = measured[layers.relative]["16-bit"]["constants"]
            measured[name][layers.kernel] = _layers_kernel(data, layers, relative)
    entries = {
        name: {
            **provenance("each kernel names its own", "fitted", "matmul"),
            **_stated(family),
            "units": _units(_device_of(family)),
            "kernels": {**measured[name], **_lent(measured, name, family)},
        }
        for name, family in FAMILIES.items()
    }
    return {name: _unshared(content) for name, content in {**entries, "generic": _generic(measured)}.items()}


def _unshared(content: Entry) -> Entry:
    """The same with lists of its own, which YAML would otherwise write as references."""
    apart: Entry = json.loads(json.dumps(content))
    return apart


def _stated(family: Family) -> Entry:
    """Sources and filters that an entry states once."""
    if family.grid is None:
        return {"filters": ["slower than one pass over its operands from device memory"]}
    shipped, kept = entry("calibrations", f"{family.grid.shapes_of}/matmul"), family.grid.kept
    return {
        "filters": [
            "slower than one pass over its operands from device memory",
            f"a fixed {HELD_OUT:.0%} of the (n, k) families held out; residuals are theirs, the surface left aside",
            "fit: rows above 512 only in multiples of 64; a fixed sample, two thirds of training's sizes",
            *([f"{kept}: constants as first fitted, because training's were fitted on them"] if kept else []),
        ],
        "sources": dict(shipped["sources"]),
        "evidences": dict(shipped["evidences"]),
    }


def _grid_kernels(data: Path, grid: Grid) -> dict[str, Entry]:
    path, device = existing(data / "aiconfigurator" / grid.file), _device(grid.device)
    kernels: dict[str, Entry] = {}
    for kernel in grid.kernels:
        given = _shapes(grid.shapes_of)
        if kernel == grid.kept:
            given = dict(entry("calibrations", f"{grid.shapes_of}/matmul")["kernels"][kernel]["constants"])
        elif kernel == "fp8":
            given["latency_s"] = kernels["16-bit"]["constants"]["latency_s"]
        elif kernel != "16-bit":
            given |= {"vector_rows": VECTOR_ROWS, **(grid.weight_only if kernel in WEIGHT_ONLY else {})}
        table = read_aiconfigurator_matmul(path, DTYPES[kernel])
        source = f"ai-dynamo/aiconfigurator@095f58a, gemm table of {grid.device} with {grid.library}, {DTYPES[kernel]}"
        kernels[kernel] = {"source": source, **kernel_entry(table, device, given, kernel)}
    return kernels


def kernel_entry(table: MatmulTable, device: Device, given: Mapping[str, Any], kernel: str) -> Entry:
    """One format's part of an entry: constants fitted to ``table``, the surface where it spans the plane, residuals."""
    result = fit_matmul(table, device, given, kernel)
    return {**figures(result), **_surfaced(result.constants, table, device, kernel)}


def _surfaced(constants: Mapping[str, Any], table: MatmulTable, device: Device, kernel: str) -> Entry:
    stated: Entry = {"constants": dict(constants)}
    if not has_enough(table):
        return stated
    fit = fit_matmul_surface(table, device, MatmulConstants.from_mapping(constants), kernel)
    return {**stated, "surface_residuals": fit.residuals, "surface": fit.surface.to_mapping()}


def _shapes(family: str) -> Entry:
    shipped = entry("calibrations", f"{family}/matmul")["kernels"]["16-bit"]["constants"]
    return {name: shipped[name] for name in GIVEN}


def _layers_kernel(data: Path, layers: Layers, relative: Mapping[str, Any]) -> Entry:
    table, device = layers.read([existing(data / file) for file in layers.files]), _device(layers.device)
    result = fit_small_matmul(table, device, {**relative, **_shapes(layers.shapes_of)}, layers.kernel)
    return {
        "source": f"{layers.source}; constants of {layers.relative} moved as far as the table shows",
        **figures(result),
        **_surfaced(result.constants, table, device, layers.kernel),
    }


def _lent(measured: Mapping[str, Mapping[str, Entry]], name: str, family: Family) -> dict[str, Entry]:
    """Formats that ``name`` was not measured in, with the constants of the first lender that was."""
    lent: dict[str, Entry] = {}
    for kernel in ("16-bit", *LENT):
        lender = next((other for other in family.lenders if kernel in measured[other]), None)
        if lender and kernel not in measured[name]:
            units, device = _units(_device_of(FAMILIES[lender])), _device_of(family)
            constants = constants_at(device, measured[lender][kernel]["constants"], units)
            lent[kernel] = {"of": lender, "constants": constants}
    return lent


def constants_at(device: Device, constants: Mapping[str, Any], units: Mapping[str, float]) -> Entry:
    """The constants of an entry, measured on compute units of such clock and lanes, as they are on ``device``."""
    moved = at_clock(MatmulConstants.from_mapping(constants), device, **units)
    return {
        name: significant(getattr(moved, name)) if isinstance(value, float) else value
        for name, value in constants.items()
    }


def _units(device: Device) -> dict[str, float]:
    """What tells times in cycles, and work per cycle, from one device to another."""
    return {"clock_hz": significant(clock_hz(device), 4), "lanes": round(float(lanes(device)))}


def _device_of(family: Family) -> Device:
    return _device(family.grid.device if family.grid else family.layers[0].device)


def _generic(measured: Mapping[str, Mapping[str, Entry]]) -> Entry:
    """Geometric means over the families that were measured in a format."""
    kernels: dict[str, Entry] = {}
    for kernel in ("16-bit", *LENT):
        sources = GENERIC_16_BIT if kernel == "16-bit" else tuple(n for n in measured if kernel in measured[n])
        sets = [measured[name][kernel]["constants"] for name in sources]
        constants = {**between(sets), "tiles": sets[0]["tiles"]}
        kernels[kernel] = {"source": f"geometric mean of {' and '.join(sources)}", "constants": constants}
    return {**provenance("each kernel names its own", "datasheet", "matmul"), "kernels": kernels}


def _device(name: str) -> Device:
    return read_cluster(f"1x {name}").device
