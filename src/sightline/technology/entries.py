"""Catalog entries of technology, read and checked: quantities in SI units, every mistake of an entry at once."""

from collections.abc import Collection, Mapping
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.kinds import Kind, whole

ABOUT = frozenset(("source", "date", "evidence", "sources", "evidences", "note"))
"""Keys that say where figures come from."""


year = whole(1990, 2100)
"""A year of the calendar."""


def read_entry(kind: str, name: str, keys: Mapping[str, Kind], optional: Collection[str] = ()) -> dict[str, Any]:
    """Return the figures of an entry by key, in SI units; keys that are ``optional`` may be absent.

    Raises:
        InputError: For a name that the catalog lacks, or with every key of the entry that is unknown, absent or wrong.
    """
    name = catalog.name_of(kind, name)
    stated = catalog.entry(kind, name)
    place = f"catalog.{kind}.{name}"
    problems = [
        f"{place}.{key} is not a known key{nearest(key, tuple(keys))}" for key in stated if key not in {*keys, *ABOUT}
    ]
    values: dict[str, Any] = {}
    for key, read in keys.items():
        if stated.get(key) is None:
            problems += [] if key in optional else [f"{place}.{key} is missing"]
            continue
        try:
            values[key] = read(stated[key])
        except InputError as error:
            problems.append(f"{place}.{key} {error}")
    if problems:
        raise InputError(problems)
    return values
