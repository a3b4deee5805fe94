"""How processes are started on every device: torchrun on one node or on each of several, and read back."""

from typing import Final

from sightline.launching.options import Options
from sightline.scenario import Cluster

_EVERY_NODE: Final = {
    "--node-rank": "${NODE_RANK:-$SLURM_NODEID}",
    "--master-addr": "$MASTER_ADDR",
    "--master-port": "${MASTER_PORT:-29500}",
}

PROCESSES_LEFT_OPEN: Final = "auto|gpu|cpu|xpu"
"""What torchrun takes instead of a number of processes on each node."""


def per_node(cluster: Cluster) -> int:
    """Return the devices that each node gives."""
    return cluster.devices // cluster.nodes


def torchrun(cluster: Cluster, *program: str) -> list[str]:
    """Return the words that start a program on every device of a node; on several nodes each runs them."""
    words = ["torchrun", "--nproc-per-node", str(per_node(cluster))]
    if cluster.nodes == 1:
        return [*words, "--standalone", *program]
    together = [word for option in _EVERY_NODE.items() for word in option]
    return [*words, "--nnodes", str(cluster.nodes), *together, *program]


def on_every_node(cluster: Cluster) -> list[str]:
    """Return how several nodes are started together, in a sentence; none for one node."""
    if cluster.nodes == 1:
        return []
    names = "MASTER_ADDR set to the first one's name and NODE_RANK to 0, 1, ..."
    slurm = "Slurm's 'srun --ntasks-per-node 1 bash launch.sh' sets the rank"
    return [f"launch.sh runs on each of the {cluster.nodes} nodes, with {names}; {slurm}"]


def devices_of(options: Options) -> int | None:
    """Return how many processes torchrun starts by its options in all; None where it does not say."""
    each = options.number("nproc-per-node", left_open=PROCESSES_LEFT_OPEN)
    # Nodes that may join later, such as 1:4, are no number.
    nodes = options.number("nnodes", left_open=r"\d+:\d+") if options.has("nnodes") else 1
    return each * nodes if each and nodes else None
