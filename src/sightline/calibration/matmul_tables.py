"""Public tables of measured matmuls, read where they lie, in SI units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sightline.calibration.tables import Array, Table, column

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulTable(Table):
    """Measured products of an ``m x k`` with a ``k x n`` matrix."""

    m: Array
    n: Array
    k: Array


def read_aiconfigurator_matmul(path: Path, dtype: str = "bfloat16") -> MatmulTable:
    """Return a gemm table of ai-dynamo/aiconfigurator: milliseconds, device time of one product, cold operands."""
    import polars as pl

    rows = pl.read_csv(path).filter(pl.col("gemm_dtype") == dtype)
    m, n, k, ms = (column(rows, c) for c in ("m", "n", "k", "latency"))
    return MatmulTable(m=m, n=n, k=k, seconds=ms * 1e-3)


def read_infersim_matmul(path: Path) -> MatmulTable:
    """Return a gemm table of alibaba/InferSim: microseconds of DeepGEMM's fp8 products with 128 x 128 scales."""
    import polars as pl

    rows = pl.read_csv(path)
    m, n, k, us = (column(rows, c) for c in ("m", "n", "k", "latency_us"))
    return MatmulTable(m=m, n=n, k=k, seconds=us * 1e-6)


def read_vidur_matmul(paths: Sequence[Path]) -> MatmulTable:
    """Return the linear layers of operator tables of microsoft/vidur or NetX-lab/Frontier: milliseconds, 16 bits.

    Query, key and value are one product, and so are gate and up.
    """
    import polars as pl

    return joined([part for path in paths for part in _vidur_layers(pl.read_csv(path))])


def _vidur_layers(rows: "polars.DataFrame") -> list[MatmulTable]:
    tokens, ranks = column(rows, "num_tokens"), column(rows, "num_tensor_parallel_workers")
    hidden, ffn = column(rows, "n_embd"), column(rows, "n_expanded_embd")
    heads, kv_heads = column(rows, "n_head"), column(rows, "n_kv_head")
    qkv = hidden / heads * (heads + 2 * kv_heads)
    shapes = {
        "attn_pre_proj": (qkv / ranks, hidden),
        "attn_post_proj": (hidden, hidden / ranks),
        "mlp_up_proj": (2 * ffn / ranks, hidden),
        "mlp_down_proj": (hidden, ffn / ranks),
    }
    return [
        MatmulTable(m=tokens, n=n, k=k, seconds=column(rows, f"time_stats.{layer}.median") * 1e-3)
        for layer, (n, k) in shapes.items()
    ]


def read_llmservingsim_matmul(
    path: Path, widths: Mapping[str, tuple[int, int]], *, tokens: str, layer: str, unit: str
) -> MatmulTable:
    """Return the linear layers of an operator table of casys-kaist/LLMServingSim, 16 bits.

    ``widths`` holds ``(n, k)`` by layer; ``layer``, ``tokens`` and ``unit`` (``time_us``, ``latency(ns)``) name columns.
    """
    import polars as pl

    rows = pl.read_csv(path)
    scale = {"time_us": 1e-6, "latency(ns)": 1e-9}[unit]
    parts = []
    for name, (n, k) in widths.items():
        chosen = rows.filter(pl.col(layer) == name)
        m = column(chosen, tokens)
        parts.append(MatmulTable(m=m, n=np.full_like(m, n), k=np.full_like(m, k), seconds=column(chosen, unit) * scale))
    return joined(parts)


def joined(tables: Sequence[MatmulTable]) -> MatmulTable:
    """One table with the measurements of several."""
    m, n, k, seconds = (np.concatenate([getattr(t, name) for t in tables]) for name in ("m", "n", "k", "seconds"))
    return MatmulTable(m=m, n=n, k=k, seconds=seconds)
