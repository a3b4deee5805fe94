"""What people ask of plans that serve a load - an objective, users, limits - read, searched and answered."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer
from sightline.planning.limits import read_amount, read_limits
from sightline.planning.serving.answers import answer_of
from sightline.planning.serving.objectives import objective_of
from sightline.planning.serving.search import search
from sightline.planning.serving.sweep import ServingSpace
from sightline.progress import Progress
from sightline.quantities import SECONDS
from sightline.scenario import Slo

USUAL_TOP = 5
"""Plans that are returned where nobody says how many: each is simulated at several rates."""


def plan_serving(
    spaces: Sequence[ServingSpace],
    *,
    objective: str,
    top: int | None,
    of_users: Mapping[str, object],
    think_time: object,
    command: str,
    progress: Progress,
) -> PlanAnswer:
    """Return the best plans to serve a load, as `sightline.planning.search.plan` is asked for them.

    ``of_users`` are limits on times that users see, by name.

    Raises:
        InputError: every mistake in the request.
    """
    name = objective_of(objective)
    mixed = next((space.scenario.cluster for space in spaces if space.scenario.cluster.groups), None)
    if mixed is not None:
        raise InputError(f"cluster has {mixed.in_words}; allowed in plans that serve: devices of one kind")
    limits = {f"{key}_s": value for key, value in read_limits(**of_users).items()}
    spaces = [_within(space, limits) for space in spaces]
    think_s = _think_s(think_time, spaces)
    count = top or USUAL_TOP
    found = search(spaces, name, top=count, think_s=think_s, progress=progress)
    return answer_of(found, spaces, name, count, command)


def _within(space: ServingSpace, limits: Mapping[str, float]) -> ServingSpace:
    """A space whose load has further limits."""
    if not limits:
        return space
    work = space.scenario.workload
    slo = replace(work.slo or Slo(), **limits)
    return replace(space, scenario=replace(space.scenario, workload=replace(work, slo=slo)))


def _think_s(stated: object, spaces: Sequence[ServingSpace]) -> float:
    """Seconds that a user thinks: as stated, else as the load's clients do; raise `InputError` for what is no time."""
    if stated is None:
        return spaces[0].scenario.workload.arrival.think_time_s
    return read_amount("think_time", stated, SECONDS, zero=True)
