"""Saved anchors: small files next to the runs of a store, one per name. What they hold is for others to say."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError, nearest
from sightline.runs.store import ID, Store

FOLDER = ".anchors"
"""Of the store; no run begins with a dot."""
SCHEMA = 1
"""Of the files; it rises when an old reader would misread a new one."""


def save_anchor(store: Store, name: str, document: Mapping[str, Any]) -> None:
    """Keep a document under a name, whole or not at all, in the place of an older one of that name."""
    check_name(name)
    with contextlib.suppress(FileExistsError):
        store.storage.create(FOLDER)
    content = json.dumps({"schema": SCHEMA, "name": name, **document}, indent=1, ensure_ascii=False)
    store.storage.write(f"{FOLDER}/{name}.json", content.encode())


def check_name(name: str) -> None:
    """Refuse a name that would be no file's."""
    if not ID.fullmatch(name):
        raise InputError(f"'{name}' can't name an anchor: letters, digits, '.', '-' and '_' can")


def anchor_names(store: Store) -> list[str]:
    """Return the names of all saved anchors, sorted."""
    files = store.storage.files(FOLDER)
    return sorted(file.removesuffix(".json") for file in files if file.endswith(".json"))


def read_anchor(store: Store, name: str) -> dict[str, Any]:
    """Return the document saved under a name.

    Raises:
        InputError: There is none, or it cannot be read.
    """
    names = anchor_names(store)
    if name not in names:
        raise InputError(f"no anchor '{name}' in '{store.place}'{nearest(name, names)}")
    try:
        found = json.loads(store.storage.read(f"{FOLDER}/{name}.json"))
        schema = int(found["schema"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"the saved anchor '{name}' cannot be read: {error}") from error
    if schema > SCHEMA:
        raise InputError(f"the saved anchor '{name}' was written by a newer Sightline ({found.get('version')})")
    return dict(found)


def delete_anchor(store: Store, name: str) -> None:
    """Delete what is saved under a name.

    Raises:
        InputError: There is nothing.
    """
    read_names = anchor_names(store)
    if name not in read_names:
        raise InputError(f"no anchor '{name}' in '{store.place}'{nearest(name, read_names)}")
    store.storage.remove(f"{FOLDER}/{name}.json")
