"""Bridges that join pairs of devices, such as NVLink of RTX 3090, A40 and H100 NVL: what they spare the links beyond.

A ring through all pairs takes every other hop over a bridge. A device then sends over its bridge and receives over
PCIe, or the reverse: half as much crosses the host, a device's lanes carry one direction, and of the hops that a small
message waits for half are the bridge's. An all-to-all sends one of n - 1 parts over a bridge, which is left out.
"""

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Final, NamedTuple

from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.groups import Links
from sightline.quantities import smaller
from sightline.scenario import Host, Interconnect, Network

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
