"""Files that start containers - of Kubernetes, its operators, Helm and Compose - as the script they amount to."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sightline.errors import InputError
from sightline.launching.shell import variables_of
from sightline.quantities import show

SHELLS: Final = ("sh", "bash", "zsh")
MOST_REPLICAS: Final = 4096
CONTAINER: Final = "SIGHTLINE_CONTAINER"
"""Variable with the number of a container in the script that a file amounts to."""
_OTHERS: Final = ("initContainers", "volumes", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
"""Keys below which no container serves."""
_JOINING: Final = {"workerTemplate": "leaderTemplate", "worker": "template", "workerSpec": "model"}
"""Keys of containers that join the server of those beside them."""
_VARIABLE = re.compile(r"\$\((\w+)\)")
_PARALLEL: Final = {
    "tensor": "--tensor-parallel-size",
    "data": "--data-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "expert": "--enable-expert-parallel",
    "lora": "--enable-lora",
}
"""vLLM's options by the keys of llm-d's charts and of KServe."""
_ROLES: Final = {"prefill": "kv_producer", "decode": "kv_consumer"}
_MOUNTED: Final = "/mnt/models"
"""Where KServe puts a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What stands around a container."""

    replicas: int = 1
    model: str = ""
    """Of a chart of llm-d or of KServe, with the degrees and the role of what is started."""
    degrees: tuple[str, ...] = ()
    role: str = ""


def script_of(documents: Sequence[Any]) -> str:
    """Return the commands of all containers, one server after the other; empty where the documents start none.

    Raises:
        InputError: A number of replicas makes no sense.
    """
    blocks: list[str] = []
    found = list(_containers(documents, _Around()))
    apart = {around.role for _, around in found} >= _ROLES.keys()
    for container, around in found:
        command = _command(container, around if apart or "modelCommand" in container else replace(around, role=""))
        text = "\n".join([*(f"export {name}={value}" for name, value in _variables(container).items()), command])
        # What one container sets, the next ones do not have.
        end = " ".join(["unset", *variables_of(text)]) if command else ""
        for _ in range(around.replicas if command else 0):
            blocks.append(f"{CONTAINER}={len(blocks)}\n{text}\n{end}")
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
    if value.get("kind") == "LLMInferenceService" and isinstance(value.get("spec"), Mapping):
        value = _of_kserve(value["spec"])
    deployed, model = value.get("deploy"), value.get("modelArtifacts")
    stated = value.get("replicas", _inside(value.get("scaling"), "minReplicas"))
    around = replace(
        around,
        replicas=around.replicas * _replicas(stated) * _replicas(_inside(deployed, "replicas")),
        model=str(_inside(model, "name") or around.model),
        degrees=tuple(_degrees(value.get("parallelism"))) or around.degrees,
        role=_role(value) or around.role,
    )
    if isinstance(value.get("image"), str) or {"command", "args", "modelCommand"} & value.keys():
        yield value, around
        return
    for key, inner in value.items():
        if key not in _OTHERS and _JOINING.get(key) not in value:
            yield from _containers(inner, replace(around, role=_named_role(key) or around.role))


def _of_kserve(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """A service of KServe as a chart of llm-d, with the containers that it has unless it states others."""
    stated, prefill = spec.get("model"), spec.get("prefill")
    uri, name = str(_inside(stated, "uri") or ""), str(_inside(stated, "name") or "")
    adapters = {"lora": True} if _inside(stated, "lora") else {}

    def pool(of: Mapping[str, Any]) -> dict[str, Any]:
        containers = _inside(of.get("template"), "containers") or [{}]
        own = [one if "command" in one else {**one, "modelCommand": "vllmServe"} for one in containers]
        return {**of, "template": {"containers": own}, "parallelism": {**(of.get("parallelism") or {}), **adapters}}

    pools = {"decode": pool({**spec, "prefill": None}), "prefill": pool(prefill)} if prefill else pool(spec)
    return {**pools, "modelArtifacts": {"name": uri.removeprefix("hf://") if uri.startswith("hf://") else name or uri}}


def _role(value: Mapping[str, Any]) -> str:
    """Return prefill or decode, as the name, the labels or the kind of what is deployed say."""
    metadata = value.get("metadata")
    labels = _inside(metadata, "labels")
    said = [word for key, word in labels.items() if str(key).endswith("role")] if isinstance(labels, Mapping) else []
    said += [value.get("subComponentType"), value.get("type"), value.get("name"), _inside(metadata, "name")]
    return next(filter(None, map(_named_role, said)), "")


def _named_role(name: Any) -> str:
    found = [role for role in _ROLES if role in str(name).lower()]
    return found[0] if len(found) == 1 else ""


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
            yield from (option,) * stated[key] if stated[key] is True else (option, str(stated[key]))


def _variables(container: Mapping[str, Any]) -> dict[str, str]:
    """The container's environment as a shell reads it; a value that stands elsewhere is a variable that nobody set."""
    stated = container.get("env", container.get("environment")) or ()
    pairs: list[tuple[Any, Any]] = list(stated.items()) if isinstance(stated, Mapping) else []
    for one in stated if isinstance(stated, list) else ():
        name, _, value = (
            one.partition("=") if isinstance(one, str) else (_inside(one, "name"), "", _inside(one, "value"))
        )
        pairs.append((name, value))
    return {
        name: shlex.quote(str(value)) if isinstance(value, str | int | float) else f"${name}"
        for name, value in pairs
        if isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name)
    }


def _command(container: Mapping[str, Any], around: _Around) -> str:
    """What a container runs, as a shell reads it; without a command its image's own, as Docker takes arguments."""
    image = container.get("image")
    command, arguments = (_words(container.get(key)) for key in ("command", "args"))
    if entry := _words(container.get("entrypoint")):
        # Compose calls what follows a program its command.
        command, arguments = entry, command
    if container.get("modelCommand") == "vllmServe":
        command, arguments = ["vllm", "serve", around.model], [*around.degrees, *arguments]
        if around.role and "--kv-transfer-config" not in arguments:
            arguments += ["--kv-transfer-config", '{"kv_role":"kv_both"}']
    words = [*command, *arguments]
    begun = words[0].startswith("-") if words else not _variables(container)
    if begun and not (words and image):
        return ""
    if command and command[0].rpartition("/")[2] in SHELLS:
        text = next((_VARIABLE.sub(r"${\1}", word) for word in words[1:] if not word.startswith("-")), "")
        return _in_role(text, around)
    if isinstance(image, str) and image and (not command or command[0].startswith("-")):
        words = ["docker", "run", *(word for name in _variables(container) for word in ("-e", name)), image, *words]
    text = " ".join(_VARIABLE.sub(r"${\1}", word) if "$" in word else shlex.quote(word) for word in words)
    return _in_role(text, around)


def _in_role(command: str, around: _Around) -> str:
    """The command of a server that does prefill or decode, where what is around it says so; with the model's name."""
    command = command.replace(_MOUNTED, around.model or _MOUNTED)
    says = f"is-{around.role}-worker" in command or "disaggregation-mode" in command
    if around.role and "dynamo." in command and not says:
        command = f"{command.rstrip()} --disaggregation-mode {around.role}"
    return command.replace("kv_both", _ROLES.get(around.role, "kv_both"))


def _words(stated: Any) -> list[str]:
    """The words of a command, as a list or as a shell's text."""
    if isinstance(stated, str):
        try:
            return shlex.split(stated)
        except ValueError:
            return stated.split()
    return [str(word) for word in stated] if isinstance(stated, list) else []
