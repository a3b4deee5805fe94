"""The rationale of a search of training plans: why its first plan is the best, worked out when somebody reads it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from sightline.explanation.compared import SAME
from sightline.launching.training.rules import LAUNCH_RULES
from sightline.loading.plans import OFFERED
from sightline.planning.plan_answer import HardwareChange, LazySequence, NearestPlan, Neighbour, PlanAnswer, by_loss
from sightline.planning.training.objectives import Evaluated, Measure, usual_availability
from sightline.planning.training.training_search import Request
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE
from sightline.prediction.changes import candidate_changes, changed, does_not_fit, more_memory_because, slower_because
from sightline.profile import Profile
from sightline.quantities import percent
from sightline.scenario import Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.rules.rulebook import Rule
from sightline.scenario.rules.techniques import briefly
from sightline.scenario.space import TRAINING_FIELDS, Space

Value: TypeAlias = Callable[[Profile], float | None]
"""The objective of a profile, of which less is better; None where it is not known."""
Predict: TypeAlias = Callable[[Scenario], Profile]


class NearbyPlan(NamedTuple):
    """A plan beside the best one."""

    set: Mapping[str, Any]
    """Dotted keys with their values."""
    profile: Profile | None
    """Its prediction; None for one that nothing could run."""
    problem: str = ""
    """The rule that it breaks then, or what the framework does not offer of it and of the best one does."""


def nearby_plans(
    best: Profile,
    predict: Predict,
    free: Collection[str] | None = None,
    batch_at_most: int | None = None,
    *,
    launchable: bool = False,
) -> list[NearbyPlan]:
    """Return the obvious neighbours of a training plan, predicted.

    Args:
        best: The prediction of the plan.
        predict: What predicts the others.
        free: Fields that were searched; None stands for all.
        batch_at_most: Limit of the global batch, where plans take the largest that their replicas divide.
        launchable: Leave out what cannot be launched.
    """
    found = []
    for change in candidate_changes(best.scenario):
        field = next(iter(change))
        if field not in (TRAINING_FIELDS if free is None else free):
            continue
        other = changed(best.scenario, change)
        if batch_at_most is not None:
            other = _with_largest_batch(other, batch_at_most)
        chunks = ["virtual_stages"] if "virtual_stages" in change and other.plan.virtual_stages > 1 else []
        chunks += ["schedule"] if field == "virtual_stages" and "schedule" in change else []
        stated = {f"plan.{name}": other.plan.to_dict()[name] for name in dict.fromkeys((field, *chunks))}
        broken = next(map(str, broken_by(other, POSSIBLE)), "")
        if launchable and not broken and broken_by(other, LAUNCHABLE):
            continue
        found.append(
            NearbyPlan(stated, None, broken) if broken else NearbyPlan(stated, predict(other), _refused(best, other))
        )
    return found


def neighbours(best: Profile, value: Value, around: Iterable[NearbyPlan], objective: str = "time") -> list[Neighbour]:
    """Return why the plans beside the best one lose, the least loss first, those without a loss last.

    What the framework does not offer is left out, unless it would be better.

    Args:
        best: The prediction of the plan.
        value: The objective.
        around: The plans beside it.
        objective: Its name; of "memory" parts of memory are what tells plans apart, of all others phases.
    """
    because = more_memory_because if objective == "memory" else slower_because
    found = []
    for one in around:
        loss, sentence = _judged(best, one, value, because)
        if not (one.profile and one.problem and (loss is None or loss >= 0)):
            found.append(Neighbour(set=one.set, loss=loss, sentence=sentence))
    return by_loss(found)


def _with_largest_batch(scenario: Scenario, limit: int) -> Scenario:
    sequences = int(scenario.plan.data_parallel * scenario.plan.sequences)
    whole = max(limit // sequences, 1) * sequences
    return replace(scenario, workload=replace(scenario.workload, global_batch=whole))


def _judged(
    best: Profile, one: NearbyPlan, value: Value, because: Callable[[Profile, Profile], str]
) -> tuple[float | None, str]:
    """The loss of a neighbour and why it has it; no loss for one that does not fit or that nothing could run."""
    if one.profile is None:
        return None, f"invalid: {one.problem}"
    if not one.profile.fits:
        return None, does_not_fit(one.profile)
    own, its, reason = value(best), value(one.profile), because(best, one.profile)
    loss = None if not own or its is None else float(its / own - 1)
    return loss, "; ".join(filter(None, (reason, one.problem, _held_back(best, one.profile, loss))))


def _refused(best: Profile, other: Scenario, rules: tuple[Rule, ...] = OFFERED) -> str:
    """What rules refuse of a plan; nothing where they refuse something of the best one too."""
    if broken_by(best.scenario, rules):
        return ""
    return next((briefly(str(sentence)) for sentence in broken_by(other, rules)), "")


def _held_back(best: Profile, other: Profile, loss: float | None) -> str:
    """Why a neighbour that is better is not the best plan, as far as is predicted; a slower one may not fit either."""
    if loss is None:
        return ""
    if other.tight and not best.tight:
        return "may not fit"
    if loss >= 0:
        return ""
    if refused := _refused(best, other.scenario, LAUNCH_RULES):
        return refused
    return "equally good, but the best plan is simpler" if -loss < SAME else ""


def explained(
    answer: PlanAnswer,
    spaces: Sequence[Space[Scenario]],
    request: Request,
    *,
    predict: Predict,
    command: str,
) -> PlanAnswer:
    """Return the answer of a search of training plans with why its first plan is the best, or what would fit instead.

    Args:
        answer: The answer.
        spaces: What was searched.
        request: What was looked for.
        predict: What predicts a plan.
        command: What was typed to ask, to which changes are added.
    """
    assumed = {**answer.assumptions, **_assumed(spaces, request.availability)}
    if answer.plans:
        best = answer.plans[0].profile
        assumed |= _assumed_hosts(answer)
        rationale = _Rationale(answer, _space_of(best, spaces), predict, request)
        return replace(
            answer,
            assumptions=assumed,
            neighbours=LazySequence(rationale.neighbours),
            hardware=LazySequence(rationale.hardware),
        )
    if answer.stopped:
        return replace(answer, assumptions=assumed)

    def nearest() -> Sequence[NearestPlan]:
        from sightline.planning.rationale.nearest import Unmet, nearest_of

        return nearest_of([Unmet(space=_largest(space), request=request) for space in spaces], predict, command)

    return replace(answer, assumptions=assumed, nearest=LazySequence(nearest))


class _Rationale:
    """Explains the first plan of an answer."""

    def __init__(self, answer: PlanAnswer, space: Space[Scenario], predict: Predict, request: Request) -> None:
        self._best, self._space, self._predict = answer.plans[0].profile, space, predict
        self._free = {name.removeprefix("plan.") for name in answer.free}
        self._objective = "time" if answer.pareto_axes or answer.objective == "batch" else answer.objective
        self._measure = Measure(
            space=replace(space, scenario=self._best.scenario, clusters=()), availability=request.availability
        )

    @cached_property
    def _nearby_plans(self) -> "Sequence[NearbyPlan]":
        """The plans beside it, which both reasons look at."""
        limit = self._space.scenario.workload.global_batch if self._space.at_most else None
        return nearby_plans(self._best, self._predict, self._free, limit, launchable=self._space.launchable)

    def neighbours(self) -> Sequence[Neighbour]:
        return neighbours(self._best, self._value, self._nearby_plans, self._objective)

    def hardware(self) -> Sequence[HardwareChange]:
        from sightline.planning.rationale.hardware import hardware_changes, more_memory

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
    from sightline.planning.rationale.nearest import host_memory

    clusters = [one.profile.scenario.cluster for one in answer.plans if one.profile.scenario.plan.offload]
    said = dict.fromkeys(host_memory(cluster) for cluster in clusters if is_usual(cluster))
    return {"offloading": f"to {' or '.join(said)}; set yours with cluster.host"} if said else {}


def _assumed(spaces: Sequence[Space[Scenario]], availability: float | None) -> dict[str, str]:
    """What calendar time, rent and energy rest on; nothing for a question without a length of the run."""
    if all(space.scenario.workload.total_tokens is None for space in spaces):
        return {}
    if availability is not None:
        return {"availability": f"{percent(availability, 1)} of wall-clock time, from --availability"}
    counts = sorted({cluster.devices for space in spaces for cluster in space.sizes})
    shares = [float(usual_availability(count)) for count in (counts[0], counts[-1])]
    said = " to ".join(dict.fromkeys("over 99.9 %" if share > 0.9995 else percent(share, 1) for share in shares))
    return {
        "availability": f"{said} of wall-clock time; checkpoints and failures take the rest, as for Llama 3 405B "
        "and scaled to this cluster"
    }
