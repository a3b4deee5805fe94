"""The base scenario of a built-in study: as the study states it, with what the request sets."""

from collections.abc import Collection, Mapping
from typing import Any

from sightline.errors import InputError
from sightline.exploration.request import StudyRequest
from sightline.loading.checks import with_value
from sightline.quantities import show
from sightline.validators import length_of

LENGTHS = ("sequence_length", "prompt_tokens", "output_tokens")
"""Keys of a workload that may be written in short, such as ``4k``."""


def base_of(scenario: Mapping[str, Any], request: StudyRequest, varied: Collection[str]) -> dict[str, Any]:
    """Return a study's base scenario with the request's values.

    Of a part that is set as a whole, what it leaves out stays as the study states it. Lengths are numbers.

    Args:
        scenario: The scenario as the study states it.
        request: What is asked; its overrides are dotted keys of the scenario.
        varied: Keys that the study varies itself, which are not set.

    Raises:
        InputError: the request sets a key that the study varies, one below it, or all that it is a part of; or it sets
            a part with keys of its own to something else.
    """
    taken = {key: name for key in request.overrides for name in varied if _overlap(f"{key}.", f"{name}.")}
    if taken:
        raise InputError([f"{key} cannot be set: the study varies {name} itself" for key, name in taken.items()])
    base = dict(scenario)
    for key, value in request.overrides.items():
        part = scenario.get(key)
        if isinstance(part, Mapping) and not isinstance(value, Mapping):
            example = f"{key}.{min(part)}"
            raise InputError(f"{key} is {show(value)}; allowed: a mapping of keys to values, or one key, as {example}")
        base = with_value(base, key, {**part, **value} if isinstance(part, Mapping) else value)
    return _in_numbers(base)


def name_of(part: object) -> str:
    """Return a model or cluster of a scenario's mapping as a sentence names it."""
    if isinstance(part, Mapping):
        names = (part.get(key) for key in ("devices", "name", "same_as"))
        return str(next(filter(None, names), "what is stated"))
    return str(part)


def _overlap(one: str, other: str) -> bool:
    """Whether two dotted keys, each with a dot at its end, are the same or one is a part of the other."""
    return one.startswith(other) or other.startswith(one)


def _in_numbers(base: dict[str, Any]) -> dict[str, Any]:
    """The scenario with lengths written out: 4096 for ``4k``."""
    work = base.get("workload", {})
    read = {key: length_of(work[key]) for key in LENGTHS if key in work}
    lengths = {key: int(value) for key, value in read.items() if isinstance(value, float) and value.is_integer()}
    return {**base, "workload": {**work, **lengths}} if lengths else base
