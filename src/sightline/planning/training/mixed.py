"""A search of training plans on unlike devices: plans on several kinds are a list, laid out and predicted one by one.

For every order of the kinds of devices, and for parts with several kinds, degrees that both ways of splitting allow are
combined with micro-batches. Of techniques that save memory - ZeRO, recomputation - each layout is predicted with the
first that fits, and layouts that come near the best one with all others. The prediction chooses how layers or the batch
are split over devices. Parts of one kind are searched as any other cluster, and join the answer.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.kinds import left_out, said_of_unlisted
from sightline.planning.prices import price_assumptions
from sightline.planning.training.answers import Found, ranked
from sightline.planning.training.layouts import LISTED, layouts, not_listed, recomputation, savings
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.one_space import Request
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE
from sightline.prediction import predict
from sightline.progress import Cancelled, Progress
from sightline.scenario import Cluster, Scenario
from sightline.scenario.rules import broken_by
from sightline.scenario.space import Space

INVALID, UNFIT = "invalid", "unfit"
"""Why a plan of the list has no place in the answer: a rule, or memory."""
ROOMY = 0.75
"""Share of the fullest device's memory up to which another layer would fit as well."""
NEAR = 1.4
"""How many times the best objective a layout's may be, with its first saving that fits, for others to be tried."""


@dataclass(slots=True, kw_only=True, eq=False)
class Listed:
    """What was predicted of the list so far."""

    request: Request
    plans: list[Found] = field(default_factory=list)
    """Those that fit and meet all limits."""
    beyond: list[Found] = field(default_factory=list)
    """Those that fit and exceed a limit of the run."""
    rejected: Counter[str] = field(default_factory=Counter)
    evaluated: int = 0
    stopped: bool = False

    def add(self, space: Space[Scenario], scenario: Scenario) -> Found | str:
        """Predict a plan; return it if it fits, else why it does not count."""
        rules = LAUNCHABLE if self.request.launchable else POSSIBLE
        broken = {one.rule for one in broken_by(scenario, rules)}
        if broken:
            self.rejected.update(broken)
            return INVALID
        try:
            profile = predict(scenario)
        except InputError as error:
            if not str(error).startswith("workload.global_batch"):
                raise
            self.rejected["global_batch"] += 1
            return INVALID
        self.evaluated += 1
        most = inf if self.request.max_memory is None else self.request.max_memory
        if not profile.fits or float(profile.memory_bytes["total"]) > most:
            self.rejected["memory"] += 1
            return UNFIT
        found = measured(profile, space, self.request)
        limit = _exceeded(found, self.request)
        self.rejected.update([limit] if limit else [])
        (self.beyond if limit else self.plans).append(found)
        return found


def plan_mixed(
    spaces: Sequence[Space[Scenario]], request: Request, alone: Sequence[PlanAnswer], progress: Progress
) -> tuple[PlanAnswer, Listed]:
    """Return the best plans of spaces on unlike devices, of which they may use some only, and the plans of the list.

    ``alone`` are answers of the search of their parts of one kind.
    """
    found = Listed(request=request)
    for space in spaces:
        _search(space, found, progress)
    others = [measured(one.profile, spaces[0], request) for answer in alone for one in answer.plans]
    plans = ranked([*others, *found.plans], request)
    rejected = sum((Counter(answer.rejected) for answer in alone), found.rejected)
    remarks = (said for space in spaces for said in (*space.scenario.warnings, *said_of_unlisted(not_listed(space))))
    parts = {part.device.name: part.device for space in spaces for part in space.scenario.cluster.parts}
    answer = PlanAnswer(
        objective=request.objective,
        evaluated=found.evaluated + sum(answer.evaluated for answer in alone),
        feasible=len(found.plans) + sum(answer.feasible for answer in alone),
        rejected=dict(rejected),
        seconds=0.0,
        plans=plans,
        pareto_axes=request.pareto,
        pareto=tuple(range(len(plans))) if request.pareto else (),
        free=tuple(dict.fromkeys(("cluster", *_searched(spaces), *(name for answer in alone for name in answer.free)))),
        assumptions=price_assumptions(parts),
        warnings=tuple(dict.fromkeys((*_remarks(plans, spaces[0].scenario.cluster), *remarks))),
        stopped=found.stopped or any(answer.stopped for answer in alone),
    )
    return answer, found


def measured(profile: Any, space: Space[Scenario], request: Request) -> Found:
    """Return a plan with what is to be small of it, on the devices that it uses."""
    own = replace(space.scenario, cluster=profile.scenario.cluster)
    measure = Measure(space=replace(space, scenario=own, clusters=()), availability=request.availability)
    keys = tuple(float(measure(axis, measure.of_profile(profile))) for axis in request.axes)
    return Found(keys, profile.scenario, measure, profile)


def _search(space: Space[Scenario], found: Listed, progress: Progress) -> None:
    """Predict every layout of the list with the first saving that fits, and those near the best with all others."""
    listed = list(layouts(space))
    progress.begin(len(listed), "predicting")
    try:
        fitting = []
        for layout in listed:
            progress.check()
            fitting.append(_fitting(space, layout, found))
            progress.advance()
        near = [one for one in fitting if one is not None and _is_near(one.plan, found)]
        progress.begin(len(near), "predicting")
        for one in near:
            for way in one.left:
                progress.check()
                if _may_be_better(way, one.plan, found.request):
                    found.add(space, _with(one.layout, way))
            progress.advance()
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
        plan = found.add(space, _with(layout, ways.popleft()))
        if isinstance(plan, Found):
            return _Fitting(layout, plan, ways)
        while plan == UNFIT and other == INVALID and ways:
            other = found.add(space, _with(layout, ways.pop()))
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


def _exceeded(plan: Found, request: Request) -> str | None:
    """The first limit of the run that a plan exceeds."""
    figures = plan.measure.of_profile(plan.predicted())
    limits = exceeded(request.limits, plan.measure, figures)
    return next((name for name, over in limits.items() if np.any(over)), None)


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
