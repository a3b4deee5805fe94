"""Public tables of measured matmuls, read where they lie, in SI units."""

from dataclasses import dataclass
from pathlib import Path

from sightline.calibration.tables import Array, Table, column


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
