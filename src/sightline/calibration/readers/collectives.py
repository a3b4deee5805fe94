"""Readers of tables of collectives: APEX+, and the output of nccl-tests as it was read."""

from typing import TYPE_CHECKING

from sightline.calibration.readers.raw_table import RawTable
from sightline.calibration.readers.vocabulary import COLLECTIVES
from sightline.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def apex(table: RawTable) -> "pl.DataFrame":
    """APEX+: sizes in KB of 1024 bytes and whole microseconds, 16-bit alone; sizes rounded to 0 are left out.

    A ``collective`` column says the kind; APEX+ itself states it at the end of its files' names alone.
    """
    import polars as pl

    if "collective" in table.columns:
        kind = table.words("collective", COLLECTIVES)
    else:
        said = next((ours for theirs, ours in COLLECTIVES.items() if table.path.stem.lower().endswith(theirs)), None)
        if said is None:
            raise InputError(
                f"'{table.path}' does not say which collective it times: it needs a column collective with one of"
                f" {', '.join(sorted(set(COLLECTIVES.values())))}"
            )
        kind = pl.Series([said] * table.frame.height)
    per_node = table.numbers("num_gpus_per_node")
    rows = table.samples(
        kernel=kind,
        dtype=table.text("dtype"),
        ranks=per_node * table.numbers("num_nodes"),
        ranks_per_node=per_node,
        bytes=table.numbers("size(kb)", least=0) * 1024,
        seconds=table.times("time(us)", 1e-6, optional=True),
        device=table.text("gpu"),
    )
    return rows.filter((pl.col("bytes") > 0) & (pl.col("seconds") > 0) & (pl.col("dtype") == "half")).drop("dtype")


def nccl_tests(table: RawTable) -> "pl.DataFrame":
    """NVIDIA/nccl-tests: bytes as the program counts them, microseconds out of place."""
    return table.samples(
        kernel=table.text("nccl_tests"),
        ranks=table.numbers("ranks", least=2),
        ranks_per_node=table.numbers("ranks_per_node"),
        bytes=table.numbers("bytes"),
        seconds=table.times("time_us", 1e-6),
    )
