"""Fit the constants of collectives to measured tables: robust least squares in log space, through the model itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.collective_tables import CollectiveTable
from sightline.catalog import entry
from sightline.cost.collective_constants import (
    CollectiveConstants,
    KindConstants,
    NetworkConstants,
    NetworkProtocol,
    PcieConstants,
    Protocol,
)
from sightline.cost.collectives import collective_time
from sightline.cost.topology import Group
from sightline.quantities import BYTES_PER_SECOND, SECONDS, parse_quantity
from sightline.scenario import Host, Interconnect, Network

Vector = NDArray[np.float64]

ROBUST_SCALE = 0.05
"""Relative error beyond which a measurement loses weight: tables hold spikes of a busy host."""
PRIOR_WEIGHT = 0.06
"""Pull on the logarithm of every constant towards ``_CENTRES``: decides only what the data leave open."""
_CENTRES = {
    "ring": (0.4, 5e-6, 0.45, 0.03, 6e-6, 0.45, 0.35, 18e-6, 0.8, 0.8),
    "all_to_all": (0.3, 6e-6, 0.15, 0.02, 11e-6, 0.1, 0.3, 18e-6, 0.5, 0.75),
    "send_recv": (1e-3, 5e-6, 0.45, 0.03, 7e-6, 0.45, 0.35, 9e-6, 0.5, 0.8),
    "pcie ring": (0.4, 5e-6, 0.3, 0.3, 7e-6, 0.8, 0.7, 25e-6, 0.6, 0.8),
    "pcie all_to_all": (0.4, 5e-6, 0.3, 0.2, 7e-6, 0.1, 0.3, 10e-6, 1.0, 0.7),
}
"""What NCCL reaches on NVLink and on PCIe by and large: local, then launch_s, hop, efficiency of each protocol."""
_LEAST = (1e-3, *(5e-7, 1e-3, 2e-3) * 3)
_MOST = (3.0, *(1e-4, 10.0, 0.95) * 3)
_NVLS_CENTRE = (40e-6, 0.65)
NVLS_HOP = 1.0
"""Hops of the switch cannot be told from the launch with one group size, so one link latency each is assumed."""

TYPICAL_NETWORK = NetworkConstants(
    protocols=(
        NetworkProtocol(hop=1.6, efficiency=0.25),
        NetworkProtocol(hop=2.0, efficiency=0.55),
        NetworkProtocol(hop=3.5, efficiency=0.88),
    ),
    tree=0.85,
)
"""What NCCL reaches over InfiniBand by and large: 8 us per hop in small messages, 88 % of the ports in large ones."""
TYPICAL_PCIE = PcieConstants(shares={2: 1.0, 4: 0.75, 8: 0.375}, bounce=0.5)
"""Rings of 8 keep 60 % of a pair's bandwidth with peer-to-peer access (RTX PRO 6000) and a tenth without (L40S)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """The links that a table was measured on."""

    per_node: int
    intra_node: Interconnect
    network: Network
    host: Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Absolute relative errors over a set of measurements."""

    cases: int
    median: float
    p90: float
    bias: float
    """Median of predicted over measured, minus 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """Constants of one kind of collective (and of ``nvls`` beside all_reduce) with what they leave unexplained."""

    kinds: Mapping[str, KindConstants]
    fitted: Errors
    held_out: Mapping[str, Errors]
    """Errors on what the fit did not see, by what was left out: group sizes, message ranges."""


def measured_node(interconnect: str, network: str = "infiniband-hdr", per_node: int = 8) -> MeasuredNode:
    """Return a node with the catalog's links of these names."""
    link, net = entry("interconnects", interconnect), entry("networks", network)
    return MeasuredNode(
        per_node=per_node,
        intra_node=Interconnect(
            name=interconnect,
            bandwidth=parse_quantity(link["bandwidth"], BYTES_PER_SECOND),
            latency_s=parse_quantity(link["latency"], SECONDS),
            topology=link["topology"],
            peer_to_peer=link["peer_to_peer"],
            in_network_reduction=link["in_network_reduction"],
        ),
        network=Network(
            name=network,
            bandwidth_per_node=parse_quantity(net["bandwidth_per_node"], BYTES_PER_SECOND),
            latency_s=parse_quantity(net["latency"], SECONDS),
        ),
        host=Host(name="any"),
    )


def predicted(
    table: CollectiveTable,
    node: MeasuredNode,
    kinds: Mapping[str, KindConstants],
    network: NetworkConstants = TYPICAL_NETWORK,
) -> Vector:
    """Return the model's seconds for every measurement of ``table``."""
    constants = CollectiveConstants(
        name="fit", version="", evidence="fitted", kinds=kinds, network=network, pcie=TYPICAL_PCIE
    )
    group = Group(size=table.size, ranks_per_node=table.ranks_per_node, sharing=1.0)
    return np.asarray(collective_time(table.kind, table.bytes, group=group, cluster=node, constants=constants))


def errors(
    table: CollectiveTable,
    node: MeasuredNode,
    kinds: Mapping[str, KindConstants],
    network: NetworkConstants = TYPICAL_NETWORK,
) -> Errors:
    """Return how far the model with these constants is from the measurements."""
    ratio = predicted(table, node, kinds, network) / table.seconds
    off = np.abs(ratio - 1)
    return Errors(
        cases=len(table),
        median=float(np.median(off)),
        p90=float(np.quantile(off, 0.9)),
        bias=float(np.median(ratio) - 1),
    )


