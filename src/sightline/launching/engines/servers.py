"""Place the servers of an engine on the nodes of a cluster, refuse what it cannot launch, and write their script."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from sightline.errors import InputError
from sightline.launching.engines.requests import operation_notes, pools, size
from sightline.launching.launch import Launch
from sightline.launching.shell import command_line, command_lines
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


SCRIPT = "servers.sh"
"""The file with the commands of several servers."""
ROUTER = "router.sh"
"""The file with the command of what shares requests among servers."""
RANK = "rank=${NODE_RANK:-$SLURM_NODEID}"
HOSTS = 'hosts=(${HOSTS:-$(scontrol show hostnames "$SLURM_JOB_NODELIST")})'
"""Lines by which a script on several nodes knows its own and all of them."""
LOCAL = "localhost"
"""Address of the only node."""
Arguments = Mapping[str, object]
"""Values by option, in their order; one that is true stands alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Command:
    """What starts servers of one role."""

    words: Sequence[str]
    """The program and what belongs in front of its options."""
    arguments: Arguments
    of_node: Callable[[Server, int, str], Arguments] = field(default=lambda _server, _rank, _address: {})
    """Further options of a server on one of its nodes: the node's rank in it, and the address of its first one."""
    environment: Callable[[Server, str], Mapping[str, object]] = field(default=lambda _server, _address: {})
    """Further variables of a server, which has an address."""


def launch(
    scenario: GenerationScenario,
    commands: Mapping[str, Command],
    *,
    port: int,
    router: Callable[[Sequence[tuple[Server, str]]], str] | None = None,
    router_package: str = "",
    files: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Launch:
    """Return the launch of a scenario's servers: one command, or a script with one for each.

    Args:
        scenario: What is launched.
        commands: By role, what starts its servers.
        port: The first server's; those after it have the next ones.
        router: What shares requests among servers, given each with its address; None where the engine has nothing.
        router_package: What has to be installed for that.
        files: Texts that the commands name.
        notes: What the engine has no argument for.
    """
    servers, name, texts = placed(scenario), scenario.plan.engine.name, files or {}
    notes = [*notes, *operation_notes(scenario)]
    if len(servers) == 1 and servers[0].nodes == 1:
        (command,) = commands.values()
        line = command_line(command.words, {**command.arguments, "--port": port})
        return Launch(framework=name, command=line, files=texts, without_counterpart=notes)
    texts = {SCRIPT: _script(scenario.cluster, servers, commands, port), **texts}
    sentences = [*notes, *_device_notes(scenario), *_node_notes(scenario.cluster)]
    if len(servers) > 1 and router is not None:
        named = [(server, f"http://{_host(server, scenario.cluster)}:{port + server.number}") for server in servers]
        texts = {ROUTER: _router_script(scenario.cluster, router(named)), **texts}
        needs = f" (pip install {router_package})" if router_package else ""
        sentences.append(f"requests go to what {ROUTER} starts{needs}, once all {len(servers)} servers answer")
    elif len(servers) > 1:
        sentences.append(f"put a load balancer in front of the {len(servers)} servers, ports {port} and those after it")
    return Launch(framework=name, command=f"bash {SCRIPT}", files=texts, without_counterpart=sentences)


def _device_notes(scenario: GenerationScenario) -> Iterator[str]:
    split, kinds = scenario.plan.disaggregate, scenario.cluster.parts
    if split is not None and len(kinds) > 1 and not split.prefill_device:
        yield f"plan.disaggregate.prefill.device is open: prefill begins on {kinds[0].device.name}"


def _node_notes(cluster: Cluster) -> Iterator[str]:
    if cluster.nodes > 1:
        yield (
            f"the command runs on each of the {cluster.nodes} nodes, with NODE_RANK set to 0, 1, ... and HOSTS to the "
            "names of all nodes in that order; Slurm's srun sets both"
        )


def _host(server: Server, cluster: Cluster) -> str:
    return f"${{hosts[{server.node}]}}" if cluster.nodes > 1 else LOCAL


def _script(cluster: Cluster, servers: Sequence[Server], commands: Mapping[str, Command], port: int) -> str:
    """One command for each server, with what they share in an array."""
    lines = ["#!/bin/bash", "# One command for each server, with its devices and its port."]
    lines += [RANK, HOSTS] if cluster.nodes > 1 else []
    for role, command in commands.items():
        lines += [
            f"{_array(role)}=(",
            *(f"    {line}" for line in command_lines(command.words, command.arguments)),
            ")",
        ]
    for server in servers:
        lines += [_line(server, rank, commands[server.role], cluster, port) for rank in range(server.nodes)]
    return "\n".join([*lines, "wait", ""])


def _array(role: str) -> str:
    return role or "serve"


def _line(server: Server, rank: int, command: Command, cluster: Cluster, port: int) -> str:
    """The line that starts a server on one of its nodes."""
    where = f'[ "$rank" = {server.node + rank} ] && ' if cluster.nodes > 1 else ""
    settings = {server.variable: server.devices, **command.environment(server, _host(server, cluster))}
    own = {**command.of_node(server, rank, _host(server, cluster)), "--port": port + server.number}
    words = [*(f"{name}={value}" for name, value in settings.items()), f'"${{{_array(server.role)}[@]}}"']
    return f"{where}{' '.join([*words, *command_lines((), own)])} &"


def _router_script(cluster: Cluster, command: str) -> str:
    return "\n".join(["#!/bin/bash", *([HOSTS] if cluster.nodes > 1 else []), command, ""])
