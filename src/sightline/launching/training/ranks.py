"""How processes are started on every device: torchrun on one node or on each of several, and read back."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from sightline.launching.options import Options
from sightline.scenario import Cluster

_EVERY_NODE: Final = {
    "--node-rank": "${NODE_RANK:-$SLURM_NODEID}",
    "--master-addr": "$MASTER_ADDR",
    "--master-port": "${MASTER_PORT:-29500}",
}

_LAUNCHERS: Final = ("launch.py", "run.py")
"""Scripts that start others."""
ALL: Final = "-1"
"""What DeepSpeed's launcher takes for all devices of a node, or all nodes."""
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


def launcher_and_program(words: Sequence[str]) -> tuple[Options, Options]:
    """Return the options of what starts the processes and those of the script that they run.

    Both are the options of the whole command where it names no script.
    """
    scripts = (at for at, word in enumerate(words) if word.endswith(".py") and PurePath(word).name not in _LAUNCHERS)
    at = next(scripts, None)
    return (Options(words), Options(words)) if at is None else (Options(words[:at]), Options(words[at + 1 :]))


def devices_of(launcher: Options) -> int | None:
    """Return how many processes are started in all; None where the command does not say.

    The options are those of torchrun, DeepSpeed's and accelerate's launchers and Slurm's srun.
    """
    if in_all := launcher.number("num-processes"):
        return in_all
    each = launcher.number("nproc-per-node", left_open=PROCESSES_LEFT_OPEN)
    each = each or launcher.number("num-gpus", left_open=ALL) or launcher.number("ntasks-per-node")
    counts = ("nnodes", "num-nodes", "nodes", "N")
    stated = [name for name in counts if launcher.has(name)]
    # Nodes that may join later, such as 1:4, are no number.
    known = (launcher.number(name, left_open=rf"\d+[:-]\d+|{ALL}") for name in stated)
    nodes = next(filter(None, known), None) if stated else 1
    if each and nodes:
        launcher.unknown.clear()
    return each * nodes if each and nodes else None
