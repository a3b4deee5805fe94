"""Loads simulated one after the other, each as it is or at the highest rate that meets its objective."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.progress import SILENT, Progress

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile
    from sightline.scenario import ServingScenario
    from sightline.simulation.capacity import Capacity


def loads_of(scenarios: Sequence[Any]) -> "list[ServingScenario]":
    """Return scenarios as loads that a server answers.

    Raises:
        InputError: Some are of another task.
    """
    from sightline.scenario import ServingScenario

    found = [one for one in scenarios if isinstance(one, ServingScenario)]
    if len(found) < len(scenarios):
        others = sorted({one.workload.task for one in scenarios} - {"serve"})
        raise InputError(f"workload.task is {', '.join(others)}; simulate takes serve, predict the others")
    return found


def simulated(
    loads: "Sequence[ServingScenario]",
    progress: Progress = SILENT,
    known: "Anchored | None" = None,
    *,
    capacity: bool = False,
    intervals: bool = True,
    stream: bool = False,
) -> "tuple[list[Profile], list[Capacity]]":
    """Return a profile for each load and, if ``capacity`` is asked for, what the searches found.

    Args:
        loads: What is simulated.
        progress: Told how many are done; each search is a stage of its own.
        known: What runs of one's own cluster teach.
        capacity: Whether the profiles are at the highest rate that meets the objective.
        intervals: Whether they have intervals, which take further runs.
        stream: Whether no rows of requests are kept.
    """
    from sightline.anchors import find_capacity, simulate

    answers, found = [], []
    for load in loads if capacity else progress.over(loads, "simulating"):
        if not capacity:
            streamed = stream or None  # loads that are too long to keep are streamed without being asked
            answers.append(simulate(load, anchor=known or (), intervals=intervals, streamed=streamed))
            continue
        one = find_capacity(load, anchor=known or (), intervals=intervals, progress=progress)
        # The figures are those at the capacity; where no rate meets the objective, those of the load as it is.
        at = load if one.profile is None else one.profile.scenario
        answer = simulate(at, anchor=known or (), intervals=intervals)
        span = {} if one.interval is None else {"capacity_requests_per_s": one.interval}
        answers.append(
            answer.replace(capacity_requests_per_s=one.rate, curve=one.points(), interval={**answer.interval, **span})
        )
        found.append(one)
    return answers, found
