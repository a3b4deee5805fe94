"""Limits that somebody writes, each a number with its unit."""

from collections.abc import Mapping
from typing import Final

from sightline.errors import InputError
from sightline.quantities import BYTES, SECONDS, Dimension, parse_quantity, show

_LEAST: Final[Mapping[str, tuple[float, str]]] = {
    "max_memory": (1e9, "70 GB"),
    "deadline": (60.0, "30d' or '72h"),
}
"""By limit: the least that a number without a unit can mean, in the base unit, and how it is written with one."""


def read_limit(name: str, value: object, dimension: Dimension) -> float:
    """Return a limit in its base unit; a number that is too small to be meant in that unit has to state one.

    Raises:
        InputError: it is no such quantity.
    """
    try:
        limit = parse_quantity(value, dimension)
    except InputError as error:
        raise InputError([f"{name} {problem}" for problem in error.problems]) from error
    least, example = _LEAST.get(name, (0.0, ""))
    if limit < least and _is_plain(value):
        unit = {BYTES: "bytes", SECONDS: "seconds"}[dimension]
        raise InputError(f"{name} is {show(value)}, which is {limit:g} {unit}; write its unit, such as '{example}'")
    return limit


def _is_plain(value: object) -> bool:
    """Whether a value is a number without a unit."""
    try:
        float(str(value))
    except ValueError:
        return False
    return True
