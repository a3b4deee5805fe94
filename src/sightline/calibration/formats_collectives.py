"""Readers of collective tables."""

from typing import TYPE_CHECKING

from sightline.calibration.formats_matmul import kernels, named, stated
from sightline.calibration.formats_nccl_tests import KINDS
from sightline.calibration.raw_table import RawTable
from sightline.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_NAMES = {**KINDS, **{kind: kind for kind in KINDS.values()}}
_ELEMENT_BYTES = {"half": 2.0, "bfloat16": 2.0, "float16": 2.0, "float": 4.0, "int8": 1.0}


def aiconfigurator(table: RawTable) -> "pl.DataFrame":
    """ai-dynamo/aiconfigurator, nccl and custom_allreduce: elements and milliseconds inside a node; 16-bit alone."""
    import polars as pl

    dtype = table.text("nccl_dtype" if "nccl_dtype" in table.columns else "allreduce_dtype")
    ranks = table.numbers("num_gpus", least=2)
    said = stated(table)
    if "path" in table.columns:
        # Of tables joined from several folders, the folder tells the library's release; the version column does not.
        folders = table.text("path").str.split("/")
        said["library"] = folders.list.get(2, null_on_oob=True) + " " + folders.list.get(3, null_on_oob=True)
    if "kernel_source" in table.columns and "allreduce_dtype" in table.columns:
        said["library"] = said["library"] + " " + table.text("kernel_source")
    rows = named(
        table,
        kernel=kernels(table, "op_name", _NAMES),
        ranks=ranks,
        ranks_per_node=ranks,
        bytes=table.numbers("message_size")
        * dtype.replace_strict(_ELEMENT_BYTES, default=0.0, return_dtype=pl.Float64),
        seconds=table.times("latency", 1e-3),
        dtype=dtype,
        **said,
    )
    return rows.filter(pl.col("dtype").is_in(["half", "bfloat16", "float16"])).drop("dtype")


def vidur(table: RawTable) -> "pl.DataFrame":
    """microsoft/vidur and Frontier, network: bytes and milliseconds; the median over ranks and repeats of a size."""
    import polars as pl

    kinds = kernels(table, "collective", _NAMES)
    times = {k: f"time_stats.{k}.median" for k in table.text("collective").unique().to_list()}
    seconds = pl.Series([None] * len(kinds), dtype=pl.Float64)
    for kind, name in times.items():
        if name in table.columns:
            seconds = table.times(name, 1e-3, optional=True).zip_with(table.text("collective") == kind, seconds)
    rows = named(
        table,
        kernel=kinds,
        ranks=table.numbers("num_workers", least=2),
        ranks_per_node=table.numbers("devices_per_node"),
        bytes=table.numbers("size"),
        seconds=seconds,
        **stated(table),
    )
    rows = rows.filter(pl.col("seconds") > 0)
    keys = ["kernel", "ranks", "ranks_per_node", "bytes", "library", "device"]
    return rows.group_by(keys, maintain_order=True).agg(pl.col("row").first(), pl.col("seconds").median())


def apex(table: RawTable) -> "pl.DataFrame":
    """APEX+: sizes in KB of 1024 bytes and whole microseconds, 16-bit alone; sizes rounded to 0 are left out.

    A ``collective`` column says the kind; APEX+ itself states it at the end of its files' names alone.
    """
    import polars as pl

    if "collective" in table.columns:
        kind = kernels(table, "collective", _NAMES)
    else:
        said = next((ours for theirs, ours in _NAMES.items() if table.path.stem.lower().endswith(theirs)), None)
        if said is None:
            raise InputError(
                f"'{table.path}' does not say which collective it times: it needs a column collective with one of"
                f" {', '.join(KINDS.values())}"
            )
        kind = pl.Series([said] * table.frame.height)
    per_node = table.numbers("num_gpus_per_node")
    rows = named(
        table,
        kernel=kind,
        dtype=table.text("dtype"),
        ranks=per_node * table.numbers("num_nodes"),
        ranks_per_node=per_node,
        bytes=table.numbers("size(kb)", least=0) * 1024,
        seconds=table.times("time(us)", 1e-6, optional=True),
        **{**stated(table), "device": table.text("gpu")},
    )
    return rows.filter((pl.col("bytes") > 0) & (pl.col("seconds") > 0) & (pl.col("dtype") == "half")).drop("dtype")


def nccl_tests(table: RawTable) -> "pl.DataFrame":
    """NVIDIA/nccl-tests: bytes as the program counts them, microseconds out of place."""
    return named(
        table,
        kernel=table.text("nccl_tests"),
        ranks=table.numbers("ranks", least=2),
        ranks_per_node=table.numbers("ranks_per_node"),
        bytes=table.numbers("bytes"),
        seconds=table.times("time_us", 1e-6),
        **stated(table),
    )
