"""Write the catalog's ``collectives`` calibrations from public tables: the same bytes for the same data.

``python -m sightline.calibration collectives --data DIR --out DIR`` writes one folder per device family. It never
writes over a file unless told to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightline.calibration.collective_tables import read_all_reduce_bench
from sightline.calibration.manifest import device_of
from sightline.calibration.parts.collective_network import fit_network
from sightline.calibration.parts.collective_systems import ENGINES, SYSTEMS, Fits, fit_system
from sightline.calibration.parts.collectives import BOUNCE, Errors, measured_node
from sightline.cost.clock import REFERENCE_HZ, clock_hz
from sightline.cost.collectives.constants import (
    ALGORITHMS,
    PROTOCOLS,
    CustomAllReduce,
    KindConstants,
    NetworkConstants,
    Protocol,
)
from sightline.cost.collectives.families import PCIE, slowed
from sightline.cost.families import UNMEASURED
from sightline.errors import InputError
from sightline.quantities import Number

Engines = Mapping[str, Mapping[str, CustomAllReduce]]
"""Engines' kernels by engine, then release, oldest first."""

SWEEP_BANDWIDTH = 100e9
"""Network bytes per second of a node in the multi-node sweep, whose nodes are not named: 92 GB/s are reached."""
SWEPT = "a100-sxm"
"""Family whose constants inside a node go with the multi-node sweep."""
GENERATIONS = ("a100-sxm", "h100-sxm", "b200-sxm")
"""Families whose mean stands for switched links that nobody measured: one of each generation."""
DATE = "2026-11"
NCCL_SOURCE = "ai-dynamo/aiconfigurator@095f58a, nccl-tests inside a node, NCCL {versions}"
SWEEP_SOURCE = (
    "network: all-reduce over 4 nodes of 8 in stas00/ml-engineering@744d01e network/benchmarks,"
    " 100 GB/s per node assumed"
)
KERNEL_SOURCE = "custom: the same repository's all-reduce of engines inside CUDA graphs"


def write_entries(data: Path, out: Path, *, overwrite: bool = False) -> list[Path]:
    """Fit all families and write ``<family>/collectives.yaml`` under ``out``; return the paths."""
    names = (*(s.family for s in SYSTEMS), UNMEASURED, PCIE)
    paths = {name: out / name / "collectives.yaml" for name in names}
    taken = [str(p) for p in paths.values() if p.exists()]
    if taken and not overwrite:
        raise InputError(f"{taken[0]} is already there; --overwrite replaces it")
    fits: dict[str, Fits] = {}
    for system in SYSTEMS:
        fits[system.family] = fit_system(data, system, fits[system.relative].kinds() if system.relative else None)
    network, network_errors = _network(data, fits[SWEPT])
    for family, found in fits.items():
        _write(paths[family], family_text(found, network, network_errors))
    on_pcie = [f for f in fits.values() if f.node.intra_node.topology == PCIE]
    _write(paths[PCIE], mean_text(on_pcie, network, topology=PCIE))
    _write(paths[UNMEASURED], mean_text([fits[name] for name in GENERATIONS], network, topology="switch"))
    return list(paths.values())


def family_text(fits: Fits, network: NetworkConstants, network_errors: Errors) -> str:
    """Return the entry of a measured family."""
    engines: dict[str, dict[str, CustomAllReduce]] = {}
    for (engine, release), fit in fits.kernels.items():
        engines.setdefault(engine, {})[release] = fit.kernels
    topology = fits.node.intra_node.topology
    return entry_text(
        source="; ".join(_sources(fits)),
        evidence="fitted",
        topology=topology,
        measured=sorted(fits.versions[fits.newest]),
        network=network,
        versions={v: fits.kinds(v) for v in fits.versions},
        engines=engines,
        residuals=[*_covered_lines(fits), *residual_lines(fits, network_errors)],
    )


def mean_text(fits: Sequence[Fits], network: NetworkConstants, *, topology: str) -> str:
    """Return the entry of what nobody measured: the geometric mean of families with links of the kind."""
    engines = {}
    for engine in ENGINES:
        newest = [[fit.kernels for (name, _), fit in f.kernels.items() if name == engine][-1:] for f in fits]
        mean = mean_kernels([kernels for each in newest for kernels in each])
        pairs = {n: size for n, size in mean.most_bytes.items() if n == 2}
        engines[engine] = {"typical": replace(mean, most_bytes=pairs) if topology == PCIE else mean}
    return entry_text(
        source=f"geometric mean of the constants fitted for {', '.join(f.system.family for f in fits)}; launches at"
        f" {REFERENCE_HZ / 1e9:g} GHz",
        evidence="estimated",
        topology=topology,
        network=network,
        versions={"nccl": mean_kinds([kinds_at(f.kinds(), f.system.family, REFERENCE_HZ) for f in fits])},
        engines=engines,
    )


def _sources(fits: Fits) -> list[str]:
    system = fits.system
    known = NCCL_SOURCE.format(versions=", ".join(fits.versions))
    sources = [known, KERNEL_SOURCE] if system.aiconfigurator else []
    if fits.left_out:
        sources.append(f"without {', '.join(fits.left_out)}, whose NCCL shows other links")
    if system.tables:
        sources.append(f"inside a node: {', '.join(system.tables)}")
    if fits.borrowed and not system.aiconfigurator:
        sources.append(f"kinds not measured, and messages below the tables': {system.relative}")
    return [*sources, f"fitted as {system.interconnect}", SWEEP_SOURCE]


