"""The fastest plan of a scenario of training: a study asks for it again after each change of the hardware."""

from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError
from sightline.exploration.base import name_of
from sightline.planning.search import plan
from sightline.profile import Profile
from sightline.progress import Progress

TIED = 10
"""Plans among which the fastest is looked for: a search puts the simplest of those first that it cannot tell apart."""
Restricted = Mapping[str, object]
"""Values that fields of a plan may have, by field: a list, or None for all that are valid."""


def fastest(scenario: Mapping[str, Any], fields: Restricted, progress: Progress) -> Profile:
    """Return the prediction of the fastest plan that fits.

    Args:
        scenario: A scenario of training as a mapping.
        fields: Fields of its plan that are searched.
        progress: Asked between searches whether to stop.

    Raises:
        InputError: every mistake in the scenario, or that no plan fits.
        Cancelled: somebody asked to stop.
    """
    found = fastest_if_any(scenario, fields, progress)
    if found is None:
        raise InputError(f"no plan of {name_of(scenario['model'])} fits on {name_of(scenario['cluster'])}")
    return found


def fastest_if_any(scenario: Mapping[str, Any], fields: Restricted | None, progress: Progress) -> Profile | None:
    """Return what `fastest` does, None where no plan fits; without ``fields``, of all that the plan leaves open."""
    progress.check()
    stated = {} if fields is None else fields
    within = {name: {"any": list(values)} for name, values in stated.items() if isinstance(values, list | tuple)}
    free = None if fields is None else [name for name, values in fields.items() if values is None]
    answer = plan({**scenario, "plan": {**scenario["plan"], **within}}, free=free, top=TIED)
    return min((found.profile for found in answer.plans), key=lambda one: float(one.step_time_s), default=None)
