"""Changes of a scenario as options that a shell reads back."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any


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