def kinds_at(kinds: Mapping[str, KindConstants], family: str, hertz: Number) -> dict[str, KindConstants]:
    """Return what was measured on the device of a family as it would be at another clock."""
    return slowed(kinds, clock_hz(device_of(family)) / hertz)


def mean_kinds(sets: Sequence[Mapping[str, KindConstants]]) -> dict[str, KindConstants]:
    """Return the geometric mean of each constant over the sets that have the kind."""
    out = {}
    for kind in sorted({k for s in sets for k in s}):
        have = [s[kind] for s in sets if kind in s]
        protocols = zip(*(h.protocols for h in have), strict=True)
        shares = {n: _mean([h.shares[n] for h in have]) for n in have[0].shares}
        local = float(np.mean([h.local for h in have]))
        out[kind] = KindConstants(local=local, protocols=tuple(map(_mean_protocol, protocols)), shares=shares)
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


def entry_text(
    *,
    source: str,
    evidence: str,
    topology: str,
    network: NetworkConstants,
    versions: Mapping[str, Mapping[str, KindConstants]],
    measured: Sequence[str] = (),
    engines: Engines | None = None,
    residuals: Sequence[str] = (),
) -> str:
    """Return a calibration entry as YAML, constants to three digits."""
    default = list(versions)[-1]
    lines = [f'source: "{source}"', f"date: {DATE}", f"evidence: {evidence}", f"topology: {topology}"]
    lines += [f"measured: [{', '.join(measured)}]", f'default: "{default}"', "network:"]
    for name, outside in zip(PROTOCOLS, network.protocols, strict=True):
        lines.append(f"  {name}: {{hop: {_digits(outside.hop)}, efficiency: {_digits(outside.efficiency)}}}")
    lines += [f"  tree: {_digits(network.tree)}", f"bounce: {BOUNCE}", "versions:"]
    for version in reversed(list(versions)):
        lines.append(f'  "{version}":')
        for kind, fitted in sorted(versions[version].items()):
            lines += [f"    {kind}:", f"      local: {_digits(fitted.local)}"]
            for name, inside in zip(PROTOCOLS[-len(fitted.protocols) :], fitted.protocols, strict=True):
                lines.append(f"      {name}: {_protocol(inside)}")
            if fitted.shares:
                lines.append(f"      shares: {_by_ranks(fitted.shares)}")
    return "\n".join([*lines, *_engine_lines(engines or {}), *residuals]) + "\n"


def _engine_lines(engines: Engines) -> list[str]:
    lines = ["custom:"] if engines else []
    for engine, releases in engines.items():
        lines.append(f"  {engine}:")
        for release in reversed(list(releases)):
            kernels = releases[release]
            lines.append(f'    "{release}":')
            lines += [f"      {name}: {_protocol(p)}" for name, p in kernels.algorithms.items()]
            lines.append(f"      most_bytes: {_by_ranks(kernels.most_bytes, digits=12)}")
    return lines


def _protocol(p: Protocol) -> str:
    return f"{{launch_s: {_digits(float(p.launch_s))}, hop: {_digits(p.hop)}, efficiency: {_digits(p.efficiency)}}}"


def _by_ranks(values: Mapping[int, float], digits: int = 3) -> str:
    return "{" + ", ".join(f"{n}: {value:.{digits}g}" for n, value in sorted(values.items())) + "}"


def _covered_lines(fits: Fits) -> list[str]:
    ranges = {
        kind: ", ".join(f"{name}: [{low:.12g}, {high:.12g}]" for name, (low, high) in sizes.items())
        for kind, sizes in fits.covered.items()
    }
    return ["covered:", *(f"  {kind}: {{{text}}}" for kind, text in ranges.items())]


def residual_lines(fits: Fits, network: Errors) -> list[str]:
    """Return the part of an entry that says what the fits leave unexplained, in per cent."""
    newest = fits.versions[fits.newest]
    lines = ["residuals:", '  unit: "per cent of the measured time; [cases, median, 90th percentile, bias]"']
    lines += [f"  network: {_errors(network)}", "  fitted:"]
    for version in reversed(list(fits.versions)):
        lines.append(f'    "{version}": {_each({k: fit.fitted for k, fit in fits.versions[version].items()})}')
    for (engine, release), fit in reversed(list(fits.kernels.items())):
        lines.append(f"    {engine} {release}: {_errors(fit.fitted)}")
    lines.append("  held_out:")
    lines += [f"    {kind}: {_each(fit.held_out)}" for kind, fit in newest.items()]
    for (engine, release), fit in fits.kernels.items():
        if fit.held_out:
            lines.append(f"    {engine} {release}: {_each(fit.held_out)}")
    if fits.transferred:
        lines += [f"  with_the_constants_of_{fits.system.relative}:", f"    all: {_each(fits.transferred)}"]
    return lines


def _each(found: Mapping[str, Errors]) -> str:
    return "{" + ", ".join(f"{name}: {_errors(e)}" for name, e in found.items()) + "}"


def _errors(found: Errors) -> str:
    figures = ", ".join(f"{100 * x:.1f}" for x in (found.median, found.p90, found.bias))
    return f"[{found.cases}, {figures}]"


def _digits(value: float) -> str:
    return f"{value:.3g}"


def _network(data: Path, fits: Fits) -> tuple[NetworkConstants, Errors]:
    sweep = read_all_reduce_bench(data / "stas00_all_reduce_bench_raw.csv")
    node = measured_node(fits.system.interconnect)
    node = replace(node, network=replace(node.network, bandwidth_per_node=SWEEP_BANDWIDTH))
    return fit_network(sweep, node, fits.kinds())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
