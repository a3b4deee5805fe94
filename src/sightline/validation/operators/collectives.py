"""Suites of measured collectives: NCCL by version, and the engines' own all-reduce, by device family."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import has_tables, manifest, samples
from sightline.calibration.parts.collective_systems import System, engine_tables, system_tables, systems
from sightline.calibration.parts.collectives import CollectiveTable, measured_node, predicted
from sightline.catalog import entry
from sightline.cost.collectives.constants import CustomAllReduce, KindConstants
from sightline.cost.collectives.families import PCIE, load_collectives, load_custom
from sightline.errors import InputError
from sightline.scenario import Cluster
from sightline.validation.operators.never_fitted import collectives_without, has_same_links, server_shares
from sightline.validation.operators.suite import Compared, OperatorSuite, joined
from sightline.validation.suite import Split

SMALLEST, LARGEST, MOST_RANKS = 2**10, 2**30, 8
"""Messages and ranks that the suites hold."""
GOAL = "median 4 %, p90 12 %"
NCCL_DECISIONS = (
    (
        "Inside a node, 2 to 8 ranks, buffers as nccl-tests reports them from 1 KiB to 1 GiB. Each version of "
        "NCCL is a suite."
    ),
    (
        "All rows are used for fitting. The catalog entry has the errors with ranks, message ranges and every "
        "other size left out."
    ),
)
CUSTOM_DECISIONS = (
    (
        "All-reduce as the engine calls it inside CUDA graphs, for all measured releases, with its own kernels up "
        "to their limit and NCCL beyond, 2 to 8 ranks, 1 KiB to 1 GiB."
    ),
    "All rows are used for fitting. The catalog entry has the errors with ranks and message ranges left out.",
)
SERVER_DECISION = (
    "With PCIe, the sharing of link bandwidth depends on the server, not on the device. The longest all-reduce for each"
    " number of ranks gives it, as a cluster's `shares` may state it, and is left out of the errors. The suites with an"
    " unknown server do not use it."
)
SPACING_DECISION = (
    "Of messages that differ by less than 3 % one counts. Otherwise the point-to-point transfers of another library in"
    " even steps of 64 KiB would outweigh all other kinds on A100."
)
NCCL_SOURCE = "NCCL inside a node"
SPACING = 0.03
Unseen: TypeAlias = tuple[str, Callable[[], Compared], tuple[str, ...]]
"""Name, comparison and decisions of a suite of devices never measured."""


def collective_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites whose tables are in the data folder and whose constants are in the catalog."""
    for system in systems():
        stated = entry("calibrations", f"{system.family}/collectives")
        if is_measured(data, system):
            yield from _nccl_suites(data, system, stated)
        if system.aiconfigurator and has_tables(data, manifest("collectives")["kernels"]):
            for engine, releases in stated.get("custom", {}).items():
                yield OperatorSuite(
                    name=f"all-reduce-{engine} {system.family}",
                    source=stated["source"],
                    decisions=CUSTOM_DECISIONS,
                    compare=partial(_compare_custom, data, system, engine, tuple(map(str, releases))),
                )


def _nccl_suites(data: Path, system: System, stated: Mapping[str, Any]) -> Iterator[OperatorSuite]:
    """Yield a suite per version of NCCL, and one of the kinds that further tables add without naming theirs."""
    for version in stated["versions"]:
        yield OperatorSuite(
            name=f"nccl-{version} {system.family}",
            source=stated["source"],
            decisions=NCCL_DECISIONS,
            compare=partial(_compare_nccl, data, system, version),
            goal=GOAL,
        )
    if system.aiconfigurator and system.tables:
        yield OperatorSuite(
            name=f"send-recv {system.family}",
            source=", ".join(system.tables),
            decisions=NCCL_DECISIONS,
            compare=partial(_compare_nccl, data, system, stated["default"], further=True),
        )


def is_measured(data: Path, system: System) -> bool:
    """Whether the data folder has what the system was measured with."""
    nccl = manifest("collectives")["nccl"]["files"] if system.aiconfigurator else []
    return has_tables(data, {"files": [*nccl, *system.tables]})


