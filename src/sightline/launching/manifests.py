"""Files that start containers - of Kubernetes, its operators, Helm and Compose - as the script they amount to."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sightline.errors import InputError
from sightline.quantities import show

SHELLS: Final = ("sh", "bash", "zsh")
MOST_REPLICAS: Final = 4096
PORT: Final = 8000
_OTHERS: Final = ("initContainers", "volumes", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
"""Keys below which no container serves."""
_VARIABLE = re.compile(r"\$\((\w+)\)")
_PARALLEL: Final = {"tensor": "--tensor-parallel-size", "data": "--data-parallel-size"}
"""vLLM's options by the keys of llm-d's charts."""
_ROLES: Final = {"prefill": '{"kv_role":"kv_producer"}', "decode": '{"kv_role":"kv_consumer"}'}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What stands around a container."""

    replicas: int = 1
    model: str = ""
    """Of a chart of llm-d, with the degrees and the role of what is started."""
    degrees: tuple[str, ...] = ()
    role: str = ""


def script_of(documents: Sequence[Any]) -> str:
    """Return the commands of all containers, one server after the other; empty where the documents start none.

    Raises:
        InputError: A number of replicas makes no sense.
    """
    ports = iter(range(PORT, PORT + 2 * MOST_REPLICAS))
    blocks: list[str] = []
    for container, around in _containers(documents, _Around()):
        variables, command = _variables(container), _command(container, around)
        for _ in range(around.replicas if command else 0):
            blocks.append("\n".join([*variables, _with_port(command, next(ports))]))
            if len(blocks) > MOST_REPLICAS:
                raise InputError(f"more than {MOST_REPLICAS:,} containers are started, the most that is allowed")
    return "\n".join(blocks)


def _containers(value: Any, around: _Around) -> Iterator[tuple[Mapping[str, Any], _Around]]:
    """Yield what starts a program or an image, with what stands around it."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _containers(one, around)
    if not isinstance(value, Mapping):
        return
    deployed, model = value.get("deploy"), value.get("modelArtifacts")
    around = replace(
        around,
        replicas=around.replicas * _replicas(value.get("replicas")) * _replicas(_inside(deployed, "replicas")),
        model=str(_inside(model, "name") or around.model),
        degrees=tuple(_degrees(value.get("parallelism"))) or around.degrees,
    )
    if isinstance(value.get("image"), str) or {"command", "args"} & value.keys():
        yield value, around
        return
    for key, inner in value.items():
        if key not in _OTHERS:
            yield from _containers(inner, replace(around, role=key if key in _ROLES else around.role))


def _inside(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _replicas(stated: Any) -> int:
    if stated is None or isinstance(stated, Mapping | str):
        return 1
    if isinstance(stated, bool) or not isinstance(stated, int) or not 0 <= stated <= MOST_REPLICAS:
        raise InputError(f"replicas is {show(stated)}; allowed: a whole number up to {MOST_REPLICAS:,}")
    return stated


def _degrees(stated: Any) -> Iterator[str]:
    for key, option in _PARALLEL.items():
        if isinstance(_inside(stated, key), int):
            yield from (option, str(stated[key]))


def _variables(container: Mapping[str, Any]) -> list[str]:
    """Assignments of the container's environment, as a list of names with values or a mapping."""
    stated = container.get("env", container.get("environment")) or ()
    pairs: list[tuple[Any, Any]] = list(stated.items()) if isinstance(stated, Mapping) else []
    for one in stated if isinstance(stated, list) else ():
        name, _, value = (
            one.partition("=") if isinstance(one, str) else (_inside(one, "name"), "", _inside(one, "value"))
        )
        pairs.append((name, value))
    return [
        f"export {name}={shlex.quote(str(value))}"
        for name, value in pairs
        if isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name) and isinstance(value, str | int | float)
    ]


def _command(container: Mapping[str, Any], around: _Around) -> str:
    """What a container runs, as a shell reads it; without a command its image's own, as Docker takes arguments."""
    image = container.get("image")
    command, arguments = (_words(container.get(key)) for key in ("command", "args"))
    if entry := _words(container.get("entrypoint")):
        # Compose calls what follows a program its command.
        command, arguments = entry, command
    if container.get("modelCommand") == "vllmServe":
        command, arguments = ["vllm", "serve", around.model], [*around.degrees, *_in_role(arguments, around.role)]
    words = [*command, *arguments]
    if command and command[0].rpartition("/")[2] in SHELLS:
        return next((_VARIABLE.sub(r"${\1}", word) for word in words[1:] if not word.startswith("-")), "")
    if isinstance(image, str) and image and (not command or command[0].startswith("-")):
        words = ["docker", "run", image, *words]
    return " ".join(_VARIABLE.sub(r"${\1}", word) if "$" in word else shlex.quote(word) for word in words)


def _in_role(arguments: Sequence[str], role: str) -> list[str]:
    """Arguments of a server that does prefill or decode, whatever its connector is set to."""
    option = "--kv-transfer-config"
    if role not in _ROLES:
        return list(arguments)
    at = arguments.index(option) if option in arguments else len(arguments)
    return [*arguments[:at], *arguments[at + 2 :], option, _ROLES[role]]


def _words(stated: Any) -> list[str]:
    """The words of a command, as a list or as a shell's text."""
    if isinstance(stated, str):
        try:
            return shlex.split(stated)
        except ValueError:
            return stated.split()
    return [str(word) for word in stated] if isinstance(stated, list) else []


def _with_port(command: str, port: int) -> str:
    """A command of one line with a port of its own, so that replicas are several servers."""
    if "\n" in command.strip():
        return command
    return f"{re.sub(r'--port[= ]+[0-9]+', '', command).rstrip()} --port {port}"
