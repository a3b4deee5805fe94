"""A search of serving plans on unlike devices: plans on several kinds are a list, laid out and predicted one by one.

Replicas on all kinds of devices, and, of two kinds, prefill on either one and decode on the other. Every engine that
runs on all of them is tried, with weights as the checkpoint has them unless the plan says otherwise. Each kind alone is
searched as any other cluster, and joins the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from sightline import catalog
from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.fronts import front_of
from sightline.planning.generation.answers import assumptions, free_fields
from sightline.planning.generation.objectives import ascending, figure, figure_key, within
from sightline.planning.generation.search import ANSWERED, search
from sightline.planning.generation.space import GenerationSpace, engines, plan_of, runs, values_in, variants
from sightline.planning.kinds import left_out, spaces_of_one_kind
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Cancelled, Progress
from sightline.scenario import Cluster, Disaggregation, GenerationPlan, GenerationScenario
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
"""Fields of which plans on several kinds of devices try all values that are allowed."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Predicted:
    """What was predicted so far of the list."""

    profiles: list[Profile] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    evaluated: int = 0
    stopped: bool = False


def plan_mixed_serving(
    space: GenerationSpace,
    *,
    objective: str,
    limits: Mapping[str, float],
    top: int,
    pareto: tuple[str, str] | None,
    progress: Progress,
) -> PlanAnswer:
    """Return the best plans to serve a model on a cluster of unlike devices, or on one kind of them."""
    key, axes = figure_key(objective), tuple(map(figure_key, pareto or ()))
    parts = _spaces_of_one_kind(space)
    alone = search(parts, objective, limits, top=top, pareto=pareto, progress=progress) if parts else None
    found = _searched(space, limits, progress)
    others = [] if alone is None else list(alone.plans)
    listed = [_ranked(profile, axes[0] if axes else key) for profile in found.profiles]
    plans = _front([*others, *listed], axes) if axes else _in_order(others, listed, key)[:top]
    counted = Counter(alone.rejected) if alone else Counter[str]()
    return PlanAnswer(
        objective=ANSWERED.get(objective, objective),
        evaluated=found.evaluated + (alone.evaluated if alone else 0),
        feasible=len(found.profiles) + (alone.feasible if alone else 0),
        rejected=dict(counted + found.rejected),
        seconds=0.0,
        plans=[replace(one, rank=rank) for rank, one in enumerate(plans, start=1)],
        pareto_axes=pareto,
        pareto=tuple(range(len(plans))) if axes else (),
        free=_free(space, alone),
        assumptions=assumptions([*parts, *_of_groups(space)]),
        warnings=tuple(dict.fromkeys((*(alone.warnings if alone else ()), *_remarks(space, alone, plans)))),
        stopped=found.stopped or bool(alone and alone.stopped),
    )


def _searched(space: GenerationSpace, limits: Mapping[str, float], progress: Progress) -> _Predicted:
    """Every layout of the list predicted."""
    found = _Predicted()
    layouts = list(_layouts(space))
    progress.begin(len(layouts), "predicting")
    try:
        for scenario in layouts:
            progress.check()
            profile = _predicted(scenario, found.rejected)
            found.evaluated += profile is not None
            if profile is not None and _meets(profile, limits, found.rejected):
                found.profiles.append(profile)
            progress.advance()
    except Cancelled:
        found.stopped = True
    return found


def _of_groups(space: GenerationSpace) -> list[GenerationSpace]:
    """The space on each group of devices."""
    return [replace(space, scenario=replace(space.scenario, cluster=group)) for group in space.scenario.cluster.groups]


def _spaces_of_one_kind(space: GenerationSpace) -> list[GenerationSpace]:
    """The space on each kind of device that can serve the whole question, without the names of devices in it."""
    stated = space.scenario.plan.disaggregate
    if stated is not None and stated.prefill_device is not None:
        return []
    values = {name: allowed for name, allowed in space.values.items() if not name.endswith(".device")}
    return [
        replace(one, values=values)
        for one in spaces_of_one_kind(space)
        if all(_may_be(space, pool, one.scenario.cluster) for pool in ("prefill", "decode"))
        and any(True for _ in variants(one))
    ]


def _free(space: GenerationSpace, alone: PlanAnswer | None) -> tuple[str, ...]:
    """Fields that were searched, on one kind of device or on several."""
    listed = [name for name in free_fields([space]) if _is_listed(space, name)]
    return tuple(dict.fromkeys(("cluster", *(alone.free if alone else ()), *listed)))


def _is_listed(space: GenerationSpace, name: str) -> bool:
    """Whether the list has several values of a field, or may have."""
    return name in LISTED or (name == "quantization" and bool(space.values.get(name)))


def _remarks(space: GenerationSpace, alone: PlanAnswer | None, plans: Sequence[RankedPlan]) -> Iterator[str]:
    """Sentences: what the list leaves out, and what is said of the best plan, or of the question without one."""
    searched = dict.fromkeys((*free_fields([space]), *(alone.free if alone else ())))
    others = [name for name in searched if not _is_listed(space, name)]
    if others:
        names = ", ".join("workload.batch" if name == "batch" else f"plan.{name}" for name in others)
        yield f"plans on several kinds of devices come from a short list, in which {names} are not searched"
    yield from left_out(plans, space.scenario.cluster)
    mixed = plans and plans[0].profile.scenario.cluster.groups
    yield from plans[0].profile.warnings if mixed else space.scenario.warnings


