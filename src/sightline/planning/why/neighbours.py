"""The obvious other choices beside a training plan, and why each of them loses."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from sightline.explanation.differences import more_memory_because, slower_because
from sightline.explanation.side import SAME
from sightline.launching.training.rules import LAUNCH_RULES
from sightline.loading.typical import OFFERED
from sightline.planning.answer import Neighbour, by_loss
from sightline.planning.training.validity import POSSIBLE
from sightline.prediction.changes import does_not_fit
from sightline.profile import Profile
from sightline.scenario import Plan, Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.rules.rulebook import Rule
from sightline.scenario.rules.techniques import briefly

Change: TypeAlias = Mapping[str, Any]
"""Fields of a plan with other values; the first is the choice, the others follow from it."""
Value: TypeAlias = Callable[[Profile], float | None]
"""The objective of a profile, of which less is better; None where it is not known."""
Predict: TypeAlias = Callable[[Scenario], Profile]
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "recompute": ("none", "selective", "full"),
    "zero_stage": (0, 1, 2, 3),
    "schedule": ("1f1b", "gpipe", "zero-bubble"),
    "sequence_parallel": (False, True),
}
"""Choices whose other values are neighbours."""
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")


class NearbyPlan(NamedTuple):
    """A plan beside the best one."""

    set: Mapping[str, Any]
    """Dotted keys with their values."""
    profile: Profile | None
    """Its prediction; None for one that nothing could run."""
    problem: str = ""
    """The rule that it breaks then, or what the framework does not offer of it and of the best one does."""


def nearby_plans(
    best: Profile, predict: Predict, free: Collection[str] | None = None, batch_at_most: int | None = None
) -> list[NearbyPlan]:
    """Return the obvious neighbours of a training plan, predicted.

    Args:
        best: The prediction of the plan.
        predict: What predicts the others.
        free: Fields that were searched; None stands for all.
        batch_at_most: Limit of the global batch, where plans take the largest that their replicas divide.
    """
    found = []
    for change in changes_of(best.scenario):
        field = next(iter(change))
        if free is not None and field not in free:
            continue
        other = replace(best.scenario, plan=replace(best.scenario.plan, **change))
        if batch_at_most is not None:
            other = _with_largest_batch(other, batch_at_most)
        chunks = ["virtual_stages"] if "virtual_stages" in change and other.plan.virtual_stages > 1 else []
        stated = {f"plan.{name}": other.plan.to_dict()[name] for name in dict.fromkeys((field, *chunks))}
        broken = next(map(str, broken_by(other, POSSIBLE)), "")
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
        return None, f"cannot be: {one.problem}"
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
    """Why a neighbour that is better is not the best plan, as far as predictions say; nothing for one that loses."""
    if loss is None or loss >= 0:
        return ""
    if other.tight and not best.tight:
        return "may not fit"
    if refused := _refused(best, other.scenario, LAUNCH_RULES):
        return refused
    return "as good, and the best plan is simpler" if -loss < SAME else ""


def changes_of(scenario: Scenario) -> Iterator[Change]:
    """Yield single changes of a plan, whether they break a rule or not.

    Degrees double and halve at the expense of replicas, or of stages where there are none left; the micro-batch and
    the virtual stages double and halve; recomputation, ZeRO and the schedule take their other values.
    """
    plan = scenario.plan
    for field in DEGREES:
        for factor in (2.0, 0.5):
            yield from _degree(scenario, field, factor)
    for factor in (2.0, 0.5):
        sequences = (plan.micro_batch or 1) * factor
        if sequences >= 1 and sequences == int(sequences):
            yield {"micro_batch": int(sequences)}
        virtual = plan.virtual_stages * factor
        if plan.schedule == "interleaved" and virtual > 1 and virtual == int(virtual):
            yield {"virtual_stages": int(virtual)}
    yield from _choices(plan)


def _choices(plan: Plan) -> Iterator[Change]:
    needs = {
        "zero_stage": plan.data_parallel,
        "schedule": plan.pipeline_parallel,
        "sequence_parallel": plan.tensor_parallel,
    }
    for field, values in CHOICES.items():
        if needs.get(field, 2) > 1:
            for value in values:
                if value != getattr(plan, field):
                    yield {field: value} | ({"virtual_stages": 1} if field == "schedule" else {})
    if plan.offload:
        yield {"offload": frozenset()}


def _degree(scenario: Scenario, field: str, factor: float) -> Iterator[Change]:
    """A multiple of a degree of parallelism, where it is a whole number and something else can give way."""
    plan = scenario.plan
    degree = getattr(plan, field) * factor
    if degree < 1 or degree != int(degree) or (field == "expert_parallel" and scenario.model.experts is None):
        return
    if field == "context_parallel" and plan.context_parallel == 1:
        return
    change: dict[str, Any] = {field: int(degree)}
    if field != "expert_parallel":
        gives = "data_parallel" if plan.data_parallel % factor == 0 else "pipeline_parallel"
        left = getattr(plan, gives) / factor
        if gives == field or left < 1 or left != int(left):
            return
        change[gives] = int(left)
    if field == "pipeline_parallel" and plan.schedule == "interleaved":
        # As many layers in a chunk as before.
        change["virtual_stages"] = max(1, int(plan.virtual_stages // factor))
    if change.get("virtual_stages") == 1:
        change["schedule"] = "1f1b"
    if change.get("tensor_parallel") == 1:
        change["sequence_parallel"] = False
    if change.get("pipeline_parallel") == 1:
        change |= {"schedule": "1f1b", "virtual_stages": 1}
    yield change
