"""The systems that collectives were measured on, and the fits of each: NCCL by version, engines' kernels by release."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sightline.calibration.collective_tables import (
    CollectiveTable,
    nccl_versions,
    read_apex,
    read_kernels,
    read_nccl,
    read_vidur,
)
from sightline.calibration.parts.collective_kernels import KernelFit, fit_kernels
from sightline.calibration.parts.collectives import (
    Errors,
    FitResult,
    MeasuredNode,
    errors,
    fit_collectives,
    measured_node,
)
from sightline.calibration.parts.entries import covered
from sightline.cost.collectives.constants import KindConstants
from sightline.cost.collectives.families import release_key
from sightline.errors import WorkError

Tables = Mapping[str, CollectiveTable]
Ranges = Mapping[str, Mapping[str, Sequence[float]]]
"""The smallest and the largest by size, for each kind or engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A device family and what measured it."""

    family: str
    interconnect: str
    aiconfigurator: str = ""
    """Name of its folder in aiconfigurator's tables."""
    tables: tuple[str, ...] = ()
    """Further tables, of kinds that aiconfigurator lacks."""
    version: str = ""
    """Version of NCCL behind ``tables`` where they stand alone."""
    relative: str = ""
    """Family, fitted before, whose constants are kept where these tables are silent."""


_APEX_PCIE = tuple(
    f"apex_plus/V100-PCIE-16GB_{kind}.csv"
    for kind in ("all_gather", "all_reduce", "alltoall", "reduce_scatter", "sendrecv")
)
SYSTEMS = (
    System(
        family="a100-sxm",
        aiconfigurator="a100_sxm",
        interconnect="nvlink3",
        tables=("vidur/network_a100_dgx_send_recv.csv",),
    ),
    System(
        family="a800-sxm",
        interconnect="nvlink3-a800",
        tables=("frontier/network_a800_pairwise_nvlink_all_reduce.csv",),
        version="unstated",
        relative="a100-sxm",
    ),
    System(
        family="h100-sxm",
        aiconfigurator="h100_sxm",
        interconnect="nvlink4",
        tables=("apex_plus/H100-SXM-80GB_sendrecv.csv",),
    ),
    System(
        family="h200-sxm",
        aiconfigurator="h200_sxm",
        interconnect="nvlink4",
        tables=("apex_plus/H200-SXM-141GB_sendrecv.csv",),
        relative="h100-sxm",
    ),
    System(family="b200-sxm", aiconfigurator="b200_sxm", interconnect="nvlink5", relative="h100-sxm"),
    System(family="b300-sxm", aiconfigurator="b300_sxm", interconnect="nvlink5", relative="b200-sxm"),
    System(family="gb200", aiconfigurator="gb200", interconnect="nvlink5-nvl72", relative="b200-sxm"),
    System(family="gb300", aiconfigurator="gb300", interconnect="nvlink5-nvl72", relative="gb200"),
    System(family="l40s", aiconfigurator="l40s", interconnect="pcie4"),
    System(family="rtx-pro-6000", aiconfigurator="rtx_pro_6000_server", interconnect="pcie5"),
    System(family="v100-pcie", interconnect="pcie3-no-p2p", tables=_APEX_PCIE, version="unstated"),
)
ENGINES = ("vllm", "sglang", "trtllm")
"""Engines with kernels of their own; the first is what a prediction takes unless told otherwise."""
TRUSTED = 0.2
"""Median error above which a release's run is left out: NCCL inside it differs as much, so its links were others."""
COLUMNS = {"ranks": "size", "bytes": "bytes"}
"""Columns of a table by what an entry calls the sizes that it covers."""
_STRIDE = 32
"""One in so many rows of the A800's table, whose message sizes lie 3 % apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """All fits of one family."""

    system: System
    node: MeasuredNode
    versions: Mapping[str, Mapping[str, FitResult]]
    """By version of NCCL, oldest first, then kind."""
    borrowed: Mapping[str, KindConstants]
    """Kinds that nobody measured here, from the relative."""
    transferred: Mapping[str, Errors]
    """Errors of the relative's constants on this system's tables."""
    kernels: Mapping[tuple[str, str], KernelFit] = field(default_factory=dict)
    """By engine and release, oldest first."""
    left_out: Sequence[str] = ()
    """Engine releases whose run had other links."""
    covered: Ranges = field(default_factory=dict)
    """Ranks and bytes that were measured, by kind for NCCL's versions together, by engine for its releases."""

    @property
    def newest(self) -> str:
        """The version that a prediction takes unless told otherwise."""
        return list(self.versions)[-1]

    def kinds(self, version: str = "") -> dict[str, KindConstants]:
        """Constants of one version; the newest has all kinds."""
        measured = {name: k for fit in self.versions[version or self.newest].values() for name, k in fit.kinds.items()}
        if version and version != self.newest:
            return measured
        chain = measured.get("all_gather", self.borrowed.get("all_gather"))
        if chain is None:
            return measured
        plain = KindConstants(local=0.0, protocols=chain.protocols, shares=chain.shares)
        return {"broadcast": plain, "send_recv": plain, **self.borrowed, **measured}


