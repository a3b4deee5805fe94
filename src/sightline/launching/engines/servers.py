"""Place the servers of an engine on the nodes of a cluster, refuse what it cannot launch, and write their script."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

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
FRONT = 30000
"""The port of that; 8000 where servers have this one."""
POLICIES: Mapping[str, str] = {"round-robin": "round_robin", "prefix-aware": "cache_aware"}
"""``plan.router`` in the words of SGLang's router (0.3) and of vLLM's (0.1.16), which comes from it."""
DYNAMO = "python -m dynamo.frontend --router-mode kv"
"""What shares requests by the blocks that servers say to have (examples/backends/vllm/launch/agg_router.sh of 1.0)."""
RANK = "rank=${NODE_RANK:-$SLURM_NODEID}"
HOSTS = 'hosts=(${HOSTS:-$(scontrol show hostnames "$SLURM_JOB_NODELIST")})'
"""Lines by which a script on several nodes knows its own and all of them."""
ONLY = "serve"
"""Array with the command of servers without a role."""
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
    takes_port: bool = True
    """Whether it answers requests itself; workers of Dynamo only have a port for the state of their system."""


def launch(
    scenario: GenerationScenario,
    commands: Mapping[str, Command],
    *,
    port: int,
    router: Callable[[Sequence[tuple[Server, str]], str], str] | None = None,
    router_package: str = "",
    files: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Launch:
    """Return the launch of a scenario's servers: one command, or a script with one for each.

    Args:
        scenario: What is launched.
        commands: By role, what starts its servers.
        port: The first server's; those after it have the next ones.
        router: What shares requests among servers, given each with its address, and a policy in its words; None where
            the engine has nothing.
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
    if len(servers) > 1:
        named = [(server, f"http://{_host(server, scenario.cluster)}:{port + server.number}") for server in servers]
        front = 8000 if port >= FRONT else FRONT
        # Among one server of each role there is no choice.
        policy = POLICIES.get(scenario.plan.router, "round_robin" if len(commands) > 1 else None)
        needs = f" (pip install {router_package})" * bool(router_package)
        if not all(command.takes_port for command in commands.values()):
            line, needs = f"{DYNAMO} --http-port {front}", f" (pip install ai-dynamo[{name}], with etcd and NATS)"
        elif policy is None or router is None:
            line, needs = _nginx([url for _, url in named], front, "least_conn" if policy is None else ""), " (nginx)"
        else:
            line = router(named, policy)
        lines = ["#!/bin/bash", *[HOSTS] * (scenario.cluster.nodes > 1), line, ""]
        texts = {ROUTER: "\n".join(lines), **texts}
        sentences.append(f"requests go to what {ROUTER} starts{needs}, once all {len(servers)} servers answer")
    return Launch(framework=name, command=f"bash {SCRIPT}", files=texts, without_counterpart=sentences)


def _nginx(urls: Sequence[str], port: int, policy: str) -> str:
    """The file of nginx that shares requests among servers, in turn or by a policy, and its start."""
    upstream = [f"{policy};" * bool(policy), *(f"server {url.removeprefix('http://')};" for url in urls)]
    answers = "location / { proxy_pass http://servers; proxy_buffering off; proxy_read_timeout 1h; }"
    return "\n".join(
        [
            "cat > nginx.conf <<END",
            "events { worker_connections 65536; }",
            f"http {{ upstream servers {{ {' '.join(filter(None, upstream))} }}",
            f"       server {{ listen {port}; {answers} }} }}",
            "END",
            'nginx -c "$PWD/nginx.conf" -g "daemon off;"',
        ]
    )


def router_in(text: str) -> str:
    """Return the value of ``plan.router`` that a script's router stands for; empty where it has none, or takes turns.

    The routers of vLLM and SGLang look at prefixes where nothing else is stated.
    """
    words = text.split()
    usual = "cache_aware" if {"vllm-router", "sglang_router.launch_router"} & {*words} else ""
    stated = next((word for before, word in pairwise(words) if before in ("--policy", "--router-mode")), usual)
    read = {theirs: ours for ours, theirs in POLICIES.items()} | {"kv": "precise-prefix", "least-loaded": "least-load"}
    found = "least-load" if "least_conn;" in words else read.get(stated, "")
    return found if found != "round-robin" else ""


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
            f"{role or ONLY}=(",
            *(f"    {line}" for line in command_lines(command.words, command.arguments)),
            ")",
        ]
    for server in servers:
        lines += [_line(server, rank, commands[server.role], cluster, port) for rank in range(server.nodes)]
    return "\n".join([*lines, "wait", ""])


def _line(server: Server, rank: int, command: Command, cluster: Cluster, port: int) -> str:
    """The line that starts a server on one of its nodes."""
    where = f'[ "$rank" = {server.node + rank} ] && ' if cluster.nodes > 1 else ""
    settings = {server.variable: server.devices, **command.environment(server, _host(server, cluster))}
    own = dict(command.of_node(server, rank, _host(server, cluster)))
    if command.takes_port:
        own["--port"] = port + server.number
    else:
        settings["DYN_SYSTEM_PORT"] = port + server.number
    words = [*(f"{name}={value}" for name, value in settings.items()), f'"${{{server.role or ONLY}[@]}}"']
    return f"{where}{' '.join([*words, *command_lines((), own)])} &"
