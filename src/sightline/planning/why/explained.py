"""The answer of a search with what explains it: worked out when somebody reads it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sightline.planning.answer import HardwareChange, NearestPlan, Neighbour, PlanAnswer
from sightline.planning.lazy import LazySequence
from sightline.planning.training.money import RunLimits, usual_availability
from sightline.planning.training.objectives import Evaluated, Measure
from sightline.profile import Profile
from sightline.scenario import Scenario
from sightline.scenario.space import Space

if TYPE_CHECKING:
    from sightline.planning.why.neighbours import NearbyPlan

Predict = Callable[[Scenario], Profile]


def explained(
    answer: PlanAnswer,
    spaces: Sequence[Space[Scenario]],
    *,
    predict: Predict,
    command: str,
    limits: RunLimits,
    availability: float | None,
    max_memory: float | None,
    launchable: bool,
) -> PlanAnswer:
    """Return the answer of a search of training plans with why its first plan is the best, or what would fit instead.

    Args:
        answer: The answer.
        spaces: What was searched.
        predict: What predicts a plan.
        command: What was typed to ask, to which changes are added.
        limits: Those of the run.
        availability: Share of the calendar time in which it makes progress; None for the usual.
        max_memory: Bytes of a device that a plan may take, if less than all.
        launchable: Whether only what can be launched was searched.
    """
    assumed = {**answer.assumptions, **_assumed(spaces, availability)}
    if answer.plans:
        best = answer.plans[0].profile
        assumed |= _assumed_hosts(answer)
        why = _Why(answer, _space_of(best, spaces), predict, availability)
        return replace(
            answer, assumptions=assumed, neighbours=LazySequence(why.neighbours), hardware=LazySequence(why.hardware)
        )
    if answer.stopped:
        return replace(answer, assumptions=assumed)

    def nearest() -> Sequence[NearestPlan]:
        from sightline.planning.why.nearest import nearest_of
        from sightline.planning.why.unmet import Unmet

        asked = Unmet(
            space=_largest(spaces[0]),
            limits=limits,
            availability=availability,
            max_memory=max_memory,
            launchable=launchable,
        )
        return nearest_of([replace(asked, space=_largest(space)) for space in spaces], predict, command)

    return replace(answer, assumptions=assumed, nearest=LazySequence(nearest))


class _Why:
    """Explains the first plan of an answer."""

    def __init__(
        self, answer: PlanAnswer, space: Space[Scenario], predict: Predict, availability: float | None
    ) -> None:
        self._best, self._space, self._predict = answer.plans[0].profile, space, predict
        self._free = {name.removeprefix("plan.") for name in answer.free}
        self._objective = "time" if answer.pareto_axes or answer.objective == "batch" else answer.objective
        self._measure = Measure(
            space=replace(space, scenario=self._best.scenario, clusters=()), availability=availability
        )

    @cached_property
    def _nearby_plans(self) -> "Sequence[NearbyPlan]":
        """The plans beside it, which both reasons look at."""
        from sightline.planning.why.neighbours import nearby_plans

        limit = self._space.scenario.workload.global_batch if self._space.at_most else None
        return nearby_plans(self._best, self._predict, self._free, limit)

    def neighbours(self) -> Sequence[Neighbour]:
        from sightline.planning.why.neighbours import neighbours

        return neighbours(self._best, self._value, self._nearby_plans, self._objective)

    def hardware(self) -> Sequence[HardwareChange]:
        from sightline.planning.why.hardware import hardware_changes, more_memory

        found = hardware_changes(self._best, self._value, self._predict)
        found += more_memory(self._best, self._value, self._nearby_plans)
        return sorted(found, key=lambda one: -one.gain)

    def _value(self, profile: Profile) -> Any:
        """The objective of a prediction of one plan or of many."""
        figures = Evaluated(
            profile.step_time_s,
            profile.memory_bytes["total"],
            profile.energy_per_step_j,
            profile.scenario.workload.global_batch,
            profile.scenario.cluster.devices,
        )
        return self._measure(self._objective, figures)


def _largest(space: Space[Scenario]) -> Space[Scenario]:
    """The space of the largest of its clusters alone."""
    return replace(space, scenario=replace(space.scenario, cluster=space.sizes[-1]), clusters=())


def _space_of(best: Profile, spaces: Sequence[Space[Scenario]]) -> Space[Scenario]:
    """The space that a plan was found in."""
    scenario = best.scenario
    alike = (
        space
        for space in spaces
        if any(cluster is scenario.cluster for cluster in space.sizes)
        and space.scenario.model is scenario.model
        and space.scenario.plan.adapter == scenario.plan.adapter
    )
    return next(alike, spaces[0])


def _assumed_hosts(answer: PlanAnswer) -> dict[str, str]:
    """The memory of hosts that nobody stated, where a plan offloads to it."""
    from sightline.planning.clusters import is_usual
    from sightline.planning.why.unmet import host_memory

    clusters = [one.profile.scenario.cluster for one in answer.plans if one.profile.scenario.plan.offload]
    said = dict.fromkeys(host_memory(cluster) for cluster in clusters if is_usual(cluster))
    return {"offloading": f"to {' or '.join(said)}; state yours by cluster.host"} if said else {}


def _assumed(spaces: Sequence[Space[Scenario]], availability: float | None) -> dict[str, str]:
    """What calendar time, rent and energy rest on; nothing for a question without a length of the run."""
    if all(space.scenario.workload.total_tokens is None for space in spaces):
        return {}
    if availability is not None:
        return {"progress": f"{availability:.3g} of the calendar time, as given"}
    counts = sorted({cluster.devices for space in spaces for cluster in space.sizes})
    shares = [float(usual_availability(count)) for count in (counts[0], counts[-1])]
    said = " to ".join(dict.fromkeys("over 0.999" if share > 0.9995 else f"{share:.3f}" for share in shares))
    return {
        "progress": f"{said} of the calendar time, the rest checkpoints and failures, as reported of Llama 3 405B and "
        "growing with the devices"
    }
