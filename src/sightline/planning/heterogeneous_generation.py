"""A search of serving plans on heterogeneous devices: plans on several kinds are a list, predicted one by one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf
from typing import Any

import numpy as np

from sightline import catalog
from sightline.content import grouped
from sightline.launching.engines.rules import STATED, refusals
from sightline.launching.registry import obstacles
from sightline.planning import heterogeneous_search
from sightline.planning.clusters import cluster_settings
from sightline.planning.generation.candidates import values_of
from sightline.planning.generation.evaluation import COUNTED_AS, DOUBLED
from sightline.planning.generation.generation_search import ANSWERED, assumptions, free_fields, needed_limits, rent_of
from sightline.planning.generation.generation_search import search as search_equal
from sightline.planning.generation.space import GenerationSpace, engines, plan_of, restricted, runs, values_in, variants
from sightline.planning.generation_objectives import ascending, figure, figure_key, missed_by, within
from sightline.planning.heterogeneous_search import (
    all_run,
    best_beside,
    left_out,
    nearest_on_each_kind,
    predicted,
    said_of_unlisted,
    spaces_of_one_kind,
    without_plans,
)
from sightline.planning.plan_answer import LazySequence, NearestPlan, Neighbour, PlanAnswer, RankedPlan, by_loss
from sightline.planning.ranking import front_of, spread_over
from sightline.planning.rationale.generation_rationale import (
    compared,
    explained_generation,
    kinds_of,
    nearest_of,
    small,
)
from sightline.profile import Profile
from sightline.progress import Cancelled, Progress
from sightline.scenario import Cluster, Disaggregation, GenerationPlan, GenerationScenario
from sightline.scenario.generation import DEGREES
from sightline.scenario.rules import verdict

MOST_RANKS = 8
"""Largest tensor degree that is tried."""
PREFILL_BATCHES = (1, 4)
"""Prompts that a prefill worker takes at once."""
TWO_KINDS = 2
LISTED = frozenset(
    (
        *("framework", "disaggregate", "tensor_parallel", "replicas"),
        *("prefill.tensor_parallel", "prefill.replicas", "prefill.batch"),
        *("decode.tensor_parallel", "decode.replicas"),
    )
)
"""Free fields that plans on several kinds of devices try; of all others, values that are allowed."""


def is_listed(space: GenerationSpace, name: str) -> bool:
    """Return whether the list has several values of a field, or may have."""
    return name in LISTED or bool(space.values.get(name))


def not_listed(space: GenerationSpace) -> tuple[str, ...]:
    """Return the free fields that have one value in all plans of the list."""
    return tuple(name for name in free_fields([space]) if not is_listed(space, name))


def may_be(space: GenerationSpace, pool: str, group: Cluster) -> bool:
    """Return whether workers of a pool may run on a group, whose devices the scenario may name."""
    named = space.values.get(f"{pool}.device")
    return named is None or group.device.name in [catalog.name_of("devices", name) for name in named]


def of_groups(space: GenerationSpace) -> list[GenerationSpace]:
    """Return the space on each group of devices."""
    return [replace(space, scenario=replace(space.scenario, cluster=group)) for group in space.scenario.cluster.groups]


def layouts(space: GenerationSpace) -> Iterator[GenerationScenario]:
    """Yield every layout of the list."""
    for engine in engines(space):
        if not all(runs(engine, kind) for kind in of_groups(space)) and "framework" in space.values:
            continue
        own = plan_of(space, engine)
        choices = product(
            restricted(space, "batch") or (space.scenario.workload.batch,),
            values_in(space, "quantization", (None,)),
            values_in(space, "max_batched_tokens", (own.max_batched_tokens,)),
            values_in(space, "chunked_prefill", (own.chunked_prefill,)),
            values_in(space, "disaggregate", (None, "apart")),
        )
        for batch, words, budget, chunked, apart in choices:
            cut: dict[str, Any] = {"max_batched_tokens": budget, "chunked_prefill": bool(chunked)}
            plan = replace(own, quantization=words, disaggregate=None, **cut)
            work = replace(space.scenario.workload, batch=batch)
            scenario = replace(space.scenario, plan=plan, workload=work)
            yield from _pools(space, scenario) if apart else _replicas(space, scenario)


def _replicas(space: GenerationSpace, scenario: GenerationScenario) -> Iterator[GenerationScenario]:
    """Replicas of each shape on the whole cluster."""
    cluster = scenario.cluster
    largest = gcd(*(part.devices for part in cluster.parts))
    for plan in _shapes(space, scenario, "", largest, cluster.devices):
        yield replace(scenario, plan=plan)


def _pools(space: GenerationSpace, scenario: GenerationScenario) -> Iterator[GenerationScenario]:
    """Prefill on either of two kinds and decode on the other."""
    groups = scenario.cluster.groups
    if len(groups) != TWO_KINDS:
        return
    batches = values_of(space, scenario, "prefill.batch", PREFILL_BATCHES)
    for prefill, decode in (groups, groups[::-1]):
        if not (may_be(space, "prefill", prefill) and may_be(space, "decode", decode)):
            continue
        first_pool = _shapes(space, scenario, "prefill.", prefill.devices, prefill.devices)
        further_pool = _shapes(space, scenario, "decode.", decode.devices, decode.devices)
        for first, further, batch in product(first_pool, further_pool, batches):
            split = Disaggregation(prefill=first, prefill_batch=batch, prefill_device=prefill.device.name)
            yield replace(scenario, plan=replace(further, disaggregate=split))


def _shapes(
    space: GenerationSpace, scenario: GenerationScenario, pool: str, largest: int, devices: int
) -> Iterator[GenerationPlan]:
    """Workers of each shape that fill so many devices; tensor degrees are powers of two up to ``largest``."""
    usual: dict[str, Sequence[int]] = dict.fromkeys(DEGREES, (1,))
    usual["tensor_parallel"] = [2**power for power in range(min(largest, MOST_RANKS).bit_length())]
    tried = [values_of(space, scenario, pool + name, usual[name]) for name in DEGREES]
    for degrees in product(*tried):
        shape: dict[str, Any] = dict(zip(DEGREES, map(int, degrees), strict=True))
        taken = shape["tensor_parallel"] * shape["pipeline_parallel"] * shape["data_parallel"]
        for replicas in values_of(space, scenario, f"{pool}replicas", (max(devices // taken, 1),)):
            yield replace(scenario.plan, **shape, replicas=int(replicas))


class Listed(heterogeneous_search.Listed[Profile]):
    """The serving plans of the list that were predicted so far."""

    unshared = "group_batches"

    def __init__(self, limits: Mapping[str, float], space: GenerationSpace) -> None:
        super().__init__()
        self.limits, self.space = limits, space

    def broken(self, scenario: GenerationScenario) -> Collection[str]:
        """Return the rules that a plan breaks."""
        launch = refusals(scenario, STATED) if self.space.launchable else ()
        return {*verdict(scenario).rejected, *(one.rule for one in launch)}

    def measured(self, profile: Profile) -> Profile:
        """Return the prediction, whose figures are read from it."""
        return profile

    def exceeded(self, plan: Profile) -> str | None:
        """Return what a plan is counted as that misses a limit, by the first that it misses."""
        missed = next((key for key, limit in self.limits.items() if not _within(plan, key, limit)), None)
        return None if missed is None else COUNTED_AS.get(missed, missed)

    @property
    def nearest(self) -> Profile | None:
        """Of the plans that fit, the one whose worst limit is missed by the smallest factor."""

        def miss(plan: Profile) -> float:
            missed = [(key, limit) for key, limit in self.limits.items() if not _within(plan, key, limit)]
            return max(float(missed_by(key, figure(key, plan, 1), limit)[0]) for key, limit in missed)

        misses = [(miss(plan), plan) for plan in self.beyond]
        return min((one for one in misses if one[0] < inf), key=lambda one: one[0], default=(inf, None))[1]


def _within(profile: Profile, key: str, limit: float) -> bool:
    return bool(within(key, figure(key, profile, 1), limit)[0])


def parts_of(space: GenerationSpace) -> list[GenerationSpace]:
    """Return the space on each kind of device that can serve the whole question, without the names of devices in it."""
    stated = space.scenario.plan.disaggregate
    if stated is not None and stated.prefill_device is not None:
        return []
    values = {name: allowed for name, allowed in space.values.items() if not name.endswith(".device")}
    return [
        replace(one, values=values)
        for one in spaces_of_one_kind(space)
        if all(may_be(space, pool, one.scenario.cluster) for pool in ("prefill", "decode"))
        and any(True for _ in variants(one))
    ]


def plan_heterogeneous(
    space: GenerationSpace,
    parts: Sequence[GenerationSpace],
    *,
    objective: str,
    limits: Mapping[str, float],
    top: int,
    pareto: tuple[str, str] | None,
    progress: Progress,
) -> tuple[PlanAnswer, Listed]:
    """Return the best plans to serve a model on several kinds of devices, or on some of them, and the list.

    ``parts`` are its parts of one kind, which are searched as any other cluster.
    """
    key, axes = figure_key(objective), tuple(map(figure_key, pareto or ()))
    alone = [search_equal(parts, objective, limits, top=top, pareto=pareto, progress=progress)] if parts else []
    listed = _searched(space, key, limits, progress)
    others = [plan for one in alone for plan in one.plans]
    mixed = [listed_plan(profile, axes[0] if axes else key) for profile in listed.plans]
    plans = _front([*others, *mixed], axes, top) if axes else _in_order(others, mixed, key)[:top]
    answer = listed.answer_beside(
        alone,
        objective=ANSWERED.get(objective, objective),
        plans=[replace(one, rank=rank) for rank, one in enumerate(plans, start=1)],
        pareto_axes=pareto,
        free=(*(name for one in alone for name in one.free), *_free(space)),
        assumptions=assumptions([*parts, *of_groups(space)]),
        warnings=(*(said for one in alone for said in one.warnings), *_remarks(space, plans)),
    )
    return answer, listed


def _searched(space: GenerationSpace, key: str, limits: Mapping[str, float], progress: Progress) -> Listed:
    """Every layout of the list predicted, with its most users where these are looked for."""
    listed, most = Listed(limits, space), key == "batch" and restricted(space, "batch") is None
    try:
        for scenario in progress.each(list(layouts(space)), "predicting"):
            listed.add(_with_most_users(scenario, limits) if most else scenario)
    except Cancelled:
        listed.stopped = True
    return listed


def _with_most_users(scenario: GenerationScenario, limits: Mapping[str, float]) -> GenerationScenario:
    """A layout with the largest batch that it serves within the limits, found by halves; with one of 1 for none."""

    def of(batch: int) -> GenerationScenario:
        return replace(scenario, workload=replace(scenario.workload, batch=batch))

    def serves(batch: int) -> bool:
        profile = predicted(of(batch)) if bool(verdict(of(batch)).valid) else None
        return profile is not None and all_run(profile) and all(_within(profile, *one) for one in limits.items())

    # Fewer sequences than replicas leave some without.
    low = next((batch for batch in map(int, DOUBLED) if serves(batch)), 0)
    high = next((batch for batch in map(int, DOUBLED) if batch > low and not serves(batch)), 2 * low)
    low = max(low, high // 2 if low else 0)
    while high - low > 1 and low:
        middle = (low + high) // 2
        low, high = (middle, high) if serves(middle) else (low, middle)
    return of(max(low, 1))


def _free(space: GenerationSpace) -> list[str]:
    """Fields that the list searches."""
    return [name for name in free_fields([space]) if is_listed(space, name)]


def _remarks(space: GenerationSpace, plans: Sequence[RankedPlan]) -> Iterator[str]:
    """Sentences: what the list leaves out, and what is said of the best plan, or of the question without one."""
    yield from said_of_unlisted(not_listed(space))
    yield from left_out(plans, space.scenario.cluster)
    mixed = plans and plans[0].profile.scenario.cluster.groups
    yield from plans[0].profile.warnings if mixed else space.scenario.warnings


def _in_order(alone: Sequence[RankedPlan], listed: Sequence[RankedPlan], key: str) -> list[RankedPlan]:
    """Plans on one kind of device and on several, the best first.

    The first plan on one kind, of equally good ones the simplest, stays before the others where no mixture is better
    than all of them. Otherwise what was said of the others next to it no longer holds.
    """
    best = sorted([*alone, *listed], key=lambda one: _small(key, one.value))
    if best and best[0] in alone:
        return [alone[0], *(one for one in best if one is not alone[0])]
    return [replace(one, tied=False, better=None) for one in best]


def _small(key: str, value: float) -> float:
    """A figure signed so that less is better."""
    return float(ascending(key, np.array([value]))[0])


def _front(plans: Sequence[RankedPlan], axes: Sequence[str], top: int) -> list[RankedPlan]:
    """The Pareto-optimal plans of both figures, by the first of them, so many at most."""
    points = np.array([[_small(key, float(figure(key, one.profile, 1)[0])) for one in plans] for key in axes])
    best = front_of(points.reshape(2, -1))
    return [plans[best[i]] for i in spread_over([(x, y) for x, y in points.reshape(2, -1)[:, best].T.tolist()], top)]


def listed_plan(profile: Profile, key: str) -> RankedPlan:
    """Return a plan of the list, not yet in its place."""
    rent = rent_of(profile.scenario, profile.cost_usd_per_million_tokens)
    users = {"most_users": profile.scenario.workload.batch} if key == "batch" else {}
    value, figures = float(figure(key, profile, 1)[0]), {**rent, **users}
    return RankedPlan(rank=0, profile=profile, value=value, obstacles=obstacles(profile.scenario), figures=figures)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """What a search on heterogeneous devices looked at."""

    objective: str
    limits: Mapping[str, float]
    parts: Sequence[GenerationSpace]
    """The space on each kind of device."""
    listed: Listed
    """The plans on several kinds."""


def with_rationale(answer: PlanAnswer, searched: Searched, command: str) -> PlanAnswer:
    """Return the answer of a search on heterogeneous devices with its rationale, or with what would serve instead.

    Args:
        answer: The answer.
        searched: What was searched.
        command: What was typed to ask, to which changes are added.
    """
    if not answer.plans:
        nearest = LazySequence(lambda: list(_nearest(searched, command)))
        return answer if answer.stopped else replace(answer, nearest=nearest)
    best, key = answer.plans[0].profile, figure_key(answer.objective)
    if best.scenario.cluster.groups:
        return replace(answer, neighbours=LazySequence(lambda: _other_uses(best, key, searched)))
    explained = explained_generation(answer, searched.parts, limits=searched.limits, command=command)

    def neighbours() -> list[Neighbour]:
        return by_loss([*_other_uses(best, key, searched), *explained.neighbours])

    return replace(explained, neighbours=LazySequence(neighbours))


def _other_uses(best: Profile, key: str, searched: Searched) -> list[Neighbour]:
    """The best plan of each other choice of devices, and of each other use of several kinds."""
    alone = (search_equal([part], searched.objective, searched.limits, top=1).plans for part in searched.parts)
    every = (*searched.listed.plans, *(one.profile for plans in alone for one in plans))
    by_use = grouped((str(_use(profile)), profile) for profile in every)

    def value(profile: Profile) -> float:
        return float(small(key, profile) or 0.0)

    def because(own: Profile, other: Profile) -> str:
        return compared(own, other, searched.limits)

    others = [one for use, one in by_use.items() if use != str(_use(best))]
    having = {one.scenario.cluster.in_words for profiles in by_use.values() for one in profiles}
    beside = (best_beside(best, profiles, _use(profiles[0]), value, because) for profiles in others)
    return by_loss([*beside, *without_plans(searched.parts, having)])


def _use(profile: Profile) -> dict[str, Any]:
    """The devices that a plan runs on, or which of several kinds prefills."""
    cluster, split = profile.scenario.cluster, profile.scenario.plan.disaggregate
    if split is None or not cluster.groups:
        return cluster_settings(cluster)
    return {"plan.disaggregate.prefill.device": split.prefill_device}


def _nearest(searched: Searched, command: str) -> Iterator[NearestPlan]:
    """The plan on several kinds that misses the limits by least, and what each kind alone needs."""
    objective, limits, missing = searched.objective, searched.limits, searched.listed.nearest
    if missing is not None:
        yield needed_limits(limits, listed_plan(missing, figure_key(objective)))

    def nearest(part: GenerationSpace, command: str) -> list[NearestPlan]:
        missed = list(search_equal([part], objective, limits, top=1).nearest)
        return missed or list(nearest_of(kinds_of(part), objective, limits, command))

    yield from nearest_on_each_kind(searched.parts, command, nearest)