def fit_system(data: Path, system: System, relative: Mapping[str, KindConstants] | None = None) -> Fits:
    """Fit all that ``system`` was measured with, holding parts out for the newest versions.

    ``relative`` fills what few tables leave open; systems with all tables are fitted without it, and it is tried on them.
    """
    node = measured_node(system.interconnect)
    libraries = system_tables(data, system)
    newest = list(libraries)[-1]
    prior = None if system.aiconfigurator else relative
    nccl = Fits(
        system=system,
        node=node,
        versions={v: fit_tables(t, node, hold_out=v == newest, relative=prior) for v, t in libraries.items()},
        borrowed=prior or _of_the_switch(node, relative or {}),
        transferred={k: errors(t, node, relative) for k, t in libraries[newest].items()} if relative else {},
    )
    measured = [(kind, t) for tables in libraries.values() for kind, t in tables.items()]
    if not system.aiconfigurator:
        return replace(nccl, covered=_ranges(measured))
    engines = read_kernels(data, system.aiconfigurator)
    kernels = _fit_engines(engines, node, nccl.kinds())
    trusted = {name: fit for name, fit in kernels.items() if fit.fitted.median < TRUSTED}
    return replace(
        nccl,
        kernels=trusted,
        left_out=[" ".join(name) for name in kernels if name not in trusted],
        covered=_ranges([*measured, *((name[0], t) for name, t in engines.items() if name in trusted)]),
    )


def _ranges(measured: Sequence[tuple[str, CollectiveTable]]) -> Ranges:
    """What several tables of a kind cover together."""
    by_kind: dict[str, list[CollectiveTable]] = {}
    for kind, table in measured:
        by_kind.setdefault(kind, []).append(table)
    return {
        kind: covered({n: np.concatenate([getattr(t, c) for t in tables]) for n, c in COLUMNS.items()})
        for kind, tables in sorted(by_kind.items())
    }


def _of_the_switch(node: MeasuredNode, relative: Mapping[str, KindConstants]) -> dict[str, KindConstants]:
    """Sums in the switch as the relative has them, for systems measured with too few ranks to see them."""
    return {"nvls": relative["nvls"]} if node.intra_node.in_network_reduction and "nvls" in relative else {}


def system_tables(data: Path, system: System) -> dict[str, Tables]:
    """Return a system's tables by version of NCCL, oldest first, then kind."""
    further = [_table(data / name) for name in system.tables]
    if not system.aiconfigurator:
        return {system.version: {t.kind: t for t in further}}
    known = nccl_versions(data, system.aiconfigurator)
    if not known:
        raise WorkError(f"no measurements of {system.aiconfigurator} in {data}")
    tables: dict[str, Tables] = {v: read_nccl(data, system.aiconfigurator, v) for v in known}
    return {**tables, known[-1]: {**tables[known[-1]], **{t.kind: t for t in further}}}


def fit_tables(
    tables: Tables,
    node: MeasuredNode,
    *,
    hold_out: bool = True,
    relative: Mapping[str, KindConstants] | None = None,
) -> dict[str, FitResult]:
    """Fit every kind that was measured with one version of the library."""
    return {k: fit_collectives(t, node, hold_out=hold_out, relative=relative) for k, t in sorted(tables.items())}


def _fit_engines(
    tables: Mapping[tuple[str, str], CollectiveTable], node: MeasuredNode, nccl: Mapping[str, KindConstants]
) -> dict[tuple[str, str], KernelFit]:
    ordered = sorted(tables, key=lambda name: (ENGINES.index(name[0]), release_key(name[1])))
    newest = dict(ordered)
    return {
        (engine, release): fit_kernels(tables[engine, release], node, nccl, hold_out=newest[engine] == release)
        for engine, release in ordered
    }


def _table(path: Path) -> CollectiveTable:
    """A table inside a node: of Vidur's and Frontier's point-to-point transfers or sums, or of APEX+."""
    if path.parent.name == "apex_plus":
        table = read_apex(path)
        return table.where(table.size == table.ranks_per_node)
    table = read_vidur(path)
    table = table.where(table.size == table.ranks_per_node)
    return table.every(_STRIDE) if path.parent.name == "frontier" else table