def _layouts(space: GenerationSpace) -> Iterator[GenerationScenario]:
    """Yield every layout of the list."""
    for engine in engines(space):
        if not all(runs(engine, kind) for kind in _of_groups(space)) and "framework" in space.values:
            continue
        for words in values_in(space, "quantization", (None,)):
            plan = replace(plan_of(space, engine), quantization=words, disaggregate=None, pipeline_parallel=1)
            scenario = replace(space.scenario, plan=plan)
            for apart in values_in(space, "disaggregate", (None, "apart")):
                yield from _pools(space, scenario) if apart else _replicas(space, scenario)


def _replicas(space: GenerationSpace, scenario: GenerationScenario) -> Iterator[GenerationScenario]:
    """Replicas of each tensor degree on the whole cluster."""
    cluster = scenario.cluster
    for t in _listed(space, "tensor_parallel", gcd(*(part.devices for part in cluster.parts))):
        plan = replace(scenario.plan, tensor_parallel=t, data_parallel=1, expert_parallel=1)
        yield replace(scenario, plan=replace(plan, replicas=max(cluster.devices // t, 1)))


def _pools(space: GenerationSpace, scenario: GenerationScenario) -> Iterator[GenerationScenario]:
    """Prefill on either of two kinds and decode on the other."""
    groups = scenario.cluster.groups
    if len(groups) != TWO_KINDS:
        return
    for prefill, decode in (groups, groups[::-1]):
        if not (_may_be(space, "prefill", prefill) and _may_be(space, "decode", decode)):
            continue
        of_prefill = _listed(space, "prefill.tensor_parallel", prefill.devices)
        of_decode = _listed(space, "decode.tensor_parallel", decode.devices)
        batches = (
            values_in(space, "prefill.batch", PREFILL_BATCHES) if "prefill.batch" in space.values else PREFILL_BATCHES
        )
        for ranks, other_ranks, batch in product(of_prefill, of_decode, batches):
            first, further = _pool(scenario.plan, ranks, prefill), _pool(scenario.plan, other_ranks, decode)
            split = Disaggregation(prefill=first, prefill_batch=batch, prefill_device=prefill.device.name)
            yield replace(scenario, plan=replace(further, disaggregate=split))


def _may_be(space: GenerationSpace, pool: str, group: Cluster) -> bool:
    """Whether workers of a pool may run on a group, whose devices the scenario may name."""
    named = space.values.get(f"{pool}.device")
    return named is None or group.device.name in [catalog.name_of("devices", name) for name in named]


def _pool(plan: GenerationPlan, tensor_parallel: int, group: Cluster) -> GenerationPlan:
    """Workers of one kind that fill a group."""
    replicas = max(group.devices // tensor_parallel, 1)
    return replace(plan, tensor_parallel=tensor_parallel, data_parallel=1, expert_parallel=1, replicas=replicas)


def _listed(space: GenerationSpace, name: str, devices: int) -> Sequence[int]:
    """Tensor degrees that are tried: those that are allowed, or powers of two up to a number of devices."""
    usual = [2**power for power in range(min(devices, MOST_RANKS).bit_length())]
    return values_in(space, name, usual) if name in space.values else usual


def _predicted(scenario: GenerationScenario, rejected: Counter[str]) -> Profile | None:
    """The prediction of a layout that breaks no rule; None for one that does, which is counted."""
    judged = verdict(scenario)
    if not bool(judged.valid):
        rejected.update(judged.rejected.keys())
        return None
    try:
        return predict(scenario)
    except InputError as error:
        if not str(error).startswith("workload.batch"):
            raise
        rejected["group_batches"] += 1
        return None


def _meets(profile: Profile, limits: Mapping[str, float], rejected: Counter[str]) -> bool:
    """Whether a plan fits and is within all limits; what it misses is counted."""
    missed = [key for key, limit in limits.items() if not bool(within(key, figure(key, profile, 1), limit)[0])]
    missed += [] if profile.fits else ["memory"]
    rejected.update(missed)
    return not missed


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


def _front(plans: Sequence[RankedPlan], axes: Sequence[str]) -> list[RankedPlan]:
    """The Pareto-optimal plans of both figures, by the first of them."""
    points = [[_small(key, float(figure(key, one.profile, 1)[0])) for one in plans] for key in axes]
    return [plans[place] for place in front_of(np.array(points).reshape(2, -1))]


def _ranked(profile: Profile, key: str) -> RankedPlan:
    """A plan of the list, not yet in its place."""
    cluster = profile.scenario.cluster
    price: Any = cluster.usd_per_hour
    figures = {
        "usd_per_hour": None if price is None else float(price) * cluster.devices,
        "cost_usd_per_million_tokens": profile.cost_usd_per_million_tokens,
    }
    return RankedPlan(rank=0, profile=profile, value=float(figure(key, profile, 1)[0]), figures=figures)
