"""Fits of grouped matmuls as catalog entries."""

from collections.abc import Mapping
from pathlib import Path

from sightline.calibration.entries import Entry, between, device_of, existing, figures, provenance
from sightline.calibration.grouped_matmul import fit_grouped
from sightline.calibration.grouped_matmul_tables import read_infersim_grouped
from sightline.cost.matmul.grouped import GroupedConstants
from sightline.quantities import significant

GROUPED_TABLES: Mapping[str, str] = {"h20": "h20", "h800-sxm": "h800"}
"""Device family and how InferSim's tables name it."""
PHASES = {"masked": "decode", "contiguous": "prefill"}
FITTED = "fp8-block"

RELATIVE_RATES: Mapping[str, tuple[float, float]] = {
    "16-bit": (1.15, 1.0),
    "32-bit": (1.15, 1.0),
    "fp8": (1.0, 1.0),
    "w8a8": (1.0, 1.0),
    "w8a16": (1.15, 0.9),
    "w4a16": (1.1, 0.7),
    "nf4": (1.1, 0.5),
    "mxfp4": (1.1, 0.7),
    "nvfp4": (0.8, 0.8),
    "q4_0": (1.0, 0.7),
    "q4_k_m": (1.0, 0.7),
}
"""Shares of peak and of bandwidth over those of fp8 with block scales. Of 16 and 8 bits and of w4a16 from the same
libraries' dense matmuls (aiconfigurator's tables for A100, H100, H200: large m, and m up to 8); the rest estimated."""
COMMON = "h800-sxm"
"""Family of the device that means are stated for."""
HIGHEST_SHARE = 0.95


def grouped_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of grouped matmuls by device family; ``generic`` lies between them."""
    source = "alibaba/InferSim, bench_data of DeepGEMM grouped matmuls with fp8 blocks: {}, decode and prefill"
    entries: dict[str, Entry] = {}
    for family, name in GROUPED_TABLES.items():
        device = device_of(family)
        fitted: Entry = {"evidence": "calibrated"}
        for layout, phase in PHASES.items():
            path = existing(data / "infersim" / f"grouped_gemm_{phase}_{name}_data.csv")
            result = fit_grouped(read_infersim_grouped(path, float(device.peak_flops["fp8"])), device, layout)
            fitted[layout] = {**figures(result), **result.constants}
        entries[family] = {
            **provenance(source.format(name.upper()), "fitted", "grouped"),
            "kernels": {FITTED: fitted, **_other_formats(fitted, "extrapolated")},
        }
    middle: Entry = {"evidence": "datasheet"}
    for layout in PHASES:
        middle[layout] = between([_on_common(e["kernels"][FITTED][layout]) for e in entries.values()])
    entries["generic"] = {
        **provenance(f"geometric mean of the fits for {' and '.join(entries)}", "datasheet", "grouped"),
        "kernels": {FITTED: middle, **_other_formats(middle, "datasheet")},
    }
    return entries


def _other_formats(fitted: Entry, evidence: str) -> dict[str, Entry]:
    formats: dict[str, Entry] = {}
    for name, (peak, memory) in RELATIVE_RATES.items():
        formats[name] = {"evidence": evidence}
        for layout in PHASES:
            constants = _constants(fitted[layout])
            if evidence != "datasheet":  # estimates for this very unit
                constants.pop("unit_flops")
            constants["peak_fraction"] = _share(constants["peak_fraction"] * peak)
            constants["memory_fraction"] = _share(constants["memory_fraction"] * memory)
            formats[name][layout] = constants
    return formats


def _on_common(layout: Entry) -> Entry:
    """A layout's constants as they would be on the device of ``COMMON``."""
    device = device_of(COMMON)
    unit_flops = float(device.peak_flops["fp8"] / device.compute_units)
    peak_fraction, overhead_k = GroupedConstants.from_mapping(layout).on(unit_flops)
    return {
        **_constants(layout),
        "peak_fraction": float(peak_fraction),
        "tile_overhead_k": float(overhead_k),
        "unit_flops": unit_flops,
    }


def _share(value: float) -> float:
    return significant(min(value, HIGHEST_SHARE))


def _constants(layout: Entry) -> Entry:
    return {name: value for name, value in layout.items() if isinstance(value, float)}
