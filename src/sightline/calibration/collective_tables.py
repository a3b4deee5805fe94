"""Public tables of measured collectives, read where they lie, in one form: SI units and nccl-tests' buffer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars

_NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
_ELEMENT_BYTES = {"half": 2, "int8": 1}
_ADDING = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveTable:
    """Measured collectives of one kind on one system with one library version, one array element per measurement."""

    kind: str
    size: NDArray[np.float64]
    """Ranks."""
    ranks_per_node: NDArray[np.float64]
    bytes: NDArray[np.float64]
    """The buffer as nccl-tests reports it."""
    seconds: NDArray[np.float64]
    source: str

    def __len__(self) -> int:
        return len(self.bytes)

    def every(self, stride: int) -> "CollectiveTable":
        """One measurement in ``stride``."""
        return self.where(np.arange(len(self)) % stride == 0)

    def where(self, mask: NDArray[np.bool_]) -> "CollectiveTable":
        """The measurements for which ``mask`` holds."""
        return CollectiveTable(
            kind=self.kind,
            size=self.size[mask],
            ranks_per_node=self.ranks_per_node[mask],
            bytes=self.bytes[mask],
            seconds=self.seconds[mask],
            source=self.source,
        )


def nccl_versions(data: Path, system: str) -> tuple[str, ...]:
    """Return the NCCL versions measured on an aiconfigurator system (``a100_sxm``), oldest first."""
    import polars as pl

    paths = _nccl_rows(data).filter(pl.col("system") == system)["library"].unique().to_list()
    return tuple(sorted(paths, key=lambda v: tuple(map(int, v.split(".")))))


def read_nccl(data: Path, system: str, version: str) -> dict[str, CollectiveTable]:
    """Return one system's collectives inside a node by kind (ai-dynamo/aiconfigurator, `nccl_all_systems.csv`).

    Its ``message_size`` counts elements and its ``latency`` milliseconds. Sums are taken in 16-bit floats only: 8-bit
    integers add more slowly and not in the switch. Copies do not know the type, so they are taken in both.
    """
    import polars as pl

    rows = _nccl_rows(data).filter((pl.col("system") == system) & (pl.col("library") == version))
    rows = rows.filter((pl.col("nccl_dtype") == "half") | ~pl.col("op_name").is_in(_ADDING))
    tables: dict[str, CollectiveTable] = {}
    for (name,), part in rows.sort("num_gpus", "bytes", "latency").group_by(["op_name"], maintain_order=True):
        kind = _NAMES.get(str(name), str(name))
        tables[kind] = _table(kind, part["num_gpus"], part["num_gpus"], part["bytes"], part["latency"] * 1e-3, "nccl")
    return tables


def read_kernels(data: Path, system: str) -> dict[tuple[str, str], CollectiveTable]:
    """Return one system's engines' all-reduce by engine and release (`custom_allreduce_all_systems.csv`).

    Only what runs inside a CUDA graph: outside, the host's launch hides the kernel, and its buffer is copied first.
    TensorRT-LLM's kernels are kept under their own engine, not under SGLang, whose folder repeats them.
    """
    import polars as pl

    rows = pl.read_csv(data / "aiconfigurator" / "custom_allreduce_all_systems.csv", infer_schema_length=None)
    path = pl.col("path").str.split("/")
    rows = rows.with_columns(path.list.get(2).alias("engine"), path.list.get(3).alias("release"))
    graph = (pl.col("backend") == pl.col("engine") + "_graph") | (
        (pl.col("engine") == "trtllm") & (pl.col("kernel_source") == "TRTLLM")
    )
    rows = rows.filter((path.list.get(0) == system) & graph).sort("engine", "release", "num_gpus", "message_size")
    tables = {}
    for (engine, release), part in rows.group_by(["engine", "release"], maintain_order=True):
        size = part["message_size"] * _ELEMENT_BYTES["half"]
        table = _table("all_reduce", part["num_gpus"], part["num_gpus"], size, part["latency"] * 1e-3, str(engine))
        tables[str(engine), str(release)] = table
    return tables


def _nccl_rows(data: Path) -> "polars.DataFrame":
    import polars as pl

    rows = pl.read_csv(data / "aiconfigurator" / "nccl_all_systems.csv", infer_schema_length=None)
    path = pl.col("path").str.split("/")
    rows = rows.filter(path.list.get(2) == "nccl")
    return rows.with_columns(
        path.list.get(0).alias("system"),
        path.list.get(3).alias("library"),
        (pl.col("message_size") * pl.col("nccl_dtype").replace_strict(_ELEMENT_BYTES)).alias("bytes"),
    )


def read_vidur(path: Path) -> CollectiveTable:
    """Return a vidur or Frontier network table: sizes in bytes, milliseconds; medians over the repeats of a size."""
    import polars as pl

    rows = pl.read_csv(path)
    kind = str(rows["collective"][0])
    keys = ["num_workers", "devices_per_node", "size"]
    rows = rows.group_by(keys).agg(pl.col(f"time_stats.{kind}.median").median().alias("ms")).sort(keys)
    return _table(kind, rows["num_workers"], rows["devices_per_node"], rows["size"], rows["ms"] * 1e-3, path.stem)


def read_apex(path: Path, dtype: str = "half") -> CollectiveTable:
    """Return an APEX+ table: sizes in KB of 1024 bytes, whole microseconds; sizes below 1 KB are rounded to 0, so left out."""
    import polars as pl

    rows = pl.read_csv(path, infer_schema_length=None)
    rows = rows.filter((pl.col("dtype") == dtype) & (pl.col("size(kb)") > 0) & pl.col("time(us)").is_not_null())
    name = path.stem.split("_", 1)[1]
    ranks = rows["num_nodes"] * rows["num_gpus_per_node"]
    kind = _NAMES.get(name, name)
    seconds = rows["time(us)"].cast(pl.Float64) * 1e-6
    return _table(kind, ranks, rows["num_gpus_per_node"], rows["size(kb)"] * 1024, seconds, path.stem)


def read_all_reduce_bench(path: Path, nodes: int = 4, per_node: int = 8) -> CollectiveTable:
    """Return the all-reduce sweep of stas00/ml-engineering: 32 ranks (bus over algorithm bandwidth is 1.94), 4 nodes.

    The table gives payload and bandwidth (GB of 1e9 bytes per second): seconds are their ratio.
    """
    import polars as pl

    rows = pl.read_csv(path)
    units: Mapping[str, int] = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    payload = np.array([float(p[:-3]) * units[p[-3:]] for p in rows["payload"]])
    ranks = np.full(len(payload), float(nodes * per_node))
    seconds = payload / (rows["algbw_GBps"].to_numpy() * 1e9)
    return _table("all_reduce", ranks, np.full(len(payload), float(per_node)), payload, seconds, path.stem)


def _table(
    kind: str,
    size: "polars.Series | NDArray[np.float64]",
    ranks_per_node: "polars.Series | NDArray[np.float64]",
    bytes: "polars.Series | NDArray[np.float64]",
    seconds: "polars.Series | NDArray[np.float64]",
    source: str,
) -> CollectiveTable:
    columns = [np.asarray(c, dtype=float) for c in (size, ranks_per_node, bytes, seconds)]
    return CollectiveTable(
        kind=kind, size=columns[0], ranks_per_node=columns[1], bytes=columns[2], seconds=columns[3], source=source
    )
