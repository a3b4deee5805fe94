"""The obvious other choices beside a training plan, and why each of them loses."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from sightline.explanation.side import SAME
from sightline.launching.training.rules import LAUNCH_RULES
from sightline.loading.plan import OFFERED
from sightline.planning.answer import Neighbour, by_loss
from sightline.planning.training.validity import POSSIBLE
from sightline.prediction.changes import candidate_changes, changed, does_not_fit, more_memory_because, slower_because
from sightline.profile import Profile
from sightline.scenario import Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.rules.rulebook import Rule
from sightline.scenario.rules.techniques import briefly
from sightline.scenario.space import TRAINING_FIELDS

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
