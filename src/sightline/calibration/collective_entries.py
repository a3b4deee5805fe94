"""Write the catalog's ``collectives`` calibrations from public tables: the same bytes for the same data.

``python -m sightline.calibration.collective_entries --data DIR --out DIR`` writes one folder per device family. It
never writes over a file unless told to.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sightline.calibration.collective_tables import (
    CollectiveTable,
    nccl_versions,
    read_all_reduce_bench,
    read_apex,
    read_nccl,
    read_vidur,
)
from sightline.calibration.collectives import (
    TYPICAL_PCIE,
    Errors,
    FitResult,
    MeasuredNode,
    fit_collectives,
    fit_network,
    measured_node,
)
from sightline.cost.collective_constants import PROTOCOLS, KindConstants, NetworkConstants, PcieConstants, Protocol
from sightline.cost.collective_families import PCIE
from sightline.errors import InputError, WorkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A device family, the system that measured it and the link its devices have."""

    name: str
    system: str
    interconnect: str
    send_recv: str = ""
    """Table of point-to-point transfers inside a node, if there is one."""


FAMILIES = (
    Family(
        name="a100-sxm",
        system="a100_sxm",
        interconnect="nvlink3",
        send_recv="vidur/network_a100_dgx_send_recv.csv",
    ),
    Family(
        name="h100-sxm",
        system="h100_sxm",
        interconnect="nvlink4",
        send_recv="apex_plus/H100-SXM-80GB_sendrecv.csv",
    ),
    Family(name="b200-sxm", system="b200_sxm", interconnect="nvlink5"),
    Family(name=PCIE, system="rtx_pro_6000_server", interconnect="pcie5"),
)
SWEEP_BANDWIDTH = 100e9
"""Network bytes per second of a node in the multi-node sweep, whose nodes are not named: 92 GB/s are reached."""
DATE = "2026-11"
NCCL_SOURCE = "ai-dynamo/aiconfigurator@095f58a, nccl-tests inside a node of 8, NCCL {versions}"
SWEEP_SOURCE = (
    "network: all-reduce over 4 nodes of 8 in stas00/ml-engineering@744d01e network/benchmarks,"
    " 100 GB/s per node assumed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """All fits of one family: by library version, then kind."""

    family: Family
    versions: Mapping[str, Mapping[str, FitResult]]
    sources: Sequence[str]

    @property
    def newest(self) -> str:
        """The version that a prediction takes unless told otherwise."""
        return list(self.versions)[-1]

    def kinds(self, version: str) -> dict[str, KindConstants]:
        """Constants of one version."""
        return {name: k for fit in self.versions[version].values() for name, k in fit.kinds.items()}


def fit_family(data: Path, family: Family) -> Fits:
    """Fit every library version that ``family`` was measured with, holding parts out for the newest."""
    node = measured_node(family.interconnect)
    known = nccl_versions(data, family.system)
    if not known:
        raise WorkError(f"no measurements of {family.system} in {data}")
    versions = {}
    for version in known:
        tables = read_nccl(data, family.system, version)
        if version == known[-1] and family.send_recv:
            tables["send_recv"] = _send_recv(data / family.send_recv)
        newest = version == known[-1]
        versions[version] = {k: fit_collectives(t, node, hold_out=newest) for k, t in sorted(tables.items())}
    sources = [NCCL_SOURCE.format(versions=", ".join(known)), SWEEP_SOURCE]
    if family.send_recv:
        sources.append(f"send_recv: {family.send_recv.split('/')[0]} table of two ranks in a node")
    return Fits(family=family, versions=versions, sources=sources)


def _send_recv(path: Path) -> CollectiveTable:
    table = read_apex(path) if path.parent.name == "apex_plus" else read_vidur(path)
    return table.where(table.ranks_per_node == 2)


def completed(kinds: Mapping[str, KindConstants]) -> dict[str, KindConstants]:
    """Return ``kinds`` with what was not measured: broadcast and send_recv as an all-gather without a local part."""
    chain = replace(kinds["all_gather"], local=0.0)
    return {"broadcast": chain, "send_recv": chain, **kinds}


def mean_kinds(sets: Sequence[Mapping[str, KindConstants]]) -> dict[str, KindConstants]:
    """Return the geometric mean of each constant over the sets that have the kind."""
    out = {}
    for kind in sorted({k for s in sets for k in s}):
        have = [s[kind] for s in sets if kind in s]
        values = np.array([[(p.launch_s, p.hop, p.efficiency) for p in h.protocols] for h in have])
        protocols = tuple(
            Protocol(launch_s=float(launch), hop=float(hop), efficiency=float(share))
            for launch, hop, share in np.exp(np.log(values).mean(axis=0))
        )
        out[kind] = KindConstants(local=float(np.mean([h.local for h in have])), protocols=protocols)
    return out


def entry_text(
    *,
    source: str,
    evidence: str,
    network: NetworkConstants,
    versions: Mapping[str, Mapping[str, KindConstants]],
    residuals: Sequence[str] = (),
) -> str:
    """Return a calibration entry as YAML, constants to three digits."""
    default = list(versions)[-1]
    lines = [f'source: "{source}"', f"date: {DATE}", f"evidence: {evidence}", f'default: "{default}"', "network:"]
    for name, outside in zip(PROTOCOLS, network.protocols, strict=True):
        lines.append(f"  {name}: {{hop: {_digits(outside.hop)}, efficiency: {_digits(outside.efficiency)}}}")
    lines += [f"  tree: {_digits(network.tree)}"]
    lines += [_pcie_line(TYPICAL_PCIE), "versions:"]
    for version in reversed(list(versions)):
        lines.append(f'  "{version}":')
        for kind, fitted in sorted(versions[version].items()):
            lines += [f"    {kind}:", f"      local: {_digits(fitted.local)}"]
            for name, inside in zip(PROTOCOLS[-len(fitted.protocols) :], fitted.protocols, strict=True):
                launch, hop, share = map(_digits, (inside.launch_s, inside.hop, inside.efficiency))
                lines.append(f"      {name}: {{launch_s: {launch}, hop: {hop}, efficiency: {share}}}")
    return "\n".join([*lines, *residuals]) + "\n"


def _pcie_line(pcie: PcieConstants) -> str:
    shares = ", ".join(f"{n}: {_digits(share)}" for n, share in pcie.shares.items())
    return f"pcie: {{bounce: {_digits(pcie.bounce)}, shares: {{{shares}}}}}"


def residual_lines(fits: Fits, network: Errors) -> list[str]:
    """Return the part of an entry that says what the fits leave unexplained, in per cent."""
    lines = ["residuals:", '  unit: "per cent of the measured time; [cases, median, 90th percentile, bias]"']
    lines += [f"  network: {_errors(network)}", "  fitted:"]
    for version in reversed(list(fits.versions)):
        each = ", ".join(f"{kind}: {_errors(fit.fitted)}" for kind, fit in fits.versions[version].items())
        lines.append(f'    "{version}": {{{each}}}')
    lines.append("  held_out:")
    for kind, fit in fits.versions[fits.newest].items():
        parts = ", ".join(f"{part}: {_errors(e)}" for part, e in fit.held_out.items())
        lines.append(f"    {kind}: {{{parts}}}")
    return lines


def _errors(found: Errors) -> str:
    figures = ", ".join(f"{100 * x:.1f}" for x in (found.median, found.p90, found.bias))
    return f"[{found.cases}, {figures}]"


def _digits(value: float) -> str:
    return f"{value:.3g}"


def write_entries(data: Path, out: Path, *, overwrite: bool = False) -> list[Path]:
    """Fit all families and write ``<family>/collectives.yaml`` under ``out``; return the paths."""
    paths = {name: out / name / "collectives.yaml" for name in (*(f.name for f in FAMILIES), "generic")}
    taken = [str(p) for p in paths.values() if p.exists()]
    if taken and not overwrite:
        raise InputError(f"{taken[0]} is already there; --overwrite replaces it")
    all_fits = [fit_family(data, family) for family in FAMILIES]
    network, network_errors = _network(data, all_fits[0])
    newest = [completed(fits.kinds(fits.newest)) for fits in all_fits]
    for fits, kinds in zip(all_fits, newest, strict=True):
        text = entry_text(
            source="; ".join(fits.sources),
            evidence="fitted",
            network=network,
            versions={v: fits.kinds(v) if v != fits.newest else kinds for v in fits.versions},
            residuals=residual_lines(fits, network_errors),
        )
        _write(paths[fits.family.name], text)
    switched = {f.family.name: kinds for f, kinds in zip(all_fits, newest, strict=True) if f.family.name != PCIE}
    mean = entry_text(
        source=f"geometric mean of the constants fitted for {', '.join(switched)}",
        evidence="estimated",
        network=network,
        versions={"nccl": mean_kinds(list(switched.values()))},
    )
    _write(paths["generic"], mean)
    return list(paths.values())


def _network(data: Path, fits: Fits) -> tuple[NetworkConstants, Errors]:
    sweep = read_all_reduce_bench(data / "stas00_all_reduce_bench_raw.csv")
    node: MeasuredNode = measured_node(fits.family.interconnect)
    node = replace(node, network=replace(node.network, bandwidth_per_node=SWEEP_BANDWIDTH))
    return fit_network(sweep, node, fits.kinds(fits.newest))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Fit and write; return the exit code."""
    parser = argparse.ArgumentParser(prog="sightline.calibration.collective_entries", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--out", type=Path, required=True, help="folder that receives one folder per device family")
    parser.add_argument("--overwrite", action="store_true", help="replace entries that are already there")
    options = parser.parse_args(argv)
    paths = write_entries(options.data, options.out, overwrite=options.overwrite)
    sys.stdout.writelines(f"{path}\n" for path in paths)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
