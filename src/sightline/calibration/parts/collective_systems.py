"""The systems that collectives were measured on, and the fits of each: NCCL by version, engines' kernels by release."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from sightline.calibration.manifest import Read, Stated, manifest
from sightline.calibration.parts.collective_kernels import fit_kernels
from sightline.calibration.parts.collectives import (
    CollectiveTable,
    Errors,
    Judged,
    errors,
    fit_collectives,
    measured_node,
)
from sightline.calibration.parts.part import covered
from sightline.cost.collectives.constants import CustomAllReduce, KindConstants
from sightline.cost.collectives.families import release_key
from sightline.errors import InputError
from sightline.scenario import Cluster

Tables = Mapping[str, CollectiveTable]
Ranges = Mapping[str, Mapping[str, Sequence[float]]]
"""The smallest and the largest by size, for each kind or engine."""

TRUSTED = 0.2
"""Median error above which a release's run is left out: NCCL inside it differs as much, so its links were others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A device family and what measured it."""

    family: str
    interconnect: str
    aiconfigurator: str = ""
    """Name of its folder in aiconfigurator's tables."""
    tables: Sequence[str] = ()
    """Further tables, of kinds that aiconfigurator lacks."""
    version: str = ""
    """Version of NCCL behind ``tables`` where they stand alone."""
    every: int = 1
    """One in so many rows of ``tables`` counts."""
    relative: str = ""
    """Family, fitted before, whose constants are kept where these tables are silent."""

    def tables_of(self, library: str) -> Stated:
        """The system's tables of NCCL, or of an engine's own kernels."""
        stated, where = manifest("collectives"), {"path": f"{self.aiconfigurator}/comm/{library}/*"}
        if library == "nccl":
            return {**stated["nccl"], "where": where}
        return {**stated["kernels"], "where": {**where, "kernel_source": stated["engines"][library]}}


def systems() -> tuple[System, ...]:
    """All systems, those without relative before those that start from them."""
    return tuple(System(family=name, **told) for name, told in manifest("collectives")["families"].items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """All fits of one family."""

    system: System
    node: Cluster
    versions: Mapping[str, Mapping[str, Judged[dict[str, KindConstants]]]]
    """By version of NCCL, oldest first, then kind."""
    borrowed: Mapping[str, KindConstants]
    """Kinds that nobody measured here, from the relative."""
    transferred: Mapping[str, Errors]
    """Errors of the relative's constants on this system's tables."""
    kernels: Mapping[tuple[str, str], Judged[CustomAllReduce]] = field(default_factory=dict)
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
        measured = {
            name: k for fit in self.versions[version or self.newest].values() for name, k in fit.constants.items()
        }
        if version and version != self.newest:
            return measured
        chain = measured.get("all_gather", self.borrowed.get("all_gather"))
        if chain is None:
            return measured
        plain = KindConstants(local=0.0, protocols=chain.protocols, shares=chain.shares)
        return {"broadcast": plain, "send_recv": plain, **self.borrowed, **measured}


def fit_system(read: Read, system: System, relative: Mapping[str, KindConstants] | None = None) -> Fits:
    """Fit all that ``system`` was measured with, holding parts out for the newest versions.

    ``relative`` fills what few tables leave open; systems with all tables are fitted without it, and it is tried on
    them.
    """
    node = measured_node(system.interconnect)
    libraries = system_tables(read, system)
    newest = list(libraries)[-1]
    prior = None if system.aiconfigurator else relative
    nccl = Fits(
        system=system,
        node=node,
        versions={
            version: {
                kind: fit_collectives(table, node, hold_out=version == newest, relative=prior)
                for kind, table in sorted(tables.items())
            }
            for version, tables in libraries.items()
        },
        borrowed=prior or _of_the_switch(node, relative or {}),
        transferred={k: errors(t, node, relative) for k, t in libraries[newest].items()} if relative else {},
    )
    engines = engine_tables(read, system)
    last = dict(engines.keys())  # of each engine its newest release
    kernels = {
        (engine, release): fit_kernels(table, node, nccl.kinds(), hold_out=last[engine] == release)
        for (engine, release), table in engines.items()
    }
    trusted = {name: fit for name, fit in kernels.items() if fit.fitted["median"] < TRUSTED}
    measured = [(kind, t) for tables in libraries.values() for kind, t in tables.items()]
    return replace(
        nccl,
        kernels=trusted,
        left_out=[" ".join(name) for name in kernels if name not in trusted],
        covered=_ranges([*measured, *((name[0], t) for name, t in engines.items() if name in trusted)]),
    )


def _ranges(measured: Iterable[tuple[str, CollectiveTable]]) -> Ranges:
    """What several tables of a kind cover together."""
    by_kind: dict[str, list[CollectiveTable]] = {}
    for kind, table in measured:
        by_kind.setdefault(kind, []).append(table)
    return {
        kind: covered({n: np.concatenate([getattr(t, n) for t in tables]) for n in ("ranks", "bytes")})
        for kind, tables in sorted(by_kind.items())
    }


def _of_the_switch(node: Cluster, relative: Mapping[str, KindConstants]) -> dict[str, KindConstants]:
    """Sums in the switch as the relative has them, for systems measured with too few ranks to see them."""
    return {"nvls": relative["nvls"]} if node.intra_node.in_network_reduction and "nvls" in relative else {}


def system_tables(read: Read, system: System) -> dict[str, Tables]:
    """Return a system's tables inside a node by version of NCCL, oldest first, then kind."""
    further: dict[str, CollectiveTable] = {}
    for name in system.tables:
        rows = read({"files": [name]}).filter(pl.col("ranks") == pl.col("ranks_per_node"))
        further |= _by_kind(rows.gather_every(system.every))
    if not system.aiconfigurator:
        return {system.version: further}
    rows = read(system.tables_of("nccl")).sort("ranks", "bytes", "seconds")
    versions = {version: _by_kind(part) for version, part in _by_release(rows).items()}
    if not versions:
        raise InputError(f"the tables hold no measurements of {system.aiconfigurator}")
    newest = list(versions)[-1]
    return {**versions, newest: {**versions[newest], **further}}


def engine_tables(read: Read, system: System) -> dict[tuple[str, str], CollectiveTable]:
    """Return engines' own all-reduce inside a node by engine and release, oldest first."""
    tables: dict[tuple[str, str], CollectiveTable] = {}
    for engine in manifest("collectives")["engines"] if system.aiconfigurator else ():
        rows = read(system.tables_of(engine)).sort("ranks", "bytes", maintain_order=True)
        for release, part in _by_release(rows).items():
            tables[engine, release] = CollectiveTable.of_kind("all_reduce", part)
    return tables


def _by_release(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The samples of each version of a library, oldest first."""
    known = {library.split()[1]: library for library in rows["library"].unique()}
    return {version: rows.filter(pl.col("library") == known[version]) for version in sorted(known, key=release_key)}


def _by_kind(rows: pl.DataFrame) -> dict[str, CollectiveTable]:
    return {
        str(kind): CollectiveTable.of_kind(str(kind), part)
        for (kind,), part in rows.group_by(["kernel"], maintain_order=True)
    }
