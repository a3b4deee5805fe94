"""Suites of measured collectives: NCCL by version, and the engines' own all-reduce, by device family."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.collective_systems import SYSTEMS, System, system_tables
from sightline.calibration.collective_tables import CollectiveTable, read_kernels
from sightline.calibration.collectives import MeasuredNode, measured_node, predicted
from sightline.catalog import entry, names
from sightline.cost.collective_constants import CustomAllReduce, KindConstants
from sightline.cost.collective_families import load_collectives, load_custom
from sightline.validation.operator_suite import Compared, OperatorSuite
from sightline.validation.suite import Split

SMALLEST, LARGEST, MOST_RANKS = 2**10, 2**30, 8
"""Messages and ranks that the suites hold."""
SIZES = {"ranks": "size", "bytes": "bytes"}
"""Columns of a table that tell its rows apart."""
GOAL = "median 4 %, p90 12 %"
NCCL_DECISIONS = (
    "Inside a node, 2 to 8 ranks, buffers as nccl-tests reports them from 1 KiB to 1 GiB; versions of NCCL are kept apart.",
    "All of them are fitted on. The catalog's entry holds the errors of leaving ranks, message ranges and every other size out.",
)
CUSTOM_DECISIONS = (
    "All-reduce as the engine calls it inside CUDA graphs, its own kernels up to their limit and NCCL beyond, 2 to 8 ranks, 1 KiB to 1 GiB.",
    "All of them are fitted on. The catalog's entry holds the errors of leaving ranks and message ranges out.",
)


def collective_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites whose tables are in the data folder and whose constants are in the catalog."""
    for system in SYSTEMS:
        part = f"{system.family}/collectives"
        if part not in names("calibrations"):
            continue
        stated = entry("calibrations", part)
        for version in stated["versions"]:
            if _has_nccl(data, system):
                yield OperatorSuite(
                    name=f"nccl-{version} {system.family}",
                    source=stated["source"],
                    decisions=NCCL_DECISIONS,
                    compare=partial(_compare_nccl, data, system, version),
                    goal=GOAL,
                )
        for engine, release in _kernels(data, system, stated.get("custom", {})):
            yield OperatorSuite(
                name=f"all-reduce-{engine}-{release} {system.family}",
                source=stated["source"],
                decisions=CUSTOM_DECISIONS,
                compare=partial(_compare_custom, data, system, engine, release),
            )


def _has_nccl(data: Path, system: System) -> bool:
    needed = ["aiconfigurator/nccl_all_systems.csv"] if system.aiconfigurator else []
    return all((data / name).is_file() for name in (*needed, *system.tables))


def _kernels(data: Path, system: System, custom: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    if system.aiconfigurator and (data / "aiconfigurator" / "custom_allreduce_all_systems.csv").is_file():
        yield from ((engine, str(release)) for engine, releases in custom.items() for release in releases)


def _compare_nccl(data: Path, system: System, version: str) -> Mapping[Split, Compared]:
    tables = system_tables(data, system).get(version, {})
    kinds = load_collectives(system.family, version).kinds
    return _compared(tables.values(), measured_node(system.interconnect), kinds)


def _compare_custom(data: Path, system: System, engine: str, release: str) -> Mapping[Split, Compared]:
    table = read_kernels(data, system.aiconfigurator).get((engine, release))
    kinds = load_collectives(system.family).kinds
    custom = load_custom(system.family, f"{engine} {release}")
    return _compared([] if table is None else [table], measured_node(system.interconnect), kinds, custom)


def _compared(
    tables: Iterable[CollectiveTable],
    node: MeasuredNode,
    kinds: Mapping[str, KindConstants],
    custom: CustomAllReduce | None = None,
) -> Mapping[Split, Compared]:
    wanted = [table.where(_is_wanted(table)) for table in tables if table.kind in kinds]
    parts = [table for table in wanted if len(table)]
    if not parts:
        return {}
    return {
        "fit": Compared(
            predicted=np.concatenate([predicted(table, node, kinds, custom=custom) for table in parts]),
            measured=np.concatenate([table.seconds for table in parts]),
            sizes={name: np.concatenate([getattr(t, column) for t in parts]) for name, column in SIZES.items()},
        )
    }


def _is_wanted(table: CollectiveTable) -> NDArray[np.bool_]:
    inside = (table.size >= 2) & (table.size <= MOST_RANKS) & (table.size == table.ranks_per_node)
    return np.asarray(inside & (table.bytes >= SMALLEST) & (table.bytes <= LARGEST))
