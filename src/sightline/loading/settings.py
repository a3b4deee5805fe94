"""Changes of a scenario as options that a shell reads back."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any


def as_options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a ``--set`` for each dotted key, quoted for a shell."""
    for key, value in settings.items():
        yield f"--set {shlex.quote(f'{key}={as_text(value)}')}"


def with_settings(command: str, settings: Mapping[str, Any]) -> str:
    """Return a command with settings, in place of those that it has of the same keys."""
    words, kept = shlex.split(command), list[str]()
    while words:
        taken = words[:2] if words[0] == "--set" else words[:1]
        words = words[len(taken) :]
        if taken[-1].partition("=")[0] not in settings or len(taken) == 1:
            kept += taken
    return " ".join((shlex.join(kept), *as_options(settings)))


def as_text(value: Any) -> str:
    """Return a value as ``--set`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | frozenset):
        return f"[{','.join(map(as_text, sorted(value) if isinstance(value, frozenset) else value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {as_text(item)}" for key, item in value.items()) + "}"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
