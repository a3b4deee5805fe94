"""Constants of collective libraries by device family and version, the groups that use them, and which a cluster has."""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from statistics import fmean
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from sightline.catalog import entry, names
from sightline.content import description, record, remembered
from sightline.cost.clock import FASTEST_CLOCK_HZ, REFERENCE_HZ, clock_hz
from sightline.cost.families import UNMEASURED, Evidence
from sightline.errors import InputError, nearest
from sightline.quantities import Count, Number, larger, smaller
from sightline.scenario import Cluster, Device, Host, Interconnect, Network

PROTOCOLS = ("ll", "ll128", "simple")
"""NCCL's ways to hand data on, from least latency to most bandwidth; other libraries have relatives of them."""
ALGORITHMS = ("pair", "one_shot", "two_shot", "multicast")
"""Kernels of an engine's all-reduce: ``pair`` between two ranks, where one peer's loads are in flight only;
``multicast`` lets the switch add."""


@description
class ProtocolConstants:
    """One way to hand data from rank to rank inside a node."""

    launch_s: Number
    """Fixed time: the kernel's start, synchronisation, filling the pipeline of chunks."""
    hop: float
    """Time of a hop over the link's datasheet latency."""
    efficiency: float
    """Share of the link's datasheet bandwidth that long messages reach."""


@description
class KindConstants:
    """The protocols of one kind of collective."""

    local: float
    """What a rank's own S / n bytes, copied or added in place, count against bytes over the link."""
    protocols: tuple[ProtocolConstants, ...]
    shares: Mapping[int, float] = field(default_factory=dict)
    """Where links meet in the host: the bandwidth left to each rank over that of a pair, by the ranks of the node
    that take part; they share switches, root complexes and the link between sockets."""

    def share(self, ranks: Number) -> Number:
        """The share for a number of ranks, between the measured ones by interpolation of logarithms."""
        if not self.shares:
            return 1.0
        share: Number = np.exp(np.interp(np.log(ranks), np.log(list(self.shares)), np.log(list(self.shares.values()))))
        return share


@description
class NetworkProtocol:
    """One way to hand data from node to node."""

    hop: float
    """Time of a hop over the network's datasheet latency."""
    efficiency: float
    """Share of the network's datasheet bandwidth that long messages reach."""


@description
class NetworkConstants:
    """What collectives reach between nodes."""

    protocols: tuple[NetworkProtocol, ...]
    tree: float
    """Bandwidth of a tree over that of a ring."""


@description
class CustomAllReduce:
    """The all-reduce kernels of one engine release, by algorithm."""

    name: str
    """Engine and release, as the calibration names them."""
    algorithms: Mapping[str, ProtocolConstants]
    """By name of ``ALGORITHMS``; ``hop`` is the time per peer over the link's datasheet latency."""
    most_bytes: Mapping[int, float]
    """Largest message that the kernels take, by the most ranks it holds for; larger groups have none."""
    block_bandwidth: float | None = None
    """Bytes per second that a block takes in, where blocks share a message evenly (``even_blocks_time``)."""

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any], *, name: str = "") -> "CustomAllReduce":
        """The kernels out of a calibration entry."""
        return cls(
            name=name,
            algorithms={a: ProtocolConstants(**raw[a]) for a in ALGORITHMS if a in raw},
            most_bytes={int(n): float(size) for n, size in raw["most_bytes"].items()},
        )

    def among(self, ranks: int) -> "CustomAllReduce":
        """The same kernels for groups of up to so many ranks, as long as those of the largest group measured."""
        largest = max(self.most_bytes)
        if ranks <= largest:
            return self
        return replace(self, most_bytes={**self.most_bytes, ranks: self.most_bytes[largest]})

    def limit(self, ranks: Number) -> Number:
        """Bytes up to which groups of so many ranks use the kernels."""
        known = sorted(self.most_bytes)
        limits = np.array([*(self.most_bytes[n] for n in known), 0.0])
        limit: Number = limits[np.searchsorted(known, ranks)]
        return limit


