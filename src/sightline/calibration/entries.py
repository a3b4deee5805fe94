"""Fits as catalog entries: constants with their source, rows, filters and residuals."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from sightline.calibration.attention import KERNELS, fit_attention
from sightline.calibration.fitting import FitResult
from sightline.calibration.matmul import HELD_OUT, fit_matmul
from sightline.calibration.tables import read_aiconfigurator_matmul, read_flash_attention
from sightline.catalog import entry
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.scenario import Device

Entry = dict[str, Any]

DATE = "2026-11"
DEVICES = {"a100-sxm": "a100-sxm-80gb", "h100-sxm": "h100-sxm-80gb"}
"""Fitted calibrations and the device of the catalog each was measured on."""
MATMUL_TABLES = {
    "a100-sxm": ("gemm_a100_sxm_trtllm-1.0.0.csv", "TensorRT-LLM 1.0.0"),
    "h100-sxm": ("gemm_h100_sxm_trtllm-1.2.0rc5.csv", "TensorRT-LLM 1.2.0rc5"),
}
IMPLEMENTATIONS = {
    "flash-1": "FlashAttention",
    "triton": "FA_Triton",
    "flash-2": "FlashAttention2",
    "flash-3": "FlashAttention3",
}


def matmul_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of matmuls by device family, fitted to the tables under ``data``; ``generic`` lies between them."""
    entries: dict[str, Entry] = {}
    for family, (file, library) in MATMUL_TABLES.items():
        shipped = entry("calibrations", f"{family}/matmul")
        given = {key: shipped["constants"][key] for key in ("tiles", "misaligned_slowdown")}
        table = read_aiconfigurator_matmul(_existing(data / "aiconfigurator" / file))
        result = fit_matmul(table, _device(family), given)
        source = f"ai-dynamo/aiconfigurator@095f58a, gemm table of {family} with {library}, bfloat16"
        entries[family] = {
            **_provenance(source, "fitted", "matmul"),
            "filters": [
                "slower than one pass over its operands from device memory",
                f"a fixed {HELD_OUT:.0%} of the (n, k) families held out; residuals are theirs",
                "fit: rows above 512 only in multiples of 64; a fixed sample, two thirds of training's sizes",
            ],
            "sources": shipped["sources"],
            "evidences": shipped["evidences"],
            **_figures(result),
            "constants": dict(result.constants),
        }
    between = _between([e["constants"] for e in entries.values()])
    entries["generic"] = {
        **_provenance("geometric mean of the fits for a100-sxm and h100-sxm; tiles of a100-sxm", "datasheet", "matmul"),
        "constants": {**between, "tiles": entries["a100-sxm"]["constants"]["tiles"]},
    }
    return entries


def attention_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of fused attention by device family; ``generic`` lies between them."""
    charts = _existing(data / "flash_attention_tflops.csv")
    source = "Dao-AILab/flash-attention@0251105, bar labels of the published charts"
    entries: dict[str, Entry] = {}
    triton: Entry = {}
    for family in DEVICES:
        kernels: dict[str, Entry] = {}
        for kernel, implementation in IMPLEMENTATIONS.items():
            table = read_flash_attention(charts, family.split("-")[0].upper(), implementation)
            if len(table):
                result = fit_attention(table, _device(family), KERNELS[kernel])
                kernels[kernel] = {**_figures(result), **result.constants}
        if "triton" not in kernels:
            kernels["triton"] = {"note": "charted on A100 alone; its shares of the peak", **_constants(triton)}
        triton = kernels["triton"]
        if "flash-3" not in kernels:
            kernels["flash-3"] = {"note": "needs Hopper; flash-2 stands in", **_constants(kernels["flash-2"])}
        entries[family] = {**_provenance(source, "fitted", "attention"), "kernels": kernels}
    shared = ("flash-1", "triton", "flash-2")
    kernels = {k: _between([_constants(e["kernels"][k]) for e in entries.values()]) for k in shared}
    kernels["flash-3"] = _constants(entries["h100-sxm"]["kernels"]["flash-3"])
    origin = "geometric mean of the fits for a100-sxm and h100-sxm; flash-3 of h100-sxm"
    entries["generic"] = {**_provenance(origin, "datasheet", "attention"), "kernels": kernels}
    return entries


def _provenance(source: str, evidence: str, part: str) -> Entry:
    command = f"python -m sightline.calibration {part} --data DIR --out DIR"
    return {"source": source, "date": DATE, "evidence": evidence, "written_by": command}


def _figures(result: FitResult) -> Entry:
    return {"rows": dict(result.rows), "residuals": {name: dict(r) for name, r in result.residuals.items()}}


def _constants(kernel: Mapping[str, Any]) -> Entry:
    return {name: value for name, value in kernel.items() if isinstance(value, float)}


def _between(sets: list[Mapping[str, Any]]) -> Entry:
    """Geometric means of the constants of several fits, where they are numbers or lists of them."""

    def mean(*values: float) -> float:
        return float(f"{prod(values) ** (1 / len(values)):.3g}")

    between: Entry = {}
    for name, first in sets[0].items():
        values = [s[name] for s in sets]
        if isinstance(first, list) and not isinstance(first[0], list):
            between[name] = [mean(*column) for column in zip(*values, strict=True)]
        elif isinstance(first, int | float):
            between[name] = mean(*values)
    return between


def _device(family: str) -> Device:
    return read_cluster(f"1x {DEVICES[family]}").device


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(
            f"the table {path.name} is not in '{path.parent}'; --data names the folder that holds the tables"
        )
    return path
