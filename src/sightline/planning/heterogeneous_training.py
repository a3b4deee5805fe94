"""A search of training plans on heterogeneous devices: plans on several kinds are a list, predicted one by one."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf
from typing import Any, NamedTuple

import numpy as np

from sightline.content import grouped
from sightline.loading.clusters.cluster import joined
from sightline.loading.sources import with_settings
from sightline.planning import heterogeneous_search
from sightline.planning.clusters import cluster_settings, price_assumptions, without_names
from sightline.planning.heterogeneous_search import (
    INVALID,
    UNFIT,
    best_beside,
    left_out,
    mixtures,
    nearest_on_each_kind,
    said_of_unlisted,
    without_plans,
)
from sightline.planning.plan_answer import (
    HardwareChange,
    LazySequence,
    NearestPlan,
    Neighbour,
    PlanAnswer,
    RankedPlan,
    by_loss,
)
from sightline.planning.rationale.hardware import LEAST_GAIN, PARTS, change_of
from sightline.planning.rationale.nearest import Unmet, changes_from, nearest_plans
from sightline.planning.rationale.relaxed import looser
from sightline.planning.rationale.training_rationale import Predict, explained, nearby_plans, neighbours
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.ranked import Found, ranked
from sightline.planning.training.training_search import SPARE, Request
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE
from sightline.prediction.changes import more_memory_because, needs_and_step, slower_because
from sightline.prediction.sensitivity import scaled
from sightline.profile import Profile
from sightline.progress import SILENT, Cancelled, Progress
from sightline.scenario import Cluster, Plan, Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.space import TRAINING_FIELDS, Space

MOST_RANKS, MOST_STAGES, MOST_SEQUENCES = 8, 16, 8
"""Largest tensor degree, pipeline degree and micro-batch that are tried."""
LISTED = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch"),
    *("zero_stage", "recompute", "sequence_parallel"),
)
"""Free fields of a plan that are searched on several kinds of devices; of all others, values that are allowed."""
RECOMPUTED = ("none", "selective", "full")
"""From what costs least to what saves most."""
ZERO_STAGES = (1, 0, 2, 3)
"""The usual one first: sharding the optimizer's states costs next to nothing, and the update takes less time."""


def not_listed(space: Space[Scenario]) -> tuple[str, ...]:
    """Return the free fields that have one value in all plans of the list."""
    return tuple(name for name in space.free if name not in LISTED and space.values[name] is None)


def layouts(space: Space[Scenario]) -> Iterator[Scenario]:
    """Yield the scenario with every order of devices, degrees, split, micro-batch and allowed technique of the list."""
    for cluster in mixtures(space.scenario.cluster):
        largest = gcd(*(part.devices for part in cluster.parts))
        degrees = product(
            _tried(space, "tensor_parallel", _powers(min(MOST_RANKS, largest))),
            _tried(space, "context_parallel", [1]),
            _tried(space, "pipeline_parallel", _powers(min(MOST_STAGES, cluster.devices))),
        )
        for t, c, p in degrees:
            replicas, rest = divmod(cluster.devices, t * c * p)
            if rest or replicas not in _tried(space, "data_parallel", [replicas]):
                continue
            ranks = {"tensor_parallel": t, "context_parallel": c, "pipeline_parallel": p, "data_parallel": replicas}
            plan = replace(space.scenario.plan, **ranks)
            for fields in _choices(space, plan):
                yield replace(space.scenario, cluster=cluster, plan=replace(plan, **fields))


def savings(space: Space[Scenario], layout: Scenario) -> list[dict[str, Any]]:
    """Return fields that save memory of a layout, the usually fastest first, those that save most last."""
    allows = space.scenario.plan.framework.allows
    offered = [word for word in RECOMPUTED if allows("recompute", word)]
    split = _tried(space, "sequence_parallel", (True, False) if allows("sequence_parallel", True) else (False,))
    tried = {
        "recompute": sorted(_tried(space, "recompute", offered), key=recomputation),
        "zero_stage": sorted(_tried(space, "zero_stage", ZERO_STAGES), key=ZERO_STAGES.index),
        # Without tensor parallelism it is nothing, and counts once.
        "sequence_parallel": split if layout.plan.tensor_parallel > 1 else sorted(split)[:1],
    }
    return [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]


def recomputation(recompute: Any) -> float:
    """Return how much a kind of recomputation costs, as a rank."""
    return RECOMPUTED.index(recompute) if recompute in RECOMPUTED else 1.5


