"""A search of serving plans on unlike devices: plans on several kinds are a list, laid out and predicted one by one.

Replicas on all kinds of devices, and, of two kinds, prefill on either one and decode on the other. Every engine that
runs on all of them is tried, with weights as the checkpoint has them unless the plan says otherwise. Each kind alone is
searched as any other cluster, and joins the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.fronts import front_of, spread_over
from sightline.planning.generation.answers import assumptions, free_fields, rent_of
from sightline.planning.generation.evaluation import COUNTED_AS
from sightline.planning.generation.mixed_layouts import is_listed, layouts, may_be, not_listed, of_groups
from sightline.planning.generation.objectives import ascending, figure, figure_key, missed_by, within
from sightline.planning.generation.search import ANSWERED, search
from sightline.planning.generation.space import GenerationSpace, restricted, variants
from sightline.planning.generation.users import DOUBLED
from sightline.planning.kinds import left_out, said_of_unlisted, spaces_of_one_kind
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Cancelled, Progress
from sightline.scenario import GenerationScenario
from sightline.scenario.rules import verdict


@dataclass(slots=True, kw_only=True, eq=False)
class Listed:
    """What was predicted so far of the list."""

    limits: Mapping[str, float]
    profiles: list[Profile] = field(default_factory=list)
    """Those that fit and meet all limits."""
    nearest: Profile | None = None
    """Of those that fit, the one that misses the limits by least."""
    miss: float = np.inf
    """The factor by which it misses the worst of them."""
    rejected: Counter[str] = field(default_factory=Counter)
    evaluated: int = 0
    stopped: bool = False

    def add(self, scenario: GenerationScenario) -> None:
        """Predict a layout, and keep it if it fits and meets all limits."""
        judged = verdict(scenario)
        profile = _predicted(scenario) if bool(judged.valid) else None
        if profile is None:
            self.rejected.update(judged.rejected.keys() or ["group_batches"])
            return
        self.evaluated += 1
        missed = [key for key, limit in self.limits.items() if not _within(profile, key, limit)]
        if profile.fits and not missed:
            self.profiles.append(profile)
            return
        self.rejected["memory" if not profile.fits else COUNTED_AS.get(missed[0], missed[0])] += 1
        miss = max((float(missed_by(key, figure(key, profile, 1), self.limits[key])[0]) for key in missed), default=0.0)
        if profile.fits and miss < self.miss:
            self.nearest, self.miss = profile, miss


def _within(profile: Profile, key: str, limit: float) -> bool:
    return bool(within(key, figure(key, profile, 1), limit)[0])


def _predicted(scenario: GenerationScenario) -> Profile | None:
    """The prediction of a layout; None where the batch cannot be shared."""
    try:
        return predict(scenario)
    except InputError as error:
        if not str(error).startswith("workload.batch"):
            raise
        return None


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


def plan_mixed_serving(
    space: GenerationSpace,
    parts: Sequence[GenerationSpace],
    *,
    objective: str,
    limits: Mapping[str, float],
    top: int,
    pareto: tuple[str, str] | None,
    progress: Progress,
) -> tuple[PlanAnswer, Listed]:
    """Return the best plans to serve a model on a cluster of unlike devices, or on some of them, and the list.

    ``parts`` are its parts of one kind, which are searched as any other cluster.
    """
    key, axes = figure_key(objective), tuple(map(figure_key, pareto or ()))
    alone = search(parts, objective, limits, top=top, pareto=pareto, progress=progress) if parts else None
    found = _searched(space, key, limits, progress)
    others = [] if alone is None else list(alone.plans)
    listed = [listed_plan(profile, axes[0] if axes else key) for profile in found.profiles]
    plans = _front([*others, *listed], axes, top) if axes else _in_order(others, listed, key)[:top]
    answer = PlanAnswer(
        objective=ANSWERED.get(objective, objective),
        evaluated=found.evaluated + (alone.evaluated if alone else 0),
        feasible=len(found.profiles) + (alone.feasible if alone else 0),
        rejected=dict(found.rejected + Counter(alone.rejected if alone else {})),
        seconds=0.0,
        plans=[replace(one, rank=rank) for rank, one in enumerate(plans, start=1)],
        pareto_axes=pareto,
        pareto=tuple(range(len(plans))) if axes else (),
        free=tuple(dict.fromkeys(("cluster", *(alone.free if alone else ()), *_free(space)))),
        assumptions=assumptions([*parts, *of_groups(space)]),
        warnings=tuple(dict.fromkeys((*(alone.warnings if alone else ()), *_remarks(space, plans)))),
        stopped=found.stopped or bool(alone and alone.stopped),
    )
    return answer, found


def _searched(space: GenerationSpace, key: str, limits: Mapping[str, float], progress: Progress) -> Listed:
    """Every layout of the list predicted, with its most users where these are looked for."""
    found = Listed(limits=limits)
    listed = list(layouts(space))
    progress.begin(len(listed), "predicting")
    try:
        for scenario in listed:
            progress.check()
            most = key == "batch" and restricted(space, "batch") is None
            found.add(_with_most_users(scenario, limits) if most else scenario)
            progress.advance()
    except Cancelled:
        found.stopped = True
    return found


def _with_most_users(scenario: GenerationScenario, limits: Mapping[str, float]) -> GenerationScenario:
    """A layout with the largest batch that it serves within the limits, found by halves; with one of 1 for none."""

    def of(batch: int) -> GenerationScenario:
        return replace(scenario, workload=replace(scenario.workload, batch=batch))

    def serves(batch: int) -> bool:
        profile = _predicted(of(batch)) if bool(verdict(of(batch)).valid) else None
        return profile is not None and bool(profile.fits) and all(_within(profile, *one) for one in limits.items())

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
    return RankedPlan(rank=0, profile=profile, value=float(figure(key, profile, 1)[0]), figures={**rent, **users})