def fit_collectives(table: CollectiveTable, node: MeasuredNode, *, hold_out: bool = True) -> FitResult:
    """Fit one kind of collective to its measurements, and again without parts of them to see how far it carries."""
    kinds = _fit(table, node)
    held_out = {}
    for name, left_out in _parts(table).items() if hold_out else ():
        seen = _fit(table.where(~left_out), node)
        held_out[name] = errors(table.where(left_out), node, seen)
    return FitResult(kinds=kinds, fitted=errors(table, node, kinds), held_out=held_out)


def _parts(table: CollectiveTable) -> dict[str, NDArray[np.bool_]]:
    """What is left out in turn: every group size but the only ones, ranges of messages, every other message size."""
    sizes = np.unique(table.size)
    parts = {f"{n:.0f} ranks": table.size == n for n in sizes if len(sizes) > 1}
    edges = (("under 16 KiB", 0, 2**14), ("16 KiB to 1 MiB", 2**14, 2**20), ("1 to 32 MiB", 2**20, 2**25))
    for name, low, high in (*edges, ("over 32 MiB", 2**25, np.inf)):
        parts[name] = (table.bytes >= low) & (table.bytes < high)
    parts["every other size"] = np.round(np.log2(table.bytes)) % 2 == 0
    return {name: mask for name, mask in parts.items() if mask.any() and not mask.all()}


def _fit(table: CollectiveTable, node: MeasuredNode) -> dict[str, KindConstants]:
    """The constants of the table's kind with the least robust error."""
    in_switch = table.kind == "all_reduce" and node.intra_node.in_network_reduction and bool(np.any(table.size > 4))
    shape = table.kind if table.kind in ("all_to_all", "send_recv") else "ring"
    name = f"pcie {shape}" if node.intra_node.topology == "pcie" else shape
    centre = np.array(_CENTRES[name] + (_NVLS_CENTRE if in_switch else ()))
    least = np.array(_LEAST + ((5e-6, 0.05) if in_switch else ()))
    most = np.array(_MOST + ((2e-4, 1.0) if in_switch else ()))

    def model(values: Vector) -> Vector:
        return predicted(table, node, _constants(table.kind, values))

    return _constants(table.kind, _robust_fit(model, table.seconds, centre, least, most, _starts(np.log(centre))))


def fit_network(
    table: CollectiveTable, node: MeasuredNode, kinds: Mapping[str, KindConstants]
) -> tuple[NetworkConstants, Errors]:
    """Return what all-reduces across nodes say of the network, given the constants inside a node.

    One sweep cannot tell the bandwidth of ports from the share of it that is reached: ``node`` says the former. Nor
    can it tell hops of one protocol inside from hops outside, so no constant moves further from ``TYPICAL_NETWORK``
    than by half.
    """
    typical = TYPICAL_NETWORK
    centre = np.array([x for p in typical.protocols for x in (p.hop, p.efficiency)] + [typical.tree])
    least, most = centre / 1.5, np.minimum(centre * 1.5, [np.inf, 0.95] * 3 + [0.95])

    def constants(values: Vector) -> NetworkConstants:
        protocols = tuple(NetworkProtocol(hop=float(h), efficiency=float(e)) for h, e in values[:6].reshape(3, 2))
        return NetworkConstants(protocols=protocols, tree=float(values[6]))

    def model(values: Vector) -> Vector:
        return predicted(table, node, kinds, constants(values))

    network = constants(_robust_fit(model, table.seconds, centre, least, most, [np.log(centre)]))
    return network, errors(table, node, kinds, network)


def _robust_fit(
    model: Callable[[Vector], Vector],
    measured: Vector,
    centre: Vector,
    least: Vector,
    most: Vector,
    starts: Sequence[Vector],
) -> Vector:
    """The positive values, within bounds, whose model is nearest to what was measured, from the best of the starts."""
    from scipy.optimize import least_squares

    def misfit(logs: Vector) -> Vector:
        pull = PRIOR_WEIGHT * (logs - np.log(centre))
        return np.concatenate([np.log(model(np.exp(logs)) / measured), pull])

    low, high = np.log(least), np.log(most)
    found = [
        least_squares(
            misfit,
            np.clip(start, low + 1e-6, high - 1e-6),
            bounds=(low, high),
            loss="soft_l1",
            f_scale=ROBUST_SCALE,
            max_nfev=200,
            xtol=1e-6,
        )
        for start in starts
    ]
    values: Vector = np.exp(min(found, key=lambda f: f.cost).x)
    return values


def _starts(prior: Vector) -> list[Vector]:
    """The prior with faster and slower launches, hops and middle protocols: the minimum over protocols has kinks."""
    starts = []
    for launch, hop, middle in product((0.8, 1.6), (0.6, 2.0), (0.6, 1.4)):
        start = prior.copy()
        start[[1, 4]] += np.log(launch)
        start[[2, 5, 8]] += np.log(hop)
        start[6] += np.log(middle)
        starts.append(start)
    return starts


def _constants(kind: str, values: Vector) -> dict[str, KindConstants]:
    """Constants out of the fit's vector: local, three per protocol, then launch and efficiency of ``nvls``."""
    local = 0.0 if kind in ("send_recv", "broadcast") else float(values[0])
    protocols = tuple(
        Protocol(launch_s=float(launch), hop=float(hop), efficiency=float(share))
        for launch, hop, share in values[1:10].reshape(3, 3)
    )
    kinds = {kind: KindConstants(local=local, protocols=protocols)}
    if len(values) > 10:
        switch = Protocol(launch_s=float(values[10]), hop=NVLS_HOP, efficiency=float(values[11]))
        kinds["nvls"] = KindConstants(local=0.0, protocols=(switch,))
    return kinds
