"""What the shape of the network between nodes costs: where it has fewer links than its nodes have ports.

A fat tree without oversubscription carries whatever the ports send. Rings and trees of collectives leave a switch once
per switch, so uplinks rarely bind them; an all-to-all sends most of its bytes to other switches. Rails (one switch per
device of the node) keep rings on their rail, while an all-to-all first hands data to the device on the receiver's rail
(NCCL's PXN). A dragonfly is priced as groups with fewer links between them than within, taken the shortest way. Left
out: other jobs, adaptive routing, how ranks are placed.
"""

import numpy as np

from sightline.quantities import Number, larger
from sightline.scenario import Network

TORUS_DIMENSIONS = 3.0


def slowdown(kind: str, nodes: Number, network: Network) -> Number:
    """Return by how much the fabric stretches the time at the ports of a collective over so many nodes; 1 or more.

    Of an all-to-all over ``m`` nodes the share (m - L) / (m - 1) leaves a switch of ``L``, whose uplinks carry one
    ``o``-th of its ports. Rings leave it once: at worst ``o / L``. A torus of nodes has the limit of its middle,
    (2 D) k / 8 with k = m^(1/D) for all-to-all.
    """
    m = np.asarray(nodes, dtype=float)
    if network.topology == "torus":
        if kind != "all_to_all":
            return 1.0
        return larger(1.0, 2.0 * TORUS_DIMENSIONS * m ** (1.0 / TORUS_DIMENSIONS) / 8.0)
    leaf = float(network.nodes_per_switch)
    share = larger(0.0, m - leaf) / larger(1.0, m - 1.0) if kind == "all_to_all" else (m > leaf) / leaf
    return larger(1.0, network.oversubscription * share)


def handed_over(kind: str, ranks: Number, per_node: Number, network: Network) -> Number:
    """Share of a rank's buffer that changes device inside the node on its way to another node, as rails want it."""
    if kind != "all_to_all" or network.topology != "rail-optimized":
        return 0.0
    return (ranks - per_node) / ranks * (per_node - 1.0) / per_node
