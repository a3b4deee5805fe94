"""Changes of a scenario as options that a shell reads back."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from sightline.scenario import Cluster


def cluster_settings(cluster: Cluster) -> dict[str, Any]:
    """Return what a scenario states to run on a cluster's devices, in their usual servers."""
    kinds = [f"{part.devices}x {part.device.name}" for part in cluster.parts]
    return {"cluster.devices": kinds} if len(kinds) > 1 else {"cluster": kinds[0]}


def as_options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a ``--set`` for each dotted key, quoted for a shell."""
    for key, value in settings.items():
        yield f"--set {shlex.quote(f'{key}={_as_yaml(value)}')}"


def _as_yaml(value: Any) -> str:
    """A value as ``--set`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | frozenset):
        return f"[{','.join(map(_as_yaml, sorted(value) if isinstance(value, frozenset) else value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_as_yaml(item)}" for key, item in value.items()) + "}"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
