"""A search of serving plans on unlike devices: a modest list, each plan laid out and predicted one by one.

Replicas on all kinds of devices, on each kind alone, and, of two kinds, prefill on either one and decode on the other.
Every engine that runs on all of them is tried, with weights as the checkpoint has them unless the plan says otherwise.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from sightline import catalog
from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.generation.answers import free_fields
from sightline.planning.generation.objectives import ascending, figure, figure_key, within
from sightline.planning.generation.space import GenerationSpace, engines, plan_of, runs, values_in
from sightline.planning.prices import said_of_price
from sightline.planning.training.best import front_of
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


def plan_mixed_serving(
    space: GenerationSpace,
    *,
    objective: str,
    limits: Mapping[str, float],
    top: int,
    pareto: tuple[str, str] | None,
    progress: Progress,
) -> PlanAnswer:
    """Return the best plans to serve a model on a cluster of unlike devices."""
    key, axes = figure_key(objective), tuple(map(figure_key, pareto or ()))
    found: list[Profile] = []
    rejected: Counter[str] = Counter()
    layouts = list(_layouts(space))
    progress.begin(len(layouts), "predicting")
    stopped, evaluated = False, 0
    try:
        for scenario in layouts:
            progress.check()
            profile = _predicted(scenario, rejected)
            evaluated += profile is not None
            if profile is not None and _meets(profile, limits, rejected):
                found.append(profile)
            progress.advance()
    except Cancelled:
        stopped = True
    best = _front(found, axes) if axes else _best(found, key)[:top]
    cluster = space.scenario.cluster
    return PlanAnswer(
        objective=objective,
        evaluated=evaluated,
        feasible=len(found),
        rejected=dict(rejected),
        seconds=0.0,
        plans=[_ranked(rank, profile, axes[0] if axes else key) for rank, profile in enumerate(best, start=1)],
        pareto_axes=pareto,
        pareto=tuple(range(len(best))) if axes else (),
        free=tuple(dict.fromkeys(("cluster", *free_fields([space])))),
        assumptions={f"price of {part.device.name}": said_of_price(part.device) for part in cluster.parts},
        warnings=space.scenario.warnings if not best else tuple(best[0].warnings),
        stopped=stopped,
    )


def _layouts(space: GenerationSpace) -> Iterator[GenerationScenario]:
    """Yield every layout of the list."""
    cluster = space.scenario.cluster
    for engine in engines(space):
        kinds = [replace(space, scenario=replace(space.scenario, cluster=group)) for group in cluster.groups]
        if not all(runs(engine, kind) for kind in kinds) and "framework" in space.values:
            continue
        for words in values_in(space, "quantization", (None,)):
            plan = replace(plan_of(space, engine), quantization=words, disaggregate=None, pipeline_parallel=1)
            scenario = replace(space.scenario, plan=plan)
            for apart in values_in(space, "disaggregate", (None, "apart")):
                yield from _pools(space, scenario) if apart else _replicas(space, scenario)


def _replicas(space: GenerationSpace, scenario: GenerationScenario) -> Iterator[GenerationScenario]:
    """Replicas of each tensor degree on the whole cluster and on each kind alone."""
    for cluster in (scenario.cluster, *scenario.cluster.groups):
        whole = gcd(*(part.devices for part in cluster.parts))
        for t in _listed(space, "tensor_parallel", whole):
            plan = replace(scenario.plan, tensor_parallel=t, data_parallel=1, expert_parallel=1)
            plan = replace(plan, replicas=max(cluster.devices // t, 1))
            yield replace(scenario, cluster=cluster, plan=plan)


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
    except InputError:
        rejected["group_batches"] += 1
        return None


def _meets(profile: Profile, limits: Mapping[str, float], rejected: Counter[str]) -> bool:
    """Whether a plan fits and is within all limits; what it misses is counted."""
    missed = [key for key, limit in limits.items() if not bool(within(key, figure(key, profile, 1), limit)[0])]
    missed += [] if profile.fits else ["memory"]
    rejected.update(missed)
    return not missed


def _best(profiles: Sequence[Profile], key: str) -> list[Profile]:
    """Profiles in order, the best first."""
    return sorted(profiles, key=lambda profile: float(ascending(key, figure(key, profile, 1))[0]))


def _front(profiles: Sequence[Profile], axes: Sequence[str]) -> list[Profile]:
    """The Pareto-optimal plans of both figures, by the first of them."""
    points = [[float(ascending(key, figure(key, profile, 1))[0]) for profile in profiles] for key in axes]
    chosen = [profiles[place] for place in front_of(np.array(points).reshape(2, -1))]
    return _best(chosen, axes[0])


def _ranked(rank: int, profile: Profile, key: str) -> RankedPlan:
    cluster = profile.scenario.cluster
    price: Any = cluster.usd_per_hour
    figures = {
        "usd_per_hour": None if price is None else float(price) * cluster.devices,
        "cost_usd_per_million_tokens": profile.cost_usd_per_million_tokens,
    }
    return RankedPlan(rank=rank, profile=profile, value=float(figure(key, profile, 1)[0]), figures=figures)
