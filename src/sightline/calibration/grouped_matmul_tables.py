"""Public tables of measured grouped matmuls, read where they lie, in SI units."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.calibration.tables import Array, Table, column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedTable(Table):
    """Measured products of rows with the ``k x n`` matrices of their experts."""

    family: Array
    """The model that the shape is of, by its number of experts."""
    rows: Array
    """Rows of all experts."""
    active: Array
    """Experts with rows."""
    n: Array
    k: Array


def read_infersim_grouped(path: Path, peak_flops: float) -> GroupedTable:
    """Return a grouped-gemm table of alibaba/InferSim: microseconds of DeepGEMM with fp8 blocks, up and down matrices.

    Rows per expert were drawn within 30 % of the stated number and rounded down; the table's share of ``peak_flops``,
    the device's in fp8, tells how many there were. Of experts with one row on average, half had none.
    """
    import polars as pl

    table = pl.read_csv(path)
    experts, stated = column(table, "num_local_experts"), column(table, "tokens_per_expert")
    hidden, width = column(table, "hidden_size"), column(table, "intermediate_size")
    parts = []
    for name, n, k in (("up", 2 * width, hidden), ("down", hidden, width)):
        seconds = column(table, f"{name}_proj_us") * 1e-6
        rows = column(table, f"{name}_mfu") * peak_flops * seconds / (2 * n * k)
        active = np.where(stated == 1, np.minimum(rows, experts), experts)
        parts.append(
            GroupedTable(seconds=seconds, family=column(table, "num_experts"), rows=rows, active=active, n=n, k=k)
        )
    return parts[0].joined(parts[1])