@record
class CollectiveConstants:
    """One set per device family and library version."""

    name: str
    version: str
    evidence: str
    kinds: Mapping[str, KindConstants]
    """By kind of collective; ``nvls`` is the all-reduce that the switch adds up."""
    network: NetworkConstants
    measured: tuple[str, ...] = ()
    """Kinds that were measured on the family; the others are taken from their like."""
    custom: CustomAllReduce | None = None
    """Kernels of an engine, used instead of the library where they are faster."""
    beyond: "CollectiveConstants | None" = None
    """What holds over PCIe for groups larger than a pair, where bridges join pairs only."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, name: str = "", version: str = "") -> "CollectiveConstants":
        """The constants of one library version out of a calibration entry.

        The default version is taken unless one is named; kinds that a version was not measured on are the default's.
        """
        newest = str(mapping["default"])
        chosen = version or newest
        kinds = {**mapping["versions"][newest], **mapping["versions"][chosen]}
        if "reduce" not in kinds and "reduce_scatter" in kinds:
            # Every rank adds what arrives to its own, as in a reduce-scatter, and hands the sum on.
            kinds["reduce"] = {**kinds["reduce_scatter"], "local": 0.0}
        network = mapping["network"]
        return cls(
            name=name,
            version=chosen,
            evidence=str(mapping["evidence"]),
            kinds={kind: kind_constants(raw) for kind, raw in kinds.items()},
            network=NetworkConstants(
                protocols=tuple(NetworkProtocol(**network[p]) for p in PROTOCOLS), tree=float(network["tree"])
            ),
            measured=tuple(mapping.get("measured", mapping["versions"][newest])),
        )


def kind_constants(raw: Mapping[str, Any]) -> KindConstants:
    """The constants of one kind: ``local`` and the protocols it has, in the order of ``PROTOCOLS``."""
    return KindConstants(
        local=float(raw["local"]),
        protocols=tuple(ProtocolConstants(**raw[p]) for p in PROTOCOLS if p in raw),
        shares={int(n): float(share) for n, share in raw.get("shares", {}).items()},
    )


class Links(Protocol):
    """What a collective needs to know of a cluster."""

    @property
    def per_node(self) -> int:
        """Devices in a node."""

    @property
    def full_node(self) -> int:
        """Devices of such a node that is full; 0 where that is unknown."""

    @property
    def intra_node(self) -> Interconnect:
        """The links between them."""

    @property
    def network(self) -> Network:
        """The network between nodes."""

    @property
    def host(self) -> Host:
        """The processor whose memory traffic may bounce through."""


@record
class Group:
    """Ranks that take part in one collective. Every field may be an array; they broadcast."""

    size: Number
    """Number of ranks."""
    ranks_per_node: Number
    """How many of them sit in one node."""
    sharing: Number | None = None
    """Groups that use a node's network ports at the same time; None means that every device of the node takes part."""
    stride: Number = 1.0
    """Nodes from one rank to the next, where they are not neighbours."""


def whole_group(devices: int, cluster: Links) -> Group:
    """Return the group of ``devices`` neighbours that have the network to themselves."""
    return Group(size=devices, ranks_per_node=min(devices, cluster.per_node), sharing=1.0)


def tensor_group(tensor_parallel: Count, cluster: Links) -> Group:
    """Return a tensor-parallel group: neighbouring ranks, so it fills a node before it leaves it."""
    t = _number(tensor_parallel)
    return Group(size=t, ranks_per_node=smaller(t, cluster.per_node))


