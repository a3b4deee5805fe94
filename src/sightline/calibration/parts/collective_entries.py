"""Constants of collectives as catalog entries: of the shipped families, and from anybody's table inside a node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from sightline.calibration.fits import Array, FitResult, by_kernel, columns
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.collectives import (
    PINNED_SHARE,
    CollectiveTable,
    Errors,
    Judged,
    errors,
    fit_collectives,
    fit_kernels,
    fit_network,
    measured_node,
    predicted,
)
from sightline.calibration.parts.part import DATE, Entry, Part, covered
from sightline.catalog import entry
from sightline.cost.clock import REFERENCE_HZ, clock_hz
from sightline.cost.collectives.libraries import (
    ALGORITHMS,
    PCIE,
    PROTOCOLS,
    CollectiveConstants,
    CustomAllReduce,
    KindConstants,
    NetworkConstants,
    cluster_collectives,
    release_key,
    slowed,
)
from sightline.cost.collectives.libraries import ProtocolConstants as Protocol
from sightline.cost.families import UNMEASURED
from sightline.errors import InputError
from sightline.quantities import Number, significant
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


SHARED = ("topology", "network", "pcie")
"""What a table of one node cannot tell, taken from the nearest family."""
UNIT = "per cent of the measured time; [cases, median, 90th percentile, bias]"
Engines = Mapping[str, Mapping[str, CustomAllReduce]]
"""Engines' kernels by engine, then release, oldest first."""


