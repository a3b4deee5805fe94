"""Why a training plan on unlike devices is the best, and what would fit where none does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightline.loading.clusters.cluster import joined
from sightline.loading.sources import with_settings
from sightline.planning.answer import HardwareChange, NearestPlan, Neighbour, PlanAnswer, by_loss
from sightline.planning.clusters import cluster_settings, without_names
from sightline.planning.lazy import LazySequence
from sightline.planning.training.answers import Found, ranked
from sightline.planning.training.mixed import Listed, measured, plan_mixed
from sightline.planning.training.one_space import SPARE, Request
from sightline.planning.why.explained import Predict, explained
from sightline.planning.why.hardware import LEAST_GAIN, PARTS, change_of
from sightline.planning.why.looser import looser
from sightline.planning.why.nearest import nearest_plans
from sightline.planning.why.neighbours import nearby_plans, neighbours
from sightline.planning.why.unmet import Unmet, changes_from
from sightline.prediction.changes import more_memory_because, needs_and_step, slower_because
from sightline.prediction.sensitivity import scaled
from sightline.profile import Profile
from sightline.progress import SILENT
from sightline.scenario import Cluster, Scenario
from sightline.scenario.space import TRAINING_FIELDS, Space

SHORT = {
    "zero_stage": (1, 3),
    "recompute": ("full",),
    "micro_batch": (1,),
    "offload": (frozenset[str](), frozenset({"optimizer"})),
}
"""What is tried of all kinds of devices together where nothing fits: what saves most memory."""
ALIKE = 1e-9
"""Loss below which a change is none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """What a search on unlike devices looked at."""

    request: Request
    spaces: Sequence[Space[Scenario]]
    """Those whose clusters have several kinds of devices."""
    parts: Sequence[Space[Scenario]]
    """Those on one kind of device."""
    alone: Sequence[PlanAnswer]
    """The answer of each part."""
    listed: Listed
    """The plans on several kinds."""


def explained_on_unlike(answer: PlanAnswer, of: Searched, *, predict: Predict, command: str) -> PlanAnswer:
    """Return the answer of a search on unlike devices with why its first plan is the best, or what would fit instead.

    Args:
        answer: The answer.
        of: What was searched.
        predict: What predicts a plan.
        command: What was typed to ask, to which changes are added.
    """
    request = of.request
    said = explained(
        answer,
        [*of.parts, *of.spaces],
        predict=predict,
        command=command,
        limits=request.limits,
        availability=request.availability,
        max_memory=request.max_memory,
        launchable=request.launchable,
    )
    if not answer.plans:
        return said if answer.stopped else replace(said, nearest=LazySequence(lambda: _nearest(of, predict, command)))
    why = _Why(answer, of, predict)
    if not why.best.scenario.cluster.groups:
        return replace(said, neighbours=LazySequence(lambda: by_loss([*why.kinds(), *said.neighbours])))
    return replace(said, neighbours=LazySequence(why.neighbours), hardware=LazySequence(why.hardware))