def data_group(tensor_parallel: Count, data_parallel: Count, cluster: Links) -> Group:
    """Return a data-parallel group: one rank in every ``tensor_parallel``, so a node holds per_node / t of them.

    It serves gradients, and the gathering of tokens of data-parallel attention.
    """
    d = _number(data_parallel)
    return Group(size=d, ranks_per_node=smaller(d, larger(1, cluster.per_node // _number(tensor_parallel))))


def pipeline_boundary(tensor_parallel: Count, data_parallel: Count, cluster: Links) -> Group:
    """Return the pair of ranks that hand activations from one pipeline stage to the next.

    Neighbouring stages are t d ranks apart: inside a node when that is less than a node, else in two nodes, and then
    every rank of the node sends through the node's ports at once. Leaves out that among stages smaller than a node
    some boundaries do cross to the next node.
    """
    apart = _number(tensor_parallel) * _number(data_parallel)
    stride = larger(1.0, apart / cluster.per_node)
    return Group(size=2, ranks_per_node=1.0 + (apart < cluster.per_node), stride=stride)


def ring_neighbours(ranks: Count, cluster: Links) -> Group:
    """Return the pair of neighbours that paces a ring over ``ranks`` devices side by side.

    Where the ring leaves a node, those at its border do: each through its own port, and the others wait for them.
    """
    return Group(size=2, ranks_per_node=1.0 + (_number(ranks) <= cluster.per_node))


def _number(count: Count) -> Number:
    return count.astype(float) if isinstance(count, np.ndarray) else count


_MEASURED_EXCHANGES: Final[Mapping[str, tuple[float, float]]] = {
    "EPYC of the Rome generation, NVIDIA/nccl#814": (15.3, 22.2),
    "Threadripper 2950X, forum.level1techs.com, topic 185531": (3.75, 5.55),
    "desktop, gist muellerzr/fbfabd0f": (8.4, 12.0),
    "desktop, tinygrad/open-gpu-kernel-modules#44": (4.3, 6.3),
}
"""GB/s per direction of copies between two devices through host memory, both ways at a time and one way alone."""
TWO_WAY = round(fmean(both / alone for both, alone in _MEASURED_EXCHANGES.values()), 2)
"""What a device exchanges with host memory in each direction when both are in use, over one direction alone.

The mean of ``_MEASURED_EXCHANGES``, each within 2 % of it. What NCCL reaches over PCIe was measured on links in use
both ways, so that its efficiencies hold this already."""


class Node(NamedTuple):
    """A cluster's node as a group finds it: one kind of links inside."""

    per_node: int
    intra_node: Interconnect
    network: Network
    host: Host
    full_node: int = 0


def over_bridge(cluster: Links) -> Node:
    """Return the node of a pair that has a bridge to itself."""
    return Node(cluster.per_node, replace(cluster.intra_node, beyond=None), cluster.network, cluster.host)


def past_bridges(cluster: Links, far: Interconnect, kind: str) -> Node:
    """Return the node of more ranks, which meet over ``far``, as bridges leave it for a kind of collective."""
    near, host = cluster.intra_node, cluster.host
    if kind != "all_to_all":
        far = replace(far, latency_s=0.5 * (smaller(near.latency_s, far.latency_s) + far.latency_s))
        host = replace(
            host,
            memory_bandwidth=2.0 * host.memory_bandwidth,
            device_bandwidth=host.device_bandwidth / TWO_WAY,
        )
    return Node(cluster.per_node, far, cluster.network, host)


def sharing_half(constants: CollectiveConstants) -> CollectiveConstants:
    """Return constants of PCIe where bridges carry every other hop of a ring: twice the ranks share it as much."""
    kinds = {
        kind: k if kind == "all_to_all" else replace(k, shares={2 * n: share for n, share in k.shares.items()})
        for kind, k in constants.kinds.items()
    }
    return replace(constants, kinds=kinds)


PCIE = "pcie"
"""Name of the topology of devices whose links meet in the host, and of the calibration of those nobody measured."""
NOT_ALL_JOINED = ("ring", "torus")
"""Topologies in which a device has no link to each of the others."""
NCCL = "nccl"
CUSTOM = "custom"
"""The kernels of the usual engine."""


@cache
def load_collectives(calibration: str, version: str = "") -> CollectiveConstants:
    """Return the constants of a device family, for the newest library version known unless one is named."""
    part = f"{calibration}/collectives"
    mapping = entry("calibrations", part)
    known = list(mapping["versions"])
    if version and version not in known:
        raise InputError(
            f"unknown version '{version}' of the collective library in {part}{nearest(version, known)};"
            f" known: {', '.join(known)}"
        )
    return CollectiveConstants.from_mapping(mapping, name=part, version=version)


@cache
def load_custom(calibration: str, all_reduce: str = CUSTOM) -> CustomAllReduce:
    """Return an engine's all-reduce kernels on a device family.

    ``all_reduce`` is ``custom`` for the usual engine, an engine's name for its newest release measured, or engine
    and release: of releases that were not measured, the newest that is not newer, else the oldest.
    """
    part = f"{calibration}/collectives"
    engines = entry("calibrations", part)["custom"]
    engine, _, release = all_reduce.partition(" ")
    if engine == CUSTOM:
        engine = next(iter(engines))
    if engine not in engines:
        known = (NCCL, CUSTOM, *engines)
        raise InputError(
            f"unknown all-reduce '{engine}' in {part}{nearest(engine, known)}; allowed: {', '.join(known)}"
        )
    releases = sorted(engines[engine], key=release_key)
    older = [r for r in releases if not release or release_key(r) <= release_key(release)]
    chosen = older[-1] if older else releases[0]
    return CustomAllReduce.from_mapping(engines[engine][chosen], name=f"{engine} {chosen}")


def release_key(release: str) -> tuple[int, ...]:
    """Return the numbers of a release for comparison: 1.3.0rc10 comes after 1.2.0 and before 1.3.0rc20."""
    return tuple(int(part) for part in release.replace("rc", ".").replace(".post", ".").split(".") if part.isdigit())


def cluster_collectives(
    cluster: Cluster,
    version: str = "",
    all_reduce: str = NCCL,
    *,
    whole_domain: bool = False,
    block_bandwidth: float | None = None,
    launches: bool = True,
) -> CollectiveConstants:
    """Return the constants for a cluster's links, of the newest version of NCCL unless one is named.

    With ``all_reduce`` as in ``load_custom``, sums inside a node take the faster of NCCL and that engine's kernels,
    up to the size at which the engine turns to NCCL. Those kernels load from every peer: there are none without
    peer-to-peer access or a link to each (vLLM's custom_all_reduce.py: ``_can_p2p``, ``is_fully_connected``). Families
    without kernels take their relative's. With ``whole_domain`` those kernels reach all devices that one switch joins,
    though fewer were measured. A ``block_bandwidth`` is what a block of theirs takes in where blocks share messages
    evenly, as over a switch.
    Without ``launches`` only what links do takes time.
    """
    link = cluster.intra_node
    constants = _constants(cluster.device, link, version, all_reduce, launches)
    if whole_domain and constants.custom is not None:
        constants = replace(constants, custom=constants.custom.among(cluster.per_node))
    if block_bandwidth is not None and constants.custom is not None and link.topology != PCIE:
        constants = replace(constants, custom=replace(constants.custom, block_bandwidth=block_bandwidth))
    if link.beyond is None:
        return constants
    return replace(constants, beyond=sharing_half(_constants(cluster.device, link.beyond, "", all_reduce, launches)))


def slowed(kinds: Mapping[str, KindConstants], slower: Number) -> dict[str, KindConstants]:
    """Return the constants on a clock so many times slower: a kernel's launch is so many cycles, a hop waits for links.

    Launches of NCCL's least protocol over NVLink take 8.1 us on A100 at 1.41 GHz and 4.5 us on H100 at 1.98 GHz; over
    PCIe 6.3 us on V100 at 1.37 GHz, 3.2 to 4.3 us on RTX PRO 6000 and L40S at 2.4 to 2.5 GHz.
    """
    return {
        name: replace(kind, protocols=tuple(replace(p, launch_s=p.launch_s * slower) for p in kind.protocols))
        for name, kind in kinds.items()
    }


def without_launches(constants: CollectiveConstants) -> CollectiveConstants:
    """Return constants of collectives that start in no time: only hops and bytes over links take some."""
    custom = constants.custom
    if custom is not None:
        algorithms = {name: replace(kernel, launch_s=0.0) for name, kernel in custom.algorithms.items()}
        custom = replace(custom, algorithms=algorithms)
    return replace(constants, kinds=slowed(constants.kinds, 0.0), custom=custom)


@remembered(entries=256)
def _constants(
    device: Device, link: Interconnect, version: str, all_reduce: str, launches: bool
) -> CollectiveConstants:
    if not launches:
        return without_launches(_constants(device, link, version, all_reduce, True))
    library = _library(next(_families(device, link)), version, device)
    if link.shares is not None:
        library = replace(library, kinds={k: replace(kind, shares=link.shares) for k, kind in library.kinds.items()})
    if all_reduce == NCCL or not link.peer_to_peer or link.topology in NOT_ALL_JOINED:
        return library
    with_kernels = next(f for f in _families(device, link) if "custom" in entry("calibrations", f"{f}/collectives"))
    return replace(library, custom=load_custom(with_kernels, all_reduce))


def _library(family: str, version: str, device: Device) -> CollectiveConstants:
    """A family's constants; those of several devices together at the clock of ``device``, if plausible."""
    if family not in (PCIE, UNMEASURED):
        return load_collectives(family, version)
    slower = REFERENCE_HZ / np.minimum(clock_hz(device), FASTEST_CLOCK_HZ)
    return _slowed_library(family, version, slower) if slower.ndim else _slowed_once(family, version, float(slower))


def _slowed_library(family: str, version: str, slower: Number) -> CollectiveConstants:
    library = load_collectives(family, version)
    return replace(library, kinds=slowed(library.kinds, slower))


_slowed_once = cache(_slowed_library)


def is_unknown_server(cluster: Cluster, kind: str) -> bool:
    """Return whether links meet in a host of which neither a table nor anybody else says how they share it."""
    link = cluster.intra_node
    return link.topology == PCIE and link.shares is None and collective_evidence(cluster, kind) != "calibrated"


def collective_evidence(cluster: Cluster, kind: str) -> Evidence:
    """What the constants of a kind of collective rest on, inside a node.

    calibrated: measured on the device's own family; extrapolated: on a relative, on PCIe in general, or another
    kind; datasheet: on nobody's. A family's name begins the names of its devices.
    """
    family = next(_families(cluster.device, cluster.intra_node))
    if family == UNMEASURED:
        return "datasheet"
    own = cluster.device.name.startswith(family) and kind in load_collectives(family).measured
    return "calibrated" if own else "extrapolated"


def _families(device: Device, link: Interconnect) -> Iterator[str]:
    """The families whose constants fit links of the kind, nearest first; the last has everything."""
    on_pcie = link.topology == PCIE
    for family in (device.calibration, *device.relatives):
        if f"{family}/collectives" in names("calibrations") and family != UNMEASURED:
            measured_on = entry("calibrations", f"{family}/collectives")["topology"]
            if (measured_on == PCIE) == on_pcie:
                yield family
    yield PCIE if on_pcie else UNMEASURED