def _choices(space: Space[Scenario], plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield every choice beside the degrees: those that are listed, and those of other fields that are allowed."""
    split = (space.scenario.plan.split,) if space.scenario.plan.split else ("pipeline", "data")
    tried = {
        "split": [way for way in split if way == "data" or plan.pipeline_parallel > 1],
        "micro_batch": _tried(space, "micro_batch", _powers(MOST_SEQUENCES)),
        "expert_parallel": _tried(space, "expert_parallel", [plan.expert_parallel]),
        "virtual_stages": _tried(space, "virtual_stages", [plan.virtual_stages]),
        "schedule": _tried(space, "schedule", [None]),
        "offload": _tried(space, "offload", [plan.offload]),
        "attention": _tried(space, "attention", [plan.attention]),
        "compile": _tried(space, "compile", [plan.compile]),
    }
    if plan.pipeline_parallel == 1:
        tried["schedule"] = tried["schedule"][:1]
    for values in product(*tried.values()):
        chosen = dict(zip(tried, values, strict=True))
        usual = "interleaved" if chosen["virtual_stages"] > 1 else "1f1b"
        yield chosen | {"schedule": chosen["schedule"] or usual}


def _tried(space: Space[Scenario], name: str, usual: Sequence[Any]) -> Sequence[Any]:
    """The values of a field that are tried: those that are allowed, the plan's own where it is fixed, or the usual."""
    values = space.values[name] if name in space.values else (getattr(space.scenario.plan, name),)
    return usual if values is None or values == (None,) else values


def _powers(most: int) -> list[int]:
    """Powers of two up to a number."""
    return [2**power for power in range(max(most, 1).bit_length())]


ROOMY = 0.75
"""Share of the fullest device's memory up to which another layer would fit as well."""
NEAR = 1.4
"""How many times the best objective a layout's may be, with its first saving that fits, for others to be tried."""


class Listed(heterogeneous_search.Listed[Found]):
    """The training plans of the list that were predicted so far."""

    unshared = "global_batch"

    def __init__(self, request: Request, space: Space[Scenario]) -> None:
        super().__init__()
        self.request, self.space = request, space
        self.max_bytes = inf if request.max_memory is None else request.max_memory
        self._rules = LAUNCHABLE if space.launchable else POSSIBLE

    def broken(self, scenario: Scenario) -> set[str]:
        """Return the rules that a plan breaks."""
        return {one.rule for one in broken_by(scenario, self._rules)}

    def measured(self, profile: Profile) -> Found:
        """Return a plan with what is to be small of it, on the devices that it uses."""
        return measured(profile, self.space, self.request)

    def exceeded(self, plan: Found) -> str | None:
        """Return the first limit of the run that a plan exceeds."""
        limits = exceeded(self.request.limits, plan.measure, plan.measure.of_profile(plan.predicted()))
        return next((name for name, over in limits.items() if np.any(over)), None)


def plan_heterogeneous(
    spaces: Sequence[Space[Scenario]], request: Request, alone: Sequence[PlanAnswer], progress: Progress
) -> tuple[PlanAnswer, Listed]:
    """Return the best plans on several kinds of devices, of which they may use some only, and the plans of the list.

    ``alone`` are answers of the search of their parts of one kind.
    """
    listed = Listed(request, spaces[0])
    for space in spaces:
        listed.space = space
        _search(space, listed, progress)
    others = [measured(one.profile, spaces[0], request) for answer in alone for one in answer.plans]
    plans = ranked([*others, *listed.plans], request)
    remarks = [said for space in spaces for said in space.scenario.warnings]
    if "equal_nodes" in listed.rejected:
        remarks.append("no framework launches training on heterogeneous devices; --all compares such plans too")
    else:
        remarks += _remarks(plans, spaces[0].scenario.cluster)
        remarks += [said for space in spaces for said in said_of_unlisted(not_listed(space))]
    devices = {part.device.name: part.device for space in spaces for part in space.scenario.cluster.parts}
    answer = listed.answer_beside(
        alone,
        objective=request.objective,
        plans=plans,
        pareto_axes=request.pareto,
        free=(*_searched(spaces), *(name for one in alone for name in one.free)),
        assumptions=price_assumptions(devices),
        warnings=remarks,
    )
    return answer, listed


def measured(profile: Any, space: Space[Scenario], request: Request) -> Found:
    """Return a plan with what is to be small of it, on the devices that it uses."""
    own = replace(space.scenario, cluster=profile.scenario.cluster)
    measure = Measure(space=replace(space, scenario=own, clusters=()), availability=request.availability)
    keys = tuple(float(measure(axis, measure.of_profile(profile))) for axis in request.axes)
    return Found(keys, profile.scenario, measure, profile)


def _search(space: Space[Scenario], found: Listed, progress: Progress) -> None:
    """Predict every layout of the list with the first saving that fits, and those near the best with all others."""
    try:
        fitting = [_fitting(space, layout, found) for layout in progress.each(list(layouts(space)), "predicting")]
        near = [one for one in fitting if one is not None and _is_near(one.plan, found)]
        for one in progress.each(near, "predicting"):
            for way in one.left:
                progress.check()
                if _may_be_better(way, one.plan, found.request):
                    found.add(_with(one.layout, way))
    except Cancelled:
        found.stopped = True


class _Fitting(NamedTuple):
    """A layout that fits."""

    layout: Scenario
    plan: Found
    """It with the first saving of memory that fits."""
    left: Sequence[Mapping[str, Any]]
    """Savings that were not tried."""


def _fitting(space: Space[Scenario], layout: Scenario, found: Listed) -> _Fitting | None:
    """A layout with the first saving that fits; None where not even the one that saves most does."""
    ways = deque(savings(space, layout))
    if "memory" in found.request.axes:
        ways.reverse()
    other: Found | str = INVALID
    while ways:
        plan = found.add(_with(layout, ways.popleft()))
        if isinstance(plan, Found):
            return _Fitting(layout, plan, ways)
        while plan == UNFIT and other == INVALID and ways:
            other = found.add(_with(layout, ways.pop()))
        if other == UNFIT:
            return None
    return _Fitting(layout, other, ()) if isinstance(other, Found) else None


def _with(layout: Scenario, way: Mapping[str, Any]) -> Scenario:
    return replace(layout, plan=replace(layout.plan, **way))


def _may_be_better(way: Mapping[str, Any], than: Found, request: Request) -> bool:
    """Whether another saving may be better than one that fits.

    More recomputation never takes less time, unless memory is what decides how many layers a stage holds.
    """
    if {"memory", "energy"} & set(request.axes):
        return True
    profile = than.predicted()
    full = float(profile.memory_bytes["total"]) > ROOMY * float(profile.usable_bytes)
    more = recomputation(way["recompute"]) > recomputation(than.scenario.plan.recompute)
    return not more or (than.scenario.plan.split == "pipeline" and full)


def _is_near(plan: Found, found: Listed) -> bool:
    """Whether a layout may be the best with another saving; on a front any may be."""
    best = min(found.plans or found.beyond, key=lambda one: one.keys)
    return bool(found.request.pareto) or _small(plan, found.request) <= NEAR * _small(best, found.request)


def _small(plan: Found, request: Request) -> float:
    """The objective as a positive figure: plans of one batch are told apart by their time."""
    if request.objective != "batch":
        return plan.keys[0]
    return float(plan.measure("time", plan.measure.of_profile(plan.predicted())))


def _searched(spaces: Sequence[Space[Scenario]]) -> Iterator[str]:
    """What plans on several kinds of devices differ in."""
    for space in spaces:
        yield from space.options
        yield from (name for name in space.free if name in LISTED or space.values[name] is not None)
        yield from () if space.scenario.plan.split else ("split",)


def _remarks(plans: Sequence[RankedPlan], cluster: Cluster) -> Iterator[str]:
    """A sentence where the best plan leaves devices out, and how the best one splits its work."""
    yield from left_out(plans, cluster)
    if plans:
        yield from (said for said in plans[0].profile.warnings if said not in plans[0].profile.scenario.warnings)


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
    """What a search on heterogeneous devices looked at."""

    request: Request
    spaces: Sequence[Space[Scenario]]
    """Those whose clusters have several kinds of devices."""
    parts: Sequence[Space[Scenario]]
    """Those on one kind of device."""
    alone: Sequence[PlanAnswer]
    """The answer of each part."""
    listed: Listed
    """The plans on several kinds."""


def with_rationale(answer: PlanAnswer, searched: Searched, *, predict: Predict, command: str) -> PlanAnswer:
    """Return the answer of a search on heterogeneous devices with its rationale, or with what would fit instead.

    Args:
        answer: The answer.
        searched: What was searched.
        predict: What predicts a plan.
        command: What was typed to ask, to which changes are added.
    """
    spaces = [*searched.parts, *searched.spaces]
    explanation = explained(answer, spaces, searched.request, predict=predict, command=command)
    if not answer.plans:
        nearest = LazySequence(lambda: _nearest(searched, predict, command))
        return explanation if answer.stopped else replace(explanation, nearest=nearest)
    rationale = _Rationale(answer, searched, predict)
    if not rationale.best.scenario.cluster.groups:
        on_others = LazySequence(lambda: by_loss([*rationale.kinds(), *explanation.neighbours]))
        return replace(explanation, neighbours=on_others)
    return replace(
        explanation, neighbours=LazySequence(rationale.neighbours), hardware=LazySequence(rationale.hardware)
    )


class _Rationale:
    """Explains the first plan of an answer."""

    def __init__(self, answer: PlanAnswer, searched: Searched, predict: Predict) -> None:
        self.best, self._searched, self._predict = answer.plans[0].profile, searched, predict
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
        asked = self._searched.spaces[0].scenario.plan
        plan = replace(scenario.plan, stage_layers=asked.stage_layers, group_batches=asked.group_batches)
        return replace(scenario, plan=plan)

    def _clusters(self) -> Iterator[Neighbour]:
        """The best plan of each other part of the cluster, and of each other order of its devices."""
        own = self.best.scenario.cluster.in_words
        alone = [one.profile for answer in self._searched.alone for one in answer.plans[:1]]
        every = (*(one.predicted() for one in self._searched.listed.plans), *alone)
        by_words = grouped((profile.scenario.cluster.in_words, profile) for profile in every)
        for words, profiles in by_words.items():
            if words != own:
                other = self._best_beside(cluster_settings(profiles[0].scenario.cluster), profiles)
                # Replicas do not mind in which order their devices are listed.
                if other.loss is None or abs(other.loss) > ALIKE:
                    yield other
        yield from without_plans((part for part in self._searched.parts if not part.options), by_words)

    def _splits(self) -> Iterator[Neighbour]:
        """The best plan on the same devices that splits the work the other way."""
        own = self.best.scenario
        if not own.cluster.groups:
            return
        others = [
            one.predicted()
            for one in self._searched.listed.plans
            if one.scenario.cluster.in_words == own.cluster.in_words and one.scenario.plan.split != own.plan.split
        ]
        if others:
            yield self._best_beside({"plan.split": others[0].scenario.plan.split}, others)

    def _best_beside(self, stated: dict[str, Any], others: Sequence[Profile]) -> Neighbour:
        return best_beside(self.best, others, stated, self._value, self._because)

    def _value(self, profile: Profile) -> float:
        """The objective of a plan on the devices that it uses."""
        plan = measured(
            profile, self._searched.spaces[0], replace(self._searched.request, objective=self._objective, pareto=None)
        )
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


def _nearest(searched: Searched, predict: Predict, command: str) -> list[NearestPlan]:
    """What fits instead: looser limits, other plans on all kinds of devices, and on each kind alone."""

    def nearest(part: Space[Scenario], command: str) -> list[NearestPlan]:
        return nearest_plans(Unmet(space=part, request=searched.request), predict, command)

    return [
        *_with_looser_limits(searched, command),
        *_on_all_kinds(searched, command),
        *nearest_on_each_kind(searched.parts, command, nearest),
    ]


def _with_looser_limits(searched: Searched, command: str) -> Iterator[NearestPlan]:
    """The best of the plans that fit and exceed a limit of the run, with the limits that it meets."""
    for one in ranked(searched.listed.beyond, replace(searched.request, pareto=None, top=1)):
        set_, beyond = looser(searched.request.limits, one.figures)
        typed = " ".join((command, *(f"--{name} {value}" for name, value in set_.items())))
        sentence = "; ".join((needs_and_step(one.profile), *beyond))
        yield NearestPlan(set=set_, sentence=sentence, plan=one, command=typed)


def _on_all_kinds(searched: Searched, command: str) -> Iterator[NearestPlan]:
    """The fastest plan on several kinds of devices with every field of the plan free, of those that save memory."""
    for space in searched.spaces if not searched.listed.beyond else ():
        values: dict[str, Any] = {**dict.fromkeys(TRAINING_FIELDS), **SHORT}
        request = replace(searched.request, objective="time", pareto=None, top=SPARE)
        found = plan_heterogeneous([replace(space, values=values)], request, [], SILENT)[0].plans
        for one in found[:1]:
            changed = dict(changes_from(space, one.profile.scenario))
            devices = cluster_settings(one.profile.scenario.cluster)
            typed = with_settings(command, {**devices, **changed})
            said = needs_and_step(one.profile)
            yield without_names(NearestPlan(set={**devices, **changed}, sentence=said, plan=one, command=typed))
