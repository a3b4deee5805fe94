"""Who talks to whom: the groups of ranks that a plan's collectives run over, and how they sit in the nodes.

Ranks are numbered tensor-parallel first, then data-parallel, then pipeline stages, as Megatron-LM does
(arXiv 2104.04473): tensor-parallel ranks are neighbours, data-parallel ranks have the tensor degree as their stride.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sightline.quantities import Count, Number, larger, smaller
from sightline.scenario import Host, Interconnect, Network


class Links(Protocol):
    """What a collective needs to know of a cluster."""

    @property
    def per_node(self) -> int:
        """Devices in a node."""

    @property
    def intra_node(self) -> Interconnect:
        """The links between them."""

    @property
    def network(self) -> Network:
        """The network between nodes."""

    @property
    def host(self) -> Host:
        """The processor whose memory traffic may bounce through."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
