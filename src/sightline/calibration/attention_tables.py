"""Public tables of measured attention, read where they lie, in SI units."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.tables import Array, Table, column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionTable(Table):
    """Measured passes of fused attention; ``backward`` counts the passes whose time is included."""

    batch: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    query_tokens: Array
    causal: NDArray[np.bool_]
    forward: NDArray[np.bool_]
    """The time includes the forward pass."""
    backward: NDArray[np.bool_]
    """The time includes the backward pass."""


def read_flash_attention(path: Path, device: str, implementation: str) -> AttentionTable:
    """Return the bars of Dao-AILab/flash-attention's charts for a device and an implementation.

    Its benchmarks keep 16,384 tokens and a hidden size of 2,048, and count ``4 b a s^2 d`` FLOPs forward, halved when
    causal, 3.5 times that for both passes (flash-attention, benchmarks/benchmark_flash_attention.py).
    """
    import polars as pl

    rows = pl.read_csv(path).filter(
        pl.col("gpu").str.starts_with(device) & (pl.col("implementation") == implementation)
    )
    head_dim, tokens = column(rows, "head_dim"), column(rows, "seq_len")
    causal, both = rows["causal"].to_numpy() == 1, rows["pass"].str.contains("bwd").to_numpy()
    heads, batch = 2048 / head_dim, 16384 / tokens
    flops = 4 * batch * heads * tokens**2 * head_dim * np.where(causal, 0.5, 1) * np.where(both, 3.5, 1)
    return AttentionTable(
        batch=batch,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        query_tokens=tokens,
        causal=causal,
        forward=np.ones(len(rows), dtype=bool),
        backward=both,
        seconds=flops / (column(rows, "tflops") * 1e12),
    )
