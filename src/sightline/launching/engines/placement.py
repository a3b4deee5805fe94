"""Servers of an engine on the nodes of a cluster: which devices each of them has."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from sightline.errors import InputError
from sightline.launching.engines.plans import pools, size
from sightline.scenario import Cluster, GenerationScenario

VISIBLE = {"gfx": "HIP_VISIBLE_DEVICES", "ascend": "ASCEND_RT_VISIBLE_DEVICES", "gaudi": "HABANA_VISIBLE_MODULES"}
"""Variable with the devices that a process sees, by the beginning of their architecture; CUDA's for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server: the workers that hold one copy of the model."""

    role: str
    """prefill or decode; empty for one that does both."""
    number: int
    """From 0, among all."""
    nodes: int
    """Nodes that it spans."""
    node: int
    """First of them."""
    first: int
    """Its first device there."""
    per_node: int
    """Devices that it takes of a node."""
    variable: str
    """Variable of the environment that says which devices a process sees."""

    @property
    def devices(self) -> str:
        """The devices that it takes of a node, as that variable lists them."""
        return ",".join(str(self.first + n) for n in range(self.per_node))


@dataclass(slots=True, kw_only=True)
class _Node:
    number: int
    devices: int
    kind: str
    variable: str
    taken: int = 0

    @property
    def free(self) -> int:
        return self.devices - self.taken


def placed(scenario: GenerationScenario) -> tuple[Server, ...]:
    """Return the servers of a scenario: each on devices of one node, or on whole nodes with devices of one kind.

    Raises:
        InputError: They do not fit so.
    """
    nodes, numbers, found = _nodes(scenario.cluster), count(), []
    for role, plan in pools(scenario).items():
        devices, left = size(plan), _of_role(nodes, scenario, role)
        for _ in range(int(plan.replicas)):
            while left and not left[0].free:
                del left[0]
            room = _room(left, devices)
            if not room:
                sizes = " and ".join(str(devices) for devices in dict.fromkeys(node.devices for node in nodes))
                raise InputError(
                    f"servers of {devices} devices do not fit whole onto nodes of {sizes}; allowed: devices of one "
                    "node, as many as divide it, or whole nodes"
                )
            found.append(
                Server(
                    role=role,
                    number=next(numbers),
                    nodes=len(room),
                    node=room[0].number,
                    first=room[0].taken,
                    per_node=devices // len(room),
                    variable=room[0].variable,
                )
            )
            for node in room:
                node.taken += devices // len(room)
    return tuple(found)


def largest_node(cluster: Cluster) -> int:
    """Return the devices of the largest node."""
    return max(part.per_node for part in cluster.parts)


def _nodes(cluster: Cluster) -> list[_Node]:
    numbers = count()
    return [
        _Node(
            number=next(numbers),
            devices=min(part.per_node, part.devices - begin),
            kind=part.device.name,
            variable=_variable(part.device.architecture),
        )
        for part in cluster.parts
        for begin in range(0, part.devices, part.per_node)
    ]


def _of_role(nodes: Sequence[_Node], scenario: GenerationScenario, role: str) -> list[_Node]:
    """The nodes with the devices that a role is for; all where the plan leaves that open."""
    split = scenario.plan.disaggregate
    prefills = "" if split is None else split.prefill_device
    return [node for node in nodes if not prefills or (node.kind == prefills) == (role == "prefill")]


def _room(nodes: Sequence[_Node], devices: int) -> list[_Node]:
    """The first node with so many free devices, or the first whole nodes of one kind that have so many; else none."""
    alone = next((node for node in nodes if node.free >= devices), None)
    if alone is not None:
        return [alone]
    free = [node for node in nodes if not node.taken]
    for at, node in enumerate(free):
        needed, rest = divmod(devices, node.devices)
        run = free[at : at + needed]
        alike = {(one.kind, one.devices, one.number - place) for place, one in enumerate(run)}
        if not rest and len(run) == needed and len(alike) == 1:
            return run
    return []


def _variable(architecture: str) -> str:
    return next((name for begin, name in VISIBLE.items() if architecture.startswith(begin)), "CUDA_VISIBLE_DEVICES")