def collective_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of collectives by device family, of PCIe, and of links that nobody measured."""
    fits: dict[str, Fits] = {}
    for system in systems():
        fits[system.family] = fit_system(read, system, fits[system.relative].kinds() if system.relative else None)
    network, network_errors = _network(stated["network"], read, fits)
    on_pcie = [f for f in fits.values() if f.node.intra_node.topology == PCIE]
    generations = [fits[name] for name in stated["generations"]]
    launches = [kinds_at(f.kinds(), f.system.family, REFERENCE_HZ) for f in (*generations, *on_pcie)]
    return {
        **{family: _family(found, network, network_errors, stated["sources"]) for family, found in fits.items()},
        PCIE: _mean_entry(on_pcie, network, stated["engines"], topology=PCIE),
        UNMEASURED: _mean_entry(generations, network, stated["engines"], topology="switch", launches=launches),
    }


def _network(stated: Stated, read: Read, fits: Mapping[str, Fits]) -> tuple[NetworkConstants, Errors]:
    """What the sweep over several nodes says of the network."""
    inside = fits[stated["family"]]
    node = measured_node(inside.system.interconnect)
    node = replace(node, network=replace(node.network, bandwidth_per_node=stated["bandwidth_per_node"]))
    sweep = CollectiveTable.of_kind("all_reduce", read(stated["tables"]))
    return fit_network(sweep, node, inside.kinds())


def _family(fits: Fits, network: NetworkConstants, network_errors: Errors, sources: Stated) -> Entry:
    """The entry of a measured family."""
    engines: dict[str, dict[str, CustomAllReduce]] = {}
    for (engine, release), fit in fits.kernels.items():
        engines.setdefault(engine, {})[release] = fit.constants
    content = entry_of(
        source="; ".join(_sources(fits, sources)),
        evidence="fitted",
        topology=fits.node.intra_node.topology,
        measured=sorted(fits.versions[fits.newest]),
        network=network,
        versions={v: fits.kinds(v) for v in fits.versions},
        engines=engines,
    )
    return {**content, "covered": fits.covered, "residuals": _residuals(fits, network_errors)}


def _mean_entry(
    fits: Sequence[Fits],
    network: NetworkConstants,
    names: Stated,
    *,
    topology: str,
    launches: Sequence[Mapping[str, KindConstants]] = (),
) -> Entry:
    """The entry of what nobody measured: the geometric mean of families with links of the kind."""
    engines = {}
    for engine in names:
        newest = [[fit.constants for (name, _), fit in f.kernels.items() if name == engine][-1:] for f in fits]
        mean = mean_kernels([kernels for each in newest for kernels in each])
        pairs = {n: size for n, size in mean.most_bytes.items() if n == 2}
        engines[engine] = {"typical": replace(mean, most_bytes=pairs) if topology == PCIE else mean}
    return entry_of(
        source=f"geometric mean of the constants fitted for {', '.join(f.system.family for f in fits)}"
        f"{', medians of their shares' * (topology == PCIE)}; launches at {REFERENCE_HZ / 1e9:g} GHz",
        evidence="estimated",
        topology=topology,
        network=network,
        versions={
            "nccl": mean_kinds(
                [kinds_at(over_half_of_the_link(f.kinds(), f.system), f.system.family, REFERENCE_HZ) for f in fits],
                launches,
            )
        },
        engines=engines,
    )


def _sources(fits: Fits, sources: Stated) -> list[str]:
    system = fits.system
    known = sources["nccl"].format(versions=", ".join(fits.versions))
    said = [known, sources["kernels"]] if system.aiconfigurator else []
    if fits.left_out:
        said.append(f"without {', '.join(fits.left_out)}, whose NCCL shows other links")
    if system.tables:
        said.append(f"inside a node: {', '.join(system.tables)}")
    if fits.borrowed and not system.aiconfigurator:
        said.append(f"kinds not measured, and messages below the tables': {system.relative}")
    return [*said, f"fitted as {system.interconnect}", sources["network"]]


def over_half_of_the_link(kinds: Mapping[str, KindConstants], system: System) -> dict[str, KindConstants]:
    """Return constants whose efficiencies are over half of a link where every byte crosses it twice.

    Without peer-to-peer access a fit's are over what the host exchanges with one device.
    """
    if measured_node(system.interconnect).intra_node.peer_to_peer:
        return dict(kinds)
    return {
        name: replace(k, protocols=tuple(replace(p, efficiency=2.0 * PINNED_SHARE * p.efficiency) for p in k.protocols))
        for name, k in kinds.items()
    }


def kinds_at(kinds: Mapping[str, KindConstants], family: str, hertz: Number) -> dict[str, KindConstants]:
    """Return what was measured on the device of a family as it would be at another clock."""
    return slowed(kinds, clock_hz(device_of(family)) / hertz)


def mean_kinds(
    sets: Sequence[Mapping[str, KindConstants]], launches: Sequence[Mapping[str, KindConstants]] = ()
) -> dict[str, KindConstants]:
    """Return the geometric mean of each constant over the sets that have the kind, and the median of shares.

    Shares are a server's: one whose switches leave a tenth of what others' do says nothing of the others. Launches are
    means over ``launches`` where there are some: a kernel starts in as many cycles over any links.
    """
    out = {}
    for kind in sorted({k for s in sets for k in s}):
        have = [s[kind] for s in sets if kind in s]
        protocols = tuple(map(_mean_protocol, zip(*(h.protocols for h in have), strict=True)))
        started = [s[kind].protocols for s in launches if kind in s and len(s[kind].protocols) == len(protocols)]
        starts = [_mean([float(p.launch_s) for p in same]) for same in zip(*started, strict=True)]
        if starts:
            protocols = tuple(replace(p, launch_s=start) for p, start in zip(protocols, starts, strict=True))
        shares = {n: float(np.median([h.shares[n] for h in have])) for n in have[0].shares}
        local = float(np.mean([h.local for h in have]))
        out[kind] = KindConstants(local=local, protocols=protocols, shares=shares)
    return out


def mean_kernels(kernels: Sequence[CustomAllReduce]) -> CustomAllReduce:
    """Return the geometric mean of each constant over the kernels that have the algorithm, with the median limits."""
    names = [name for name in ALGORITHMS if any(name in k.algorithms for k in kernels)]
    algorithms = {name: _mean_protocol([k.algorithms[name] for k in kernels if name in k.algorithms]) for name in names}
    sizes = sorted({n for k in kernels for n in k.most_bytes})
    limits = {n: float(np.median([k.most_bytes.get(n, 0.0) for k in kernels])) for n in sizes}
    return CustomAllReduce(name="mean", algorithms=algorithms, most_bytes=limits)


def _mean_protocol(protocols: Sequence[Protocol]) -> Protocol:
    return Protocol(
        launch_s=_mean([float(p.launch_s) for p in protocols]),
        hop=_mean([p.hop for p in protocols]),
        efficiency=_mean([p.efficiency for p in protocols]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))


def entry_of(
    *,
    source: str,
    evidence: str,
    topology: str,
    network: NetworkConstants,
    versions: Mapping[str, Mapping[str, KindConstants]],
    measured: Sequence[str] = (),
    engines: Engines | None = None,
) -> Entry:
    """Return a calibration entry, constants to three digits, newest versions and releases first."""
    outside = {name: _digits(p) for name, p in zip(PROTOCOLS, network.protocols, strict=True)}
    custom = {
        engine: {release: _kernels_entry(releases[release]) for release in reversed(list(releases))}
        for engine, releases in (engines or {}).items()
    }
    return {
        "source": source,
        "date": DATE,
        "evidence": evidence,
        "topology": topology,
        "measured": list(measured),
        "default": list(versions)[-1],
        "network": {**outside, "tree": significant(network.tree)},
        "versions": {version: _kinds_entry(versions[version]) for version in reversed(list(versions))},
        **({"custom": custom} if custom else {}),
    }


def _kinds_entry(kinds: Mapping[str, KindConstants]) -> Entry:
    return {kind: _kind_entry(constants) for kind, constants in sorted(kinds.items())}


def _kind_entry(kind: KindConstants) -> Entry:
    """One kind's constants as a catalog entry holds them, to three digits."""
    protocols = zip(PROTOCOLS[-len(kind.protocols) :], kind.protocols, strict=True)
    shares = {"shares": {n: significant(share) for n, share in sorted(kind.shares.items())}} if kind.shares else {}
    return {"local": significant(kind.local), **{name: _digits(p) for name, p in protocols}, **shares}


