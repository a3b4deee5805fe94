"""Catalog entries of technology, read and checked: quantities in SI units, every mistake of an entry at once."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.quantities import Dimension, parse_quantity, show

Reader: TypeAlias = Callable[[Any], Any]
"""Returns a good value; raises `InputError` with half a sentence for any other."""

ABOUT = frozenset(("source", "date", "evidence", "sources", "evidences", "note"))
"""Keys that say where figures come from."""


def quantity(dimension: Dimension) -> Reader:
    """A quantity above 0 with a unit of the dimension, as an SI float."""
    return lambda value: parse_quantity(value, dimension)


def one_of(*words: str) -> Reader:
    """One of a few words."""

    def read(value: Any) -> str:
        if value in words:
            return str(value)
        raise InputError(f"is {show(value)}; allowed: {', '.join(words)}{nearest(value, words)}")

    return read


def text(value: Any) -> str:
    """A text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    raise InputError(f"is {show(value)}; allowed: text")


def year(value: Any) -> int:
    """A year of the calendar."""
    if isinstance(value, int) and not isinstance(value, bool) and 1990 <= value <= 2100:
        return value
    raise InputError(f"is {show(value)}; allowed: a year, such as 2024")


def read_entry(kind: str, name: str, keys: Mapping[str, Reader], optional: Collection[str] = ()) -> dict[str, Any]:
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
