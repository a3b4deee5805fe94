"""What a collective library reaches on its links: constants relative to the datasheet, by device family and version."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import Number

PROTOCOLS = ("ll", "ll128", "simple")
"""NCCL's ways to hand data on, from least latency to most bandwidth; other libraries have relatives of them."""
ALGORITHMS = ("pair", "one_shot", "two_shot", "multicast")
"""Kernels of an engine's all-reduce: ``pair`` between two ranks, where one peer's loads are in flight only;
``multicast`` lets the switch add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One way to hand data from rank to rank inside a node."""

    launch_s: Number
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
    shares: Mapping[int, float] = field(default_factory=dict)
    """Where links meet in the host: the bandwidth left to each rank over that of a pair, by the ranks of the node
    that take part; they share switches, root complexes and the link between sockets."""

    def share(self, ranks: Number) -> Number:
        """The share for a number of ranks, between the measured ones by interpolation of logarithms."""
        if not self.shares:
            return 1.0
        share: Number = np.exp(np.interp(np.log(ranks), np.log(list(self.shares)), np.log(list(self.shares.values()))))
        return share


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
class CustomAllReduce:
    """The all-reduce kernels of one engine release, by algorithm."""

    name: str
    """Engine and release, as the calibration names them."""
    algorithms: Mapping[str, Protocol]
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
            algorithms={a: Protocol(**raw[a]) for a in ALGORITHMS if a in raw},
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
        if not isinstance(ranks, np.ndarray):
            return next((self.most_bytes[n] for n in known if ranks <= n), 0.0)
        limits = np.array([*(self.most_bytes[n] for n in known), 0.0])
        within: NDArray[np.float64] = limits[np.searchsorted(known, ranks)]
        return within


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
        protocols=tuple(Protocol(**raw[p]) for p in PROTOCOLS if p in raw),
        shares={int(n): float(share) for n, share in raw.get("shares", {}).items()},
    )
