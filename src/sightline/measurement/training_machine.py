"""Whether a scenario's devices are those at hand, and what each rank gets of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sightline.errors import InputError
from sightline.loading.this_machine import THIS_MACHINE, processor
from sightline.measurement.environment_gpu import gpus
from sightline.measurement.hardware_at_hand import catalog_name
from sightline.scenario import Cluster

BUSY = 0.05
"""Share of a GPU's memory in use from which on somebody else is at work there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMachine:
    """What this node gives to the ranks on it."""

    kind: str
    """cpu or cuda."""
    ranks: int
    threads: int
    """Of each rank."""

    @property
    def variables(self) -> Mapping[str, str]:
        """What ranks read from their environment."""
        accelerator = {"DS_ACCELERATOR": "cpu"} if self.kind == "cpu" else {}
        return {"SIGHTLINE_DEVICE": self.kind, **accelerator}


def training_machine(cluster: Cluster, nodes: int = 1, nodes_here: int = 1) -> TrainingMachine:
    """Return what this node is for a scenario over ``nodes`` nodes, without starting anything on its devices.

    ``nodes_here`` of them share this machine, as processes of torchrun do.

    Raises:
        InputError: The scenario's devices are not here, or their number can't be divided among the nodes.
    """
    ranks, rest = divmod(cluster.devices, nodes)
    if rest or not ranks:
        raise InputError(f"cluster is {cluster.name}; its {cluster.devices} devices can't be divided by {nodes} nodes")
    if cluster.device.name == THIS_MACHINE:
        return TrainingMachine(kind="cpu", ranks=ranks, threads=_threads(processor().cores // (ranks * nodes_here)))
    found = gpus()
    if len(found) < ranks:
        has = f"{len(found)} GPUs" if found else "no GPU whose driver answers"
        raise InputError(
            f"cluster is {cluster.name}; a scenario is measured on the machine at hand, which has {has}: "
            f"--set cluster={THIS_MACHINE} measures its processor"
        )
    other = [gpu["name"] for gpu in found[:ranks] if catalog_name(gpu) != cluster.device.name]
    if other:
        raise InputError(f"cluster is {cluster.name}; a scenario is measured on the machine at hand, a {other[0]}")
    return TrainingMachine(kind="cuda", ranks=ranks, threads=_threads((os.cpu_count() or 1) // (ranks * nodes_here)))


def _threads(cores: int) -> int:
    """Threads of a rank: its share of the cores, fewer where the user asks for fewer."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(asked)) if asked.isdigit() and int(asked) else cores)
