"""Files that a command names, which lie next to its script."""

from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError
from sightline.launching.given import Given, given


def beside(found: Given, name: str | None, what: str) -> Mapping[str, Any]:
    """Return the mapping that a file holds which a command names, relative to the command's own folder.

    Raises:
        InputError: The command does not name it outright, or there is no such file.
    """
    if not name or "$" in name:
        raise InputError(f"{found.place} does not say where {what} is; read that file instead")
    return given(found.folder / name).mapping