class _Why:
    """Explains the first plan of an answer."""

    def __init__(self, answer: PlanAnswer, of: Searched, predict: Predict) -> None:
        self.best, self._of, self._predict = answer.plans[0].profile, of, predict
        self._free = {name.removeprefix("plan.") for name in answer.free}
        by_time = answer.pareto_axes or answer.objective == "batch"
        self._objective = "time" if by_time else answer.objective
        self._because = more_memory_because if self._objective == "memory" else slower_because

    def kinds(self) -> list[Neighbour]:
        """Return the best plan of each other choice of devices, and of the other split of the same."""
        return by_loss([*self._clusters(), *self._splits()])

    def neighbours(self) -> list[Neighbour]:
        """Return these and single changes of the plan."""
        around = nearby_plans(Profile(scenario=self._open, source="predicted"), self._predict, self._free)
        return by_loss([*self.kinds(), *neighbours(self.best, self._value, around, self._objective)])

    def hardware(self) -> list[HardwareChange]:
        """Return what a better part of each kind of device, or a better network between them, would give."""
        own, found = self._value(self.best), []
        for number, kind, cluster in _better(self.best.scenario.cluster):
            changed = self._predict(replace(self._open, cluster=cluster))
            gain = 1.0 - self._value(changed) / own if own else 0.0
            if gain >= LEAST_GAIN:
                change = change_of(self.best.scenario.cluster if kind is None else kind, number, gain)
                found.append(change if kind is None else replace(change, part=f"{number} of {kind.device.name}"))
        return sorted(found, key=lambda one: -one.gain)

    @property
    def _open(self) -> Scenario:
        """The best plan with what was chosen for it left open again: layers of stages, shares of the batch."""
        scenario: Scenario = self.best.scenario
        asked = self._of.spaces[0].scenario.plan
        plan = replace(scenario.plan, stage_layers=asked.stage_layers, group_batches=asked.group_batches)
        return replace(scenario, plan=plan)

    def _clusters(self) -> Iterator[Neighbour]:
        """The best plan of each other part of the cluster, and of each other order of its devices."""
        own = self.best.scenario.cluster.in_words
        listed: dict[str, list[Found]] = {}
        for one in (*self._of.listed.plans, *self._alone()):
            listed.setdefault(one.scenario.cluster.in_words, []).append(one)
        for words, plans in listed.items():
            if words != own:
                other = self._compared(cluster_settings(plans[0].scenario.cluster), plans)
                # Replicas do not mind in which order their devices are listed.
                if other.loss is None or abs(other.loss) > ALIKE:
                    yield other
        for part in self._of.parts:
            cluster = part.scenario.cluster
            if cluster.in_words not in listed and not part.options:
                yield Neighbour(set=cluster_settings(cluster), loss=None, sentence="no plan fits")

    def _alone(self) -> Iterator[Found]:
        for answer in self._of.alone:
            yield from (measured(one.profile, self._of.spaces[0], self._of.request) for one in answer.plans[:1])

    def _splits(self) -> Iterator[Neighbour]:
        """The best plan on the same devices that splits the work the other way."""
        own = self.best.scenario
        if not own.cluster.groups:
            return
        same = [one for one in self._of.listed.plans if one.scenario.cluster.in_words == own.cluster.in_words]
        others = [one for one in same if one.scenario.plan.split != own.plan.split]
        if others:
            yield self._compared({"plan.split": others[0].scenario.plan.split}, others)

    def _compared(self, stated: dict[str, Any], plans: Sequence[Found]) -> Neighbour:
        """The best of some plans next to the best of all."""
        values = [self._value(one.predicted()) for one in plans]
        least = min(range(len(plans)), key=values.__getitem__)
        own, other = self._value(self.best), plans[least].predicted()
        loss = values[least] / own - 1 if own else None
        return Neighbour(set=stated, loss=loss, sentence=self._because(self.best, other))

    def _value(self, profile: Profile) -> float:
        """The objective of a plan on the devices that it uses."""
        plan = measured(profile, self._of.spaces[0], replace(self._of.request, objective=self._objective, pareto=None))
        return plan.keys[0]


def _better(cluster: Cluster) -> Iterator[tuple[str, Cluster | None, Cluster]]:
    """Yield a cluster with a number of one kind of device, or of the network between them, twice as good."""
    for number in PARTS:
        if number.startswith("network."):
            yield number, None, scaled(cluster, number, change_of(cluster, number, 0.0).factor)
            continue
        for place, kind in enumerate(cluster.groups):
            better = scaled(kind, number, change_of(kind, number, 0.0).factor)
            groups = [*cluster.groups[:place], better, *cluster.groups[place + 1 :]]
            yield number, kind, joined(groups, cluster.name, cluster.network)


def _nearest(of: Searched, predict: Callable[[Scenario], Profile], command: str) -> list[NearestPlan]:
    """What fits instead: looser limits, other plans on all kinds of devices, and on each kind alone."""
    found = [*_with_looser_limits(of, command), *_on_all_kinds(of, command)]
    for part in of.parts:
        stated = cluster_settings(part.scenario.cluster)
        request = of.request
        unmet = Unmet(
            space=part,
            limits=request.limits,
            availability=request.availability,
            max_memory=request.max_memory,
            launchable=request.launchable,
        )
        typed = with_settings(command, stated)
        near = nearest_plans(unmet, predict, typed)[:1]
        found += [without_names(replace(one, set={**stated, **one.set})) for one in near]
    return found


def _with_looser_limits(of: Searched, command: str) -> Iterator[NearestPlan]:
    """The best of the plans that fit and exceed a limit of the run, with the limits that it meets."""
    for one in ranked(of.listed.beyond, replace(of.request, pareto=None, top=1)):
        set_, beyond = looser(of.request.limits, one.figures)
        typed = " ".join((command, *(f"--{name} {value}" for name, value in set_.items())))
        sentence = "; ".join((needs_and_step(one.profile), *beyond))
        yield NearestPlan(set=set_, sentence=sentence, plan=one, command=typed)


def _on_all_kinds(of: Searched, command: str) -> Iterator[NearestPlan]:
    """The fastest plan on several kinds of devices with every field of the plan free, of those that save memory."""
    for space in of.spaces if not of.listed.beyond else ():
        values: dict[str, Any] = {**dict.fromkeys(TRAINING_FIELDS), **SHORT}
        request = replace(of.request, objective="time", pareto=None, top=SPARE)
        found = plan_mixed([replace(space, values=values)], request, [], SILENT)[0].plans
        for one in [plan for plan in found if plan.launchable][:1]:
            changed = dict(changes_from(space, one.profile.scenario))
            devices = cluster_settings(one.profile.scenario.cluster)
            typed = with_settings(command, {**devices, **changed})
            said = needs_and_step(one.profile)
            yield without_names(NearestPlan(set={**devices, **changed}, sentence=said, plan=one, command=typed))
