"""Public tables of measured operators, read where they lie, in SI units."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Columns of equal length, one element per measurement."""

    seconds: Array

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """The measurements for which ``mask`` holds."""
        return type(self)(**{f.name: getattr(self, f.name)[mask] for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatmulTable(_Table):
    """Measured products of an ``m x k`` with a ``k x n`` matrix."""

    m: Array
    n: Array
    k: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionTable(_Table):
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


def read_aiconfigurator_matmul(path: Path, dtype: str = "bfloat16") -> MatmulTable:
    """Return a gemm table of ai-dynamo/aiconfigurator: milliseconds, device time of one product, cold operands."""
    import polars as pl

    rows = pl.read_csv(path).filter(pl.col("gemm_dtype") == dtype)
    m, n, k, ms = (_column(rows, c) for c in ("m", "n", "k", "latency"))
    return MatmulTable(m=m, n=n, k=k, seconds=ms * 1e-3)


def read_aiconfigurator_attention(path: Path) -> AttentionTable:
    """Return a context-attention table of ai-dynamo/aiconfigurator: causal, 16-bit, whole prompts, no window; ms."""
    import polars as pl

    rows = pl.read_csv(path).filter((pl.col("step") == 0) & (pl.col("kv_cache_dtype") == "bfloat16"))
    rows = rows.filter(pl.col("attn_dtype") == "bfloat16")
    if "window_size" in rows.columns:
        rows = rows.filter(pl.col("window_size") == 0)
    heads, kv_heads = _column(rows, "num_heads"), _column(rows, "num_key_value_heads")
    yes = np.ones(len(rows), dtype=bool)
    return AttentionTable(
        batch=_column(rows, "batch_size"),
        heads=heads,
        kv_heads=np.where(kv_heads == 0, heads, kv_heads),
        head_dim=_column(rows, "head_dim"),
        query_tokens=_column(rows, "isl"),
        causal=yes,
        forward=yes,
        backward=~yes,
        seconds=_column(rows, "latency") * 1e-3,
    )


def read_flash_attention(path: Path, device: str, implementation: str) -> AttentionTable:
    """Return the bars of Dao-AILab/flash-attention's charts for a device and an implementation.

    Its benchmarks keep 16,384 tokens and a hidden size of 2,048, and count ``4 b a s^2 d`` FLOPs forward, halved when
    causal, 3.5 times that for both passes (flash-attention, benchmarks/benchmark_flash_attention.py).
    """
    import polars as pl

    rows = pl.read_csv(path).filter(
        pl.col("gpu").str.starts_with(device) & (pl.col("implementation") == implementation)
    )
    head_dim, tokens = _column(rows, "head_dim"), _column(rows, "seq_len")
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
        seconds=flops / (_column(rows, "tflops") * 1e12),
    )


def _column(rows: "polars.DataFrame", name: str) -> Array:
    return np.asarray(rows[name].to_numpy(), dtype=float)