def _compare_nccl(data: Path, system: System, version: str, *, further: bool = False) -> Mapping[Split, Compared]:
    tables = system_tables(partial(samples, data, "collectives"), system).get(version, {})
    added = {"send_recv"} if system.aiconfigurator else set()
    kinds = load_collectives(system.family, version).kinds
    chosen = [table for kind, table in tables.items() if (kind in added) == further]
    return {"fit": part} if (part := compared(chosen, measured_node(system.interconnect), kinds)) else {}


def _compare_custom(data: Path, system: System, engine: str, releases: Sequence[str]) -> Mapping[Split, Compared]:
    tables = engine_tables(partial(samples, data, "collectives"), system)
    node, kinds = measured_node(system.interconnect), load_collectives(system.family).kinds
    parts = [
        compared([tables[engine, release]], node, kinds, load_custom(system.family, f"{engine} {release}"))
        for release in releases
        if (engine, release) in tables
    ]
    known = [part for part in parts if part is not None]
    return {"fit": joined(known)} if known else {}


def compared(
    tables: Iterable[CollectiveTable],
    node: Cluster,
    kinds: Mapping[str, KindConstants],
    custom: CustomAllReduce | None = None,
) -> Compared | None:
    """Return predicted and measured seconds of the tables' collectives inside a node; None where no kind is known."""
    wanted = [table.where(_is_wanted(table)) for table in tables if table.kind in kinds]
    parts = [
        Compared(
            predicted=predicted(table, node, kinds, custom=custom),
            measured=table.seconds,
            sizes={"ranks": table.ranks, "bytes": table.bytes},
        )
        for table in wanted
        if len(table)
    ]
    return joined(parts) if parts else None


def _is_wanted(table: CollectiveTable) -> NDArray[np.bool_]:
    inside = (table.ranks >= 2) & (table.ranks <= MOST_RANKS) & (table.ranks == table.ranks_per_node)
    return np.asarray(inside & (table.bytes >= SMALLEST) & (table.bytes <= LARGEST))


def never_fitted(data: Path, *, siblings: bool = False) -> Iterator[Unseen]:
    """Yield name, comparison and decisions of every system as if its devices had never been measured.

    Servers with PCIe come twice. Without decisions, nothing is known of the server. With ``siblings`` it is those whose
    links are of a generation that others were measured on, too.
    """
    for system in systems():
        if not is_measured(data, system) or (siblings and not has_same_links(system.family)):
            continue
        known, unknown = (
            partial(_left_out, data, system, server_known=told, siblings=siblings) for told in (True, False)
        )
        yield f"nccl {system.family}", known, (SERVER_DECISION, SPACING_DECISION)
        if measured_node(system.interconnect).intra_node.topology == PCIE:
            yield f"nccl {system.family}", unknown, ()


def _left_out(data: Path, system: System, *, server_known: bool, siblings: bool) -> Compared:
    """The newest version of NCCL, all kinds that both the table and the lender have."""
    tables = dict(
        system_tables(partial(samples, data, "collectives"), system)[
            entry("calibrations", f"{system.family}/collectives")["default"]
        ]
    )
    _, kinds = collectives_without(system.family, siblings=siblings)
    node = measured_node(system.interconnect)
    if server_known and node.intra_node.topology == PCIE:
        sums = tables["all_reduce"]
        shares, told = server_shares(sums, node, kinds)
        tables["all_reduce"] = sums.where(~told)
        kinds = {kind: replace(k, shares=shares) for kind, k in kinds.items()}
    part = compared([table.where(_apart(table)) for table in tables.values()], node, kinds)
    if part is None:
        raise InputError(f"no collective of {system.family} is in the table")
    return part


def _apart(table: CollectiveTable) -> NDArray[np.bool_]:
    """The rows with the smallest message of every step of ``SPACING``, for each number of ranks."""
    kept = np.zeros(len(table), dtype=bool)
    for ranks in np.unique(table.ranks):
        own = table.ranks == ranks
        sizes = np.unique(table.bytes[own])
        _, first = np.unique(np.floor(np.log(sizes) / np.log1p(SPACING)), return_index=True)
        kept |= own & np.isin(table.bytes, sizes[first])
    return kept
