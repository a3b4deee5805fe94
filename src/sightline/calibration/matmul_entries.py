"""Fits of matmuls as catalog entries: constants with their source, rows, filters and residuals."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.calibration.entries import Entry, between, existing, figures, provenance
from sightline.calibration.matmul import HELD_OUT, fit_matmul, fit_small_matmul
from sightline.calibration.matmul_surface import fit_matmul_surface, has_enough
from sightline.calibration.matmul_tables import (
    MatmulTable,
    read_aiconfigurator_matmul,
    read_infersim_matmul,
    read_llmservingsim_matmul,
    read_vidur_matmul,
)
from sightline.catalog import entry
from sightline.cost.matmul import MatmulConstants
from sightline.loading.clusters import read_cluster
from sightline.scenario import Device

GIVEN = ("tiles", "misaligned_slowdown")
"""What a table of times cannot tell."""
VECTOR_ROWS = 4.0
"""Rows up to which TensorRT-LLM multiplies quantized weights on the vector units."""
DTYPES = {"16-bit": "bfloat16", "fp8": "fp8", "w8a8": "sq", "w8a16": "int8_wo", "w4a16": "int4_wo"}
"""Formats by the names that aiconfigurator's tables give them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A family measured over a grid of shapes, format by format."""

    device: str
    file: str
    library: str
    kernels: Sequence[str]
    shapes_of: str
    """Family whose tiles and misaligned slowdown are given."""
    kept: str = ""
    """Format whose shipped constants are kept and only judged again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """A family measured in the layers of a few models, one format; the rest is a relative's."""

    device: str
    kernel: str
    relative: str
    """Family whose constants the table moves."""
    shapes_of: str
    """Family whose tiles and misaligned slowdown are given."""
    source: str
    files: Sequence[str]
    read: Callable[[Sequence[Path]], MatmulTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family was measured in, and whose constants stand in for other formats, first come first served."""

    grid: Grid | None = None
    layers: Sequence[Layers] = ()
    lenders: Sequence[str] = field(default_factory=tuple)


def _first(read: Callable[[Path], MatmulTable]) -> Callable[[Sequence[Path]], MatmulTable]:
    return lambda paths: read(paths[0])


_ADA_LAYERS = {
    "qkv_proj": (6144, 4096),
    "o_proj": (4096, 4096),
    "gate_up_proj": (28672, 4096),
    "down_proj": (4096, 14336),
}
_AMPERE_LAYERS = {
    "q_proj": (4096, 4096),
    "k_proj": (1024, 4096),
    "o_proj": (4096, 4096),
    "gate_proj": (14336, 4096),
    "down_proj": (4096, 14336),
}
"""Linear layers (n, k) of Llama-3.1-8B, joined and apart."""

FAMILIES: Mapping[str, Family] = {
    "a100-sxm": Family(
        grid=Grid(
            device="a100-sxm-80gb",
            file="gemm_a100_sxm_trtllm-1.0.0.csv",
            library="TensorRT-LLM 1.0.0",
            kernels=("16-bit", "w8a8", "w8a16", "w4a16"),
            shapes_of="a100-sxm",
            kept="16-bit",
        ),
    ),
    "h100-sxm": Family(
        grid=Grid(
            device="h100-sxm-80gb",
            file="gemm_h100_sxm_trtllm-1.2.0rc5.csv",
            library="TensorRT-LLM 1.2.0rc5",
            kernels=("16-bit", "fp8"),
            shapes_of="h100-sxm",
            kept="16-bit",
        ),
        lenders=("h800-sxm", "h200-sxm"),
    ),
    "h200-sxm": Family(
        grid=Grid(
            device="h200-sxm-141gb",
            file="gemm_h200_sxm_trtllm-1.2.0rc5.csv",
            library="TensorRT-LLM 1.2.0rc5",
            kernels=("16-bit", "fp8", "w8a8", "w8a16", "w4a16"),
            shapes_of="h200-sxm",
        ),
        lenders=("h800-sxm",),
    ),
    "b200-sxm": Family(
        grid=Grid(
            device="b200-sxm-180gb",
            file="gemm_b200_sxm_trtllm-1.2.0rc5_bf16_fp8.csv",
            library="TensorRT-LLM 1.2.0rc5",
            kernels=("16-bit", "fp8"),
            shapes_of="h200-sxm",
        ),
        lenders=("h800-sxm", "h200-sxm"),
    ),
    "a800-sxm": Family(
        layers=(
            Layers(
                device="a800-sxm-80gb",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="NetX-lab/Frontier@a4b22df, linear layers of Llama-2-7B on A800",
                files=("frontier/a800_meta-llama_Llama-2-7b-hf_mlp.csv",),
                read=read_vidur_matmul,
            ),
        ),
        lenders=("a100-sxm",),
    ),
    "h800-sxm": Family(
        layers=(
            Layers(
                device="h800-sxm-80gb",
                kernel="16-bit",
                relative="h100-sxm",
                shapes_of="h100-sxm",
                source="NetX-lab/Frontier@a4b22df, linear layers of Llama-2-7B on H800, kernels alone",
                files=("frontier/h800_llama2_7b_dense_example_linear_op_kernel_only.csv",),
                read=read_vidur_matmul,
            ),
            Layers(
                device="h800-sxm-80gb",
                kernel="fp8-block",
                relative="h100-sxm",
                shapes_of="h100-sxm",
                source="alibaba/InferSim, DeepGEMM on H800",
                files=("infersim/gemm_h800_data.csv",),
                read=_first(read_infersim_matmul),
            ),
        ),
        lenders=("h100-sxm", "h200-sxm"),
    ),
    "h20": Family(
        layers=(
            Layers(
                device="h20",
                kernel="fp8-block",
                relative="h100-sxm",
                shapes_of="h200-sxm",
                source="alibaba/InferSim, DeepGEMM on H20",
                files=("infersim/gemm_h20_data.csv",),
                read=_first(read_infersim_matmul),
            ),
        ),
        lenders=("h200-sxm",),
    ),
    "a40": Family(
        layers=(
            Layers(
                device="a40",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="microsoft/vidur@7d47513, linear layers of Llama-2-7B and 70B on A40",
                files=("vidur/a40_Llama-2-7b-hf_mlp.csv", "vidur/a40_Llama-2-70b-hf_mlp.csv"),
                read=read_vidur_matmul,
            ),
        ),
        lenders=("a100-sxm",),
    ),
    "rtx-3090": Family(
        layers=(
            Layers(
                device="rtx-3090",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="casys-kaist/LLMServingSim, layers of Llama-3.1-8B on RTX 3090",
                files=("llmservingsim/v0_perf_models_RTX3090_meta-llama_Llama-3.1-8B_tp1_layers.csv",),
                read=lambda paths: read_llmservingsim_matmul(
                    paths[0], _AMPERE_LAYERS, layer="layer_name", tokens="input", unit="latency(ns)"
                ),
            ),
        ),
        lenders=("a100-sxm",),
    ),
    "rtx-4090": Family(
        layers=(
            Layers(
                device="rtx-4090",
                kernel="16-bit",
                relative="a100-sxm",
                shapes_of="rtx-4090",
                source="casys-kaist/LLMServingSim, layers of Llama-3.1-8B on RTX 4090, vLLM 0.19",
                files=("llmservingsim/perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1_dense.csv",),
                read=lambda paths: read_llmservingsim_matmul(
                    paths[0], _ADA_LAYERS, layer="layer", tokens="tokens", unit="time_us"
                ),
            ),
        ),
        lenders=("a100-sxm", "h100-sxm"),
    ),
}
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
            given["vector_rows"] = VECTOR_ROWS
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
            lent[kernel] = {"of": lender, "constants": measured[lender][kernel]["constants"]}
    return lent


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
