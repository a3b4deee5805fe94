"""The base scenario of a built-in study: as the study states it, with what the request sets."""

from collections.abc import Collection, Mapping
from typing import Any

from sightline.errors import InputError
from sightline.exploration.request import StudyRequest
from sightline.loading.input.dotted_keys import with_value


def base_of(scenario: Mapping[str, Any], request: StudyRequest, varied: Collection[str]) -> dict[str, Any]:
    """Return a study's base scenario with the request's values.

    Args:
        scenario: The scenario as the study states it.
        request: What is asked; its overrides are dotted keys of the scenario.
        varied: Keys that the study varies itself, which are not set.

    Raises:
        InputError: the request sets a key that the study varies, one below it, or all that it is a part of.
    """
    taken = {key: name for key in request.overrides for name in varied if _overlap(f"{key}.", f"{name}.")}
    if taken:
        raise InputError([f"{key} cannot be set: the study varies {name} itself" for key, name in taken.items()])
    base = dict(scenario)
    for key, value in request.overrides.items():
        base = with_value(base, key, value)
    return base


def _overlap(one: str, other: str) -> bool:
    """Whether two dotted keys, each with a dot at its end, are the same or one is a part of the other."""
    return one.startswith(other) or other.startswith(one)
