"""Fields of a scenario that are restricted to several values: ``{any: [...]}`` and ``{from, to, factor}``."""

import re
from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError
from sightline.loading.input.dotted_keys import dotted
from sightline.quantities import LARGEST, show

ANY, RANGE = frozenset({"any"}), frozenset({"from", "to", "factor"})
"""Keys of a restriction."""
_COUNTED = ("plan.", "workload.")
"""Where a range between whole numbers is one of whole numbers."""
_SEARCHED = re.compile(r"[\w.]+ is '(?:any|auto|all|free|search)';")
MOST_VALUES = 10_000
"""Values that a range may stand for."""


def split_restrictions(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return a mapping without its restricted keys, and by dotted key the values that each of those may take.

    Raises:
        InputError: a restriction that is no list or no range.
    """
    problems: list[str] = []
    restricted: dict[str, list[Any]] = {}

    def walk(part: Mapping[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in part.items():
            path = (*above, key)
            if not isinstance(value, Mapping):
                kept[key] = value
            elif value and value.keys() <= ANY | RANGE:
                try:
                    restricted[".".join(map(str, path))] = _values(value, dotted(*path))
                except InputError as error:
                    problems.extend(error.problems)
            else:
                kept[key] = walk(value, path)
        return kept

    fixed = walk(mapping, ())
    if problems:
        raise InputError(problems)
    return fixed, restricted


def _values(stated: Mapping[str, Any], key: str) -> list[Any]:
    if "any" in stated:
        values = stated["any"]
        if len(stated) > 1 or not isinstance(values, list) or not values:
            raise InputError(f"{key} is {show(dict(stated))}; allowed: {{any: [...]}} with a list of values")
        return list({repr(value): value for value in values}.values())  # each is searched once
    numbers = [stated.get(name, default) for name, default in (("from", 1), ("to", None), ("factor", 2))]
    good = all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) <= LARGEST for n in numbers)
    if not good or numbers[0] <= 0 or numbers[1] < numbers[0] or numbers[2] <= 1:
        raise InputError(f"{key} is {show(dict(stated))}; allowed: {{from: 1, to: 64, factor: 2}}, a factor above 1")
    low, high, factor = numbers
    counts = key.startswith(_COUNTED) and low % 1 == high % 1 == 0
    values = []
    while low <= high * (1 + 1e-9):
        if len(values) == MOST_VALUES:
            raise InputError(f"{key} is {show(dict(stated))}, more values than the {MOST_VALUES:,} that are allowed")
        values.append(round(low) if counts or low == int(low) else low)
        low *= factor
    return list(dict.fromkeys(values))


def with_forms(error: InputError) -> InputError:
    """Return an error of a scenario that says how a field is searched where a word such as "any" stands for that."""
    told = [_SEARCHED.match(problem) for problem in error.problems]
    if not any(told):
        return error
    how = "; {any: [...]} searches several values"
    return InputError([f"{problem}{how if word else ''}" for problem, word in zip(error.problems, told, strict=True)])


def value_at(mapping: Mapping[str, Any], key: str) -> Any:
    """Return what a mapping has under a dotted key."""
    value: Any = mapping
    for part in key.split("."):
        value = value[part]
    return value


def undecided(mapping: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each field of a refused scenario that has several values where one is needed."""
    try:
        _, restricted = split_restrictions(mapping)
    except InputError:  # something else is meant, or a search refuses it too
        return []
    return [
        f"{key} is {show(value_at(mapping, key))}; allowed: one value - `sightline plan` finds the best of several"
        for key in restricted
    ]
