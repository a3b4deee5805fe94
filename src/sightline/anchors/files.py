"""Saved anchors: small files next to the runs of a store, one per name. What they hold is for others to say."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError, nearest
from sightline.runs import Store
from sightline.runs.store import ID, LATEST

FOLDER = ".anchors"
"""Of the store; no run begins with a dot."""
ENDINGS = (".yaml", ".yml", ".json", ".csv")
"""Of words that are files, not names."""
LONGEST = 100
"""Characters of a name, so that every file system takes it."""
SCHEMA = 1
"""Of the files; it rises when an old reader would misread a new one."""


def save_anchor(store: Store, name: str, document: Mapping[str, Any]) -> None:
    """Keep a document under a name, whole or not at all, in the place of an older one of that name.

    Raises:
        InputError: The name can't name an anchor.
    """
    check_name(store, name)
    with contextlib.suppress(FileExistsError):
        store.storage.create(FOLDER)
    content = json.dumps({"schema": SCHEMA, "name": name, **document}, indent=1, ensure_ascii=False)
    store.storage.write(f"{FOLDER}/{name}.json", content.encode())


def check_name(store: Store, name: str) -> None:
    """Refuse a name that would be no file's, or that ``--anchor`` takes for something else."""
    refused = f"'{name}' is not a valid anchor name"
    if not ID.fullmatch(name):
        raise InputError(f"{refused}; allowed: letters, digits, '.', '-' and '_', starting with a letter or digit")
    if len(name) > LONGEST:
        raise InputError(f"{refused}; allowed: up to {LONGEST} characters (it has {len(name)})")
    if name.lower() == LATEST:
        raise InputError(f"{refused}: {LATEST} is the latest stored run")
    if name.lower().endswith(ENDINGS):
        raise InputError(f"{refused}: names ending in {', '.join(ENDINGS)} are files")
    if any(run.startswith(name) for run in store.storage.folders()):
        raise InputError(f"{refused}: the id of a stored run starts with it")


def anchor_names(store: Store) -> list[str]:
    """Return the names of all saved anchors, sorted."""
    files = store.storage.files(FOLDER)
    return sorted(file.removesuffix(".json") for file in files if file.endswith(".json"))


def _require(store: Store, name: str) -> None:
    names = anchor_names(store)
    if name not in names:
        raise InputError(f"no anchor '{name}' in '{store.place}'{nearest(name, names)}")


def read_anchor(store: Store, name: str) -> dict[str, Any]:
    """Return the document saved under a name.

    Raises:
        InputError: There is none, or it cannot be read.
    """
    _require(store, name)
    try:
        document = json.loads(store.storage.read(f"{FOLDER}/{name}.json"))
        schema = int(document["schema"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise InputError(f"saved anchor '{name}' cannot be read: {error}") from error
    if schema > SCHEMA:
        raise InputError(
            f"saved anchor '{name}' was written by a newer version of Sightline ({document.get('version')})"
        )
    return dict(document)


def delete_anchor(store: Store, name: str) -> None:
    """Delete what is saved under a name.

    Raises:
        InputError: There is nothing.
    """
    _require(store, name)
    store.storage.remove(f"{FOLDER}/{name}.json")
