"""What a collective library reaches on its links: constants relative to the datasheet, per device family and version."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sightline.catalog import entry
from sightline.cost.families import family_of
from sightline.errors import InputError, nearest
from sightline.scenario import Cluster

PCIE = "pcie"
"""Name of the calibration, and of the topology, of devices whose links meet in the host."""
PROTOCOLS = ("ll", "ll128", "simple")
"""NCCL's ways to hand data on, from least latency to most bandwidth; other libraries have relatives of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One way to hand data from rank to rank inside a node."""

    launch_s: float
    """Fixed time: the kernel's start, synchronisation, filling the pipeline of chunks."""
    hop: float
    """Time of a hop over the link's datasheet latency."""
    efficiency: float
    """Share of the link's datasheet bandwidth that long messages reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindConstants:
    """The protocols of one kind of collective."""

    local: float
    """What a rank's own S / n bytes, copied or added in place, count against bytes over the link."""
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkProtocol:
    """One way to hand data from node to node."""

    hop: float
    """Time of a hop over the network's datasheet latency."""
    efficiency: float
    """Share of the network's datasheet bandwidth that long messages reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConstants:
    """What collectives reach between nodes."""

    protocols: tuple[NetworkProtocol, ...]
    tree: float
    """Bandwidth of a tree over that of a ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieConstants:
    """What devices share whose links meet in the host."""

    root_links: float
    """Links that the host's root complexes carry at once, in device links."""
    bounce: float
    """Share of the bandwidth left when data goes through host memory, for want of peer-to-peer access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveConstants:
    """One set per device family and library version."""

    name: str
    version: str
    evidence: str
    kinds: Mapping[str, KindConstants]
    """By kind of collective; ``nvls`` is the all-reduce that the switch adds up."""
    network: NetworkConstants
    pcie: PcieConstants

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, name: str = "", version: str = "") -> "CollectiveConstants":
        """The constants of one library version out of a calibration entry.

        The default version is taken unless one is named; kinds that a version was not measured on are the default's.
        """
        newest = str(mapping["default"])
        chosen = version or newest
        kinds = {**mapping["versions"][newest], **mapping["versions"][chosen]}
        network = mapping["network"]
        return cls(
            name=name,
            version=chosen,
            evidence=str(mapping["evidence"]),
            kinds={kind: kind_constants(raw) for kind, raw in kinds.items()},
            network=NetworkConstants(
                protocols=tuple(NetworkProtocol(**network[p]) for p in PROTOCOLS), tree=float(network["tree"])
            ),
            pcie=PcieConstants(**mapping["pcie"]),
        )


def kind_constants(raw: Mapping[str, Any]) -> KindConstants:
    """The constants of one kind: ``local`` and the protocols it has, in the order of ``PROTOCOLS``."""
    return KindConstants(local=float(raw["local"]), protocols=tuple(Protocol(**raw[p]) for p in PROTOCOLS if p in raw))


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


def cluster_collectives(cluster: Cluster, version: str = "") -> CollectiveConstants:
    """Return the constants for a cluster: of PCIe where that is the devices' link, else of the devices' system."""
    if cluster.intra_node.topology == PCIE:
        return load_collectives(PCIE)
    return load_collectives(family_of(cluster.device, "collectives"), version)
