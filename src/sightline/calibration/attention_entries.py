"""Fits of fused attention as catalog entries: constants with their source, rows and residuals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightline.calibration.attention import KERNELS, fit_attention
from sightline.calibration.attention_tables import read_flash_attention
from sightline.calibration.entries import DEVICES, Entry, between, device_of, existing, figures, provenance

IMPLEMENTATIONS = {
    "flash-1": "FlashAttention",
    "triton": "FA_Triton",
    "flash-2": "FlashAttention2",
    "flash-3": "FlashAttention3",
}

CUDNN: Entry = {
    "note": "NVIDIA/cudnn-frontend@505fcfe benchmark/benchmark_results.csv, 16-bit passes forward and backward of cuDNN 9.1 on"
    " H200, heads of 128, 4,096 to 65,536 tokens, fitted to 2.4 % in the mean; its shares of the peak. On GB200 the same"
    " repository measured 0.92 of the forward and 1.0 of the backward time that they give",
    "peak_fraction": 0.664,
    "backward_fraction": 0.556,
    "softmax_flops": 0.0,
    "query_block": 128.0,
    "context_block": 128.0,
    "head_granule": 32.0,
    "comfortable_head": 256.0,
    "wide_head_exponent": 0.0,
    "causal_slowdown": 1.11,
    "tile_overhead": 36.6,
    "memory_fraction": 0.8,
    "latency_s": 6e-6,
}
"""The library's fused kernels, which TransformerEngine takes first: published as a table beside its code."""


def attention_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of fused attention by device family; ``generic`` lies between them."""
    charts = existing(data / "flash_attention_tflops.csv")
    source = "Dao-AILab/flash-attention@0251105, bar labels of the published charts"
    entries: dict[str, Entry] = {}
    triton: Entry = {}
    for family in DEVICES:
        kernels: dict[str, Entry] = {}
        for kernel, implementation in IMPLEMENTATIONS.items():
            table = read_flash_attention(charts, family.split("-")[0].upper(), implementation)
            if len(table):
                result = fit_attention(table, device_of(family), KERNELS[kernel])
                kernels[kernel] = {**figures(result), **result.constants}
        if "triton" not in kernels:
            kernels["triton"] = {"note": "charted on A100 alone; its shares of the peak", **_constants(triton)}
        triton = kernels["triton"]
        if "flash-3" not in kernels:
            kernels["flash-3"] = {"note": "needs Hopper; flash-2 stands in", **_constants(kernels["flash-2"])}
        kernels["cudnn"] = CUDNN
        entries[family] = {**provenance(source, "fitted", "attention"), "kernels": kernels}
    shared = ("flash-1", "triton", "flash-2")
    kernels = {k: between([_constants(e["kernels"][k]) for e in entries.values()]) for k in shared}
    kernels["flash-3"] = _constants(entries["h100-sxm"]["kernels"]["flash-3"])
    kernels["cudnn"] = CUDNN
    origin = "geometric mean of the fits for a100-sxm and h100-sxm; flash-3 of h100-sxm"
    entries["generic"] = {**provenance(origin, "datasheet", "attention"), "kernels": kernels}
    return entries


def _constants(kernel: Mapping[str, Any]) -> Entry:
    return {name: value for name, value in kernel.items() if isinstance(value, float)}
