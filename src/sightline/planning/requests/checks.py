"""What is wrong with a request for plans, as far as it shows before the search."""

from collections.abc import Mapping
from math import prod
from typing import Any

from sightline.errors import InputError
from sightline.loading.checks import split_restrictions
from sightline.loading.sources import read_source
from sightline.planning.limits import LIMITS, read_limits
from sightline.planning.requests.axes import read_axes
from sightline.planning.requests.spaces import counted, priced, spaces_of
from sightline.scenario import GenerationScenario, ServingScenario
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS


def check_request(mapping: Mapping[str, Any], options: Mapping[str, Any], *, most: int) -> None:
    """Raise `InputError` with the mistakes of a request.

    Args:
        mapping: With the keys of a scenario file.
        options: Arguments of `sightline.planning.search.plan`.
        most: Questions that restricted fields outside of the mesh may stand for.
    """
    _, restricted = split_restrictions(mapping)
    inside = {f"plan.{name}" for name in (*TRAINING_FIELDS, *GENERATION_FIELDS)} | {"workload.batch"}
    count = prod(len(values) for key, values in restricted.items() if key not in inside)
    devices = options.get("devices") or ()
    if count * max(1, len(devices)) > most:
        raise InputError(f"restricted fields stand for {count:,} searches; allowed here: up to {most}")
    problems: list[str] = []
    objective = options.get("objective")
    try:
        source = read_source(mapping)
        spaces, _ = priced(spaces_of(source, None, counted(devices, source, ())), options.get("prices") or ())
        _check_objectives(type(spaces[0].scenario), objective, options.get("pareto"))
    except InputError as error:
        problems += error.problems
    try:
        read_limits(**{name: options.get(name) for name in LIMITS})
    except InputError as error:
        problems += error.problems
    if problems:
        raise InputError(problems)


def _check_objectives(kind: type, objective: Any, pareto: Any) -> None:
    """Raise `InputError` for objectives that a task does not have."""
    if kind is ServingScenario:
        from sightline.planning.serving.objectives import objective_of

        objective_of(objective or "time")
    elif kind is GenerationScenario:
        from sightline.planning.generation.objectives import figure_key
        from sightline.planning.requests.generation import ALLOWED_AXES

        figure_key(objective or "time")
        read_axes(pareto, figure_key, ALLOWED_AXES)
    else:
        from sightline.planning.training.objectives import OBJECTIVES, check_objective

        check_objective(objective or "time")
        read_axes(pareto, check_objective, f"two of {', '.join(OBJECTIVES)}")
