"""Public tables of measured bandwidth-bound kernels, read where they lie, in SI units.

Traffic counts every tensor once per read or write at 16 bits: a norm reads and writes, a gated activation reads two
tensors and writes one, an embedding gathers rows and writes them, a residual adds two into a third.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.tables import Array, Table

BYTES = 2.0
VIDUR_OPERATORS: Mapping[str, str] = {
    "emb": "embedding",
    "input_layernorm": "norm",
    "post_attention_layernorm": "norm",
    "attn_rope": "rope",
    "mlp_act": "activation",
    "add": "residual",
}
UNFUSED_NORM, UNFUSED_ROPE, UNFUSED_ACTIVATION = (18.0, 7.0), (9.0, 10.0), (5.0, 2.0)
"""16-bit tensors and kernels of Transformers' RMSNorm in fp32, rotary embedding and gated activation."""
SAMPLER = (6.0, 4.0)
"""16-bit tensors of the logits' size and kernels: a cast to fp32, a pass for the maximum, one for the choice."""
LLMCOMPASS_BITS: Mapping[str, float] = {"A100": 16.0, "MI210": 32.0}
"""Width of the elements that LLMCompass measured other kernels than matmuls with (arXiv 2312.03134, section IV)."""
LLMCOMPASS_LAUNCHES: Mapping[tuple[str, str], float] = {
    ("MI210", "softmax"): 22e-6,
    ("MI210", "layernorm"): 28e-6,
    ("MI210", "gelu"): 21e-6,
}
"""What PyTorch took there for one element, launch and synchronisation included (its hardware_model/compute_module.py).
A100's are left in the times: of its kernels' latencies none is used."""
KERNEL_ITSELF = 2.5e-6
"""What a kernel of one element takes of that on the device (estimate: that of vectorized kernels elsewhere)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ElementwiseTable(Table):
    """Measured kernels, or chains of ``kernels``."""

    traffic_bytes: Array
    footprint_bytes: Array
    """Bytes of distinct tensors."""
    kernels: Array
    width: Array
    """Elements of a row, which tell models and degrees of tensor parallelism apart."""
    launch_s: Array
    """What the host takes of the measured time to launch the kernel and to wait for it; 0 where it is not in."""


Tables = dict[str, ElementwiseTable]
_Row = tuple[str, float, float, float, float, float]
"""Class, seconds, rows, elements per row, tensors moved, kernels."""


def read_vidur_elementwise(path: Path) -> Tables:
    """Return the kernels of a profile of microsoft/vidur or NetX-lab/Frontier: milliseconds, medians, 16 bits."""
    import polars as pl

    rows: list[_Row] = []
    for r in pl.read_csv(path).iter_rows(named=True):
        t, head = r["num_tensor_parallel_workers"], r["n_embd"] / r["n_head"]
        rotated = head * (r["n_head"] / t + max(r["n_kv_head"] / t, 1))
        shapes = {
            "norm": (r["n_embd"], 2.0),
            "embedding": (r["n_embd"], 2.0),
            "residual": (r["n_embd"], 3.0),
            "rope": (rotated, 2.0),
            "activation": (r["n_expanded_embd"] / t, 3.0),
        }
        for column, kind in VIDUR_OPERATORS.items():
            milliseconds = r.get(f"time_stats.{column}.median")
            if milliseconds:
                rows.append((kind, milliseconds * 1e-3, r["num_tokens"], *shapes[kind], 1.0))
    return _tables(rows)


def read_llmservingsim_dense(path: Path, model: Mapping[str, float]) -> Tables:
    """Return the kernels of a layer profile of casys-kaist/LLMServingSim with vLLM: microseconds, 16 bits.

    Norms add the residual in place; the embedding of equal tokens reads one row, so it is left out.
    """
    shapes = {
        "layernorm": ("norm", model["hidden"], 4.0),
        "final_layernorm": ("norm", model["hidden"], 4.0),
        "rotary_emb": ("rope", model["rotated"], 2.0),
        "act_fn": ("activation", model["width"], 3.0),
    }
    rows = [
        (kind, us * 1e-6, tokens, width, tensors, 1.0)
        for layer, tokens, us in _rows(path, ("layer", "tokens", "time_us"))
        if layer in shapes
        for kind, width, tensors in [shapes[layer]]
    ]
    return _tables(rows, in_place=("norm",))


def read_llmservingsim_sampler(path: Path, vocabulary: float) -> Tables:
    """Return the sampler of a profile of casys-kaist/LLMServingSim with vLLM: microseconds; passes over fp32 logits."""
    tensors, kernels = SAMPLER
    return _tables(
        [
            ("sampling", us * 1e-6, sequences, vocabulary, tensors, kernels)
            for layer, sequences, us in _rows(path, ("layer", "sequences", "time_us"))
            if layer == "sampler"
        ]
    )


def read_llmservingsim_layers(path: Path, model: Mapping[str, float], *, fused_norm: bool) -> Tables:
    """Return the kernels of an older profile of casys-kaist/LLMServingSim with Transformers: nanoseconds, 16 bits."""
    norm = ("norm", model["hidden"], *((2.0, 1.0) if fused_norm else UNFUSED_NORM))
    shapes = {
        "embedding": ("embedding", model["hidden"], 2.0, 1.0),
        **dict.fromkeys(("input_layernorm", "post_layernorm", "final_layernorm"), norm),
        "rope": ("rope", model["rotated"], *UNFUSED_ROPE),
        "act_fn": ("activation", model["width"], *UNFUSED_ACTIVATION),
    }
    rows = [
        (kind, ns * 1e-9, tokens, width, tensors, kernels)
        for layer, tokens, cached, ns in _rows(path, ("layer_name", "input", "kv_cache", "latency(ns)"))
        if layer in shapes and cached == 0
        for kind, width, tensors, kernels in [shapes[layer]]
    ]
    return _tables(rows)


def read_llmcompass(path: Path, gpu: str) -> Tables:
    """Return PyTorch's kernels in PrincetonUniversity/LLMCompass: elements per second, launches included."""
    kinds = {"softmax": "softmax", "layernorm": "norm", "gelu": "activation"}
    tensors = 2.0 * LLMCOMPASS_BITS[gpu] / (8.0 * BYTES)
    rows: list[_Row] = []
    for op, device, m, n, rate in _rows(path, ("op", "gpu", "M", "N_or_K", "throughput")):
        if device == gpu and op in kinds:
            width = n or 1.0
            rows.append((kinds[op], m * width / (rate * 1e9), m, width, tensors, 1.0))
    launches = {
        kinds[op]: seconds - KERNEL_ITSELF for (device, op), seconds in LLMCOMPASS_LAUNCHES.items() if device == gpu
    }
    return {
        kind: replace(table, launch_s=np.full(len(table), launches.get(kind, 0.0)))
        for kind, table in _tables(rows).items()
    }


def joined(tables: Iterable[Tables]) -> Tables:
    """Several tables as one, class by class."""
    together: Tables = {}
    for table in tables:
        for kind, rows in table.items():
            together[kind] = together[kind].joined(rows) if kind in together else rows
    return together


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    import polars as pl

    return pl.read_csv(path).select(columns).rows()


def _tables(rows: Sequence[_Row], in_place: Sequence[str] = ()) -> Tables:
    tables: Tables = {}
    for kind in dict.fromkeys(row[0] for row in rows):
        seconds, tokens, width, tensors, kernels = np.array([r[1:] for r in rows if r[0] == kind], dtype=float).T
        traffic = BYTES * tensors * tokens * width
        tables[kind] = ElementwiseTable(
            seconds=seconds,
            traffic_bytes=traffic,
            footprint_bytes=traffic / 2 if kind in in_place else traffic,
            kernels=kernels,
            width=width,
            launch_s=np.zeros(len(seconds)),
        )
    return tables
