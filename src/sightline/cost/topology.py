"""Who talks to whom: the groups of ranks that a plan's collectives run over, and how they sit in the nodes.

Ranks are numbered tensor-parallel first, then data-parallel, then pipeline stages, as Megatron-LM does
(arXiv 2104.04473): tensor-parallel ranks are neighbours, data-parallel ranks have the tensor degree as their stride.
"""

from dataclasses import dataclass

import numpy as np

from sightline.quantities import Count, Number
from sightline.scenario import Cluster


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Ranks that take part in one collective. Every field may be an array; they broadcast."""

    size: Count
    """Number of ranks."""
    ranks_per_node: Count
    """How many of them sit in one node."""
    sharing: Number | None = None
    """Groups that use a node's network ports at the same time; None means that every device of the node takes part."""


def whole_group(cluster: Cluster) -> Group:
    """Return the group of all devices of the cluster."""
    return Group(size=cluster.devices, ranks_per_node=smaller(cluster.devices, cluster.per_node), sharing=1.0)


def tensor_group(tensor_parallel: Count, cluster: Cluster) -> Group:
    """Return a tensor-parallel group: neighbouring ranks, so it fills a node before it leaves it."""
    return Group(size=tensor_parallel, ranks_per_node=smaller(tensor_parallel, cluster.per_node))


def data_group(tensor_parallel: Count, data_parallel: Count, cluster: Cluster) -> Group:
    """Return a data-parallel group: one rank in every ``tensor_parallel``, so a node holds per_node / t of them."""
    fitting = cluster.per_node // tensor_parallel
    return Group(size=data_parallel, ranks_per_node=smaller(data_parallel, larger(1, fitting)))


def pipeline_boundary(tensor_parallel: Count, data_parallel: Count, cluster: Cluster) -> Group:
    """Return the pair of ranks that hand activations from one pipeline stage to the next.

    Neighbouring stages are t d ranks apart: inside a node when that is less than a node, else in two nodes, and then
    every rank of the node sends through the node's ports at once. Leaves out that among stages smaller than a node
    some boundaries do cross to the next node.
    """
    inside = tensor_parallel * data_parallel < cluster.per_node
    return Group(size=2, ranks_per_node=inside + 1)


def smaller(a: Number, b: Number) -> Number:
    """Return the smaller of two numbers, without NumPy's cost for plain ones."""
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def larger(a: Number, b: Number) -> Number:
    """Return the larger of two numbers, without NumPy's cost for plain ones."""
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)
