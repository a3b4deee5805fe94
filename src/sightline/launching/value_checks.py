"""Values of a configuration file that are held against what its framework allows, before they are read."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from sightline.errors import InputError, nearest
from sightline.quantities import show

AUTO: Final = ("auto",)
"""Leaves a value to whoever starts the framework."""


def refuse_values(
    stated: Mapping[str, Any],
    *,
    numbers: Mapping[str, int],
    choices: Mapping[str, Collection[Any]] | None = None,
    sections: Collection[str] = (),
    left_open: Collection[str] = (),
) -> None:
    """Refuse what is no value of its key. A key that is absent or null has none.

    Args:
        stated: The file.
        numbers: Dotted keys of whole numbers, and the smallest that is allowed.
        choices: Dotted keys, and the values that are allowed.
        sections: Keys that hold keys of their own.
        left_open: Words that a number or a choice may be instead.

    Raises:
        InputError: a sentence for every such value.
    """
    flat = [key for key in sections if not isinstance(stated.get(key) or {}, Mapping)]
    problems = [f"{key} is {show(stated[key])}; allowed: a mapping of its settings" for key in flat]
    problems += [*_no_numbers(stated, numbers, left_open), *_no_choices(stated, choices or {}, left_open)]
    if problems:
        raise InputError(problems)


def _no_numbers(stated: Mapping[str, Any], numbers: Mapping[str, int], left_open: Collection[str]) -> Iterator[str]:
    also = "".join(f", or {word}" for word in left_open)
    for key, least in numbers.items():
        value = _at(stated, key)
        if value is None or (isinstance(value, str) and value in left_open):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{key} is {show(value)}; allowed: a whole number of {least} or more{also}"


def _no_choices(
    stated: Mapping[str, Any], choices: Mapping[str, Collection[Any]], left_open: Collection[str]
) -> Iterator[str]:
    for key, allowed in choices.items():
        value, every = _at(stated, key), [*allowed, *left_open]
        # True is 1 for Python, but no stage.
        if value is not None and not any(type(value) is type(one) and value == one for one in every):
            said = ", ".join(one if isinstance(one, str) else show(one) for one in every)
            yield f"{key} is {show(value)}; allowed: {said}{nearest(str(value), [str(one) for one in every])}"


def _at(stated: Mapping[str, Any], key: str) -> Any:
    """The value under a dotted key; None where there is none."""
    value: Any = stated
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