def _kernels_entry(kernels: CustomAllReduce) -> Entry:
    limits = {n: significant(size, 12) for n, size in sorted(kernels.most_bytes.items())}
    return {**{name: _digits(p) for name, p in kernels.algorithms.items()}, "most_bytes": limits}


def _digits(protocol: Any) -> dict[str, float]:
    return {name: significant(value) for name, value in asdict(protocol).items()}


def _residuals(fits: Fits, network: Errors) -> Entry:
    """What the fits leave unexplained, in per cent."""
    newest = fits.versions[fits.newest]
    kernels = {" ".join(name): fit for name, fit in fits.kernels.items()}
    fitted: Entry = {
        version: {kind: _per_cent(fit.fitted) for kind, fit in fits.versions[version].items()}
        for version in reversed(list(fits.versions))
    }
    fitted |= {name: _per_cent(kernels[name].fitted) for name in reversed(list(kernels))}
    held_out = {kind: _each(fit.held_out) for kind, fit in newest.items()}
    held_out |= {name: _each(fit.held_out) for name, fit in kernels.items() if fit.held_out}
    residuals = {"unit": UNIT, "network": _per_cent(network), "fitted": fitted, "held_out": held_out}
    if fits.transferred:
        residuals[f"with_the_constants_of_{fits.system.relative}"] = {"all": _each(fits.transferred)}
    return residuals


def _each(found: Mapping[str, Errors]) -> dict[str, list[float]]:
    return {name: _per_cent(e) for name, e in found.items()}


def _per_cent(found: Errors) -> list[float]:
    return [found["rows"], *(round(100 * found[name], 1) for name in ("median", "p90", "bias"))]


def _bound(rows: pl.DataFrame, cluster: Cluster) -> Array:
    """Sending what a rank must send over its link: the switch may add on the way, so all-reduce counts once."""
    c = columns(rows, "ranks", "bytes")
    share = np.where(
        rows["kernel"].is_in(["send_recv", "broadcast", "reduce"]).to_numpy(), 1.0, (c["ranks"] - 1) / c["ranks"]
    )
    return np.asarray(share * c["bytes"] / cluster.intra_node.bandwidth)


def _kinds_inside(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The samples of each kind that was measured inside a node, with those across nodes."""
    inside = rows.filter(pl.col("ranks") <= pl.col("ranks_per_node"))["kernel"].unique().to_list()
    if not inside:
        raise InputError(
            "no row stands for a collective inside one node; constants of the network are not fitted from tables yet"
        )
    return {kind: part for kind, part in by_kernel(rows).items() if kind in inside}


def _inside(rows: pl.DataFrame, _: Cluster) -> CollectiveTable:
    """The samples of a kind inside a node, which know how many there are in all."""
    table = CollectiveTable.of_kind(rows["kernel"][0], rows)
    return table.where(table.ranks <= table.ranks_per_node)


def _fit_kind(_: str, table: CollectiveTable, cluster: Cluster) -> tuple[FitResult, Entry]:
    kinds, fitted, held_out = fit_collectives(table, cluster)
    errors = {"fit": fitted, **{f"{name} left out": e for name, e in held_out.items()}}
    residuals = {name: {k: round(v, 4) for k, v in e.items() if k != "mean"} for name, e in errors.items()}
    plain = {name: _plain(constants) for name, constants in kinds.items()}
    rows = {"table": table.samples, "fitted": len(table)}
    return FitResult(constants=plain, rows=rows, residuals=residuals), {"kinds": kinds, "residuals": residuals}


def _content(fitted: Mapping[str, Entry], _: pl.DataFrame, cluster: Cluster) -> Entry:
    """The kinds that were fitted.

    The others, and what a table of one node cannot tell, come from the nearest family.
    """
    nearest = cluster_collectives(cluster)
    shipped = entry("calibrations", nearest.name)
    kinds = dict(nearest.kinds)
    for told in fitted.values():
        kinds |= told["kinds"]
    return {
        **{name: shipped[name] for name in SHARED if name in shipped},
        "measured": list(fitted),
        "default": "measured",
        "interconnect": cluster.intra_node.name,
        "versions": {"measured": _kinds_entry(kinds)},
        "residuals": {"held_out": {kind: told["residuals"] for kind, told in fitted.items()}},
    }


def _predict(_: str, table: CollectiveTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> Array:
    """Times inside a node; of what the catalog knows with the library's newest version."""
    constants = (
        cluster_collectives(cluster)
        if stated is None
        else CollectiveConstants.from_mapping({"evidence": "fitted", **stated})
    )
    return predicted(table, cluster, constants.kinds)


COLLECTIVES = Part(
    keys=("kernel", "ranks", "ranks_per_node", "bytes"),
    least=10,
    bound=_bound,
    table=_inside,
    fit_kernel=_fit_kind,
    content=_content,
    predict=_predict,
    kernels=_kinds_inside,
)


def _plain(kind: KindConstants) -> dict[str, float]:
    """A kind's constants by name, for people."""
    written = _kind_entry(kind)
    flat = {"local": written["local"]}
    for name in PROTOCOLS:
        flat |= {f"{name} {key}": value for key, value in written.get(name, {}).items()}
    return flat
