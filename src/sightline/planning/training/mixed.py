"""A search of training plans on unlike devices: plans on several kinds are a list, laid out and predicted one by one.

For every order of the kinds of devices, and for parts with several kinds, degrees that both ways of splitting allow are
combined with micro-batches. Of techniques that save memory - ZeRO, recomputation - the first that fits is taken, from
those that cost least to those that save most. The prediction chooses how layers or the batch are split over devices.
Parts of one kind are searched as any other cluster, and join the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.planning.kinds import left_out, mixtures
from sightline.planning.prices import said_of_price
from sightline.planning.training.answers import Found, ranked
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.one_space import Request
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.progress import Cancelled, Progress
from sightline.scenario import Cluster, Scenario
from sightline.scenario.plan import Split
from sightline.scenario.rules import broken_by
from sightline.scenario.space import Space

MOST_RANKS, MOST_STAGES, MOST_SEQUENCES = 8, 16, 8
"""Largest tensor degree, pipeline degree and micro-batch that are tried."""
SAVING: Sequence[tuple[int, str]] = (
    *((0, "none"), (1, "none"), (1, "selective"), (1, "full")),
    *((2, "none"), (2, "full"), (3, "none"), (3, "full")),
)
"""ZeRO stages and recomputation, from what costs least to what saves most."""
LISTED = (*("tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch", "zero_stage", "recompute"),)
"""Free fields of a plan that are searched on several kinds of devices."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Found:
    """What was predicted so far."""

    profiles: list[Profile] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    evaluated: int = 0
    stopped: bool = False


def plan_mixed(space: Space[Scenario], request: Request, alone: PlanAnswer, progress: Progress) -> PlanAnswer:
    """Return the best plans of a space whose cluster has unlike devices, or whose best plan may use some of them only.

    ``alone`` is the answer of the search of its parts of one kind.
    """
    found = _searched(space, request, progress)
    kept = [one for one in _measured(found.profiles, space, request) if not _exceeded(one, request, found.rejected)]
    others = _measured([one.profile for one in alone.plans], space, request)
    plans = ranked([*others, *kept], request)
    cluster = space.scenario.cluster
    listed = [name for name in space.free if name in LISTED] + ([] if space.scenario.plan.split else ["split"])
    return PlanAnswer(
        objective=request.objective,
        evaluated=alone.evaluated + found.evaluated,
        feasible=alone.feasible + len(kept),
        rejected=dict(Counter(alone.rejected) + found.rejected),
        seconds=0.0,
        plans=plans,
        pareto_axes=request.pareto,
        pareto=tuple(range(len(plans))) if request.pareto else (),
        free=tuple(dict.fromkeys(("cluster", *space.options, *alone.free, *listed))),
        assumptions={f"price of {part.device.name}": said_of_price(part.device) for part in cluster.parts},
        warnings=tuple(dict.fromkeys((*space.scenario.warnings, *_remarks(plans, cluster), *_not_listed(space)))),
        stopped=alone.stopped or found.stopped,
    )


def _not_listed(space: Space[Scenario]) -> Iterator[str]:
    """A sentence on free fields that have one value in all plans of the list."""
    others = [name for name in space.free if name not in LISTED]
    if others:
        names = ", ".join(f"plan.{name}" for name in others)
        yield f"plans on several kinds of devices come from a short list, in which {names} are not searched"


def _searched(space: Space[Scenario], request: Request, progress: Progress) -> _Found:
    """Every layout of the list predicted, with the least saving that fits."""
    found = _Found()
    layouts = list(_layouts(space))
    progress.begin(len(layouts), "predicting")
    try:
        for layout in layouts:
            progress.check()
            _of_layout(space, layout, request, found)
            progress.advance()
    except Cancelled:
        found.stopped = True
    return found


def _of_layout(space: Space[Scenario], layout: Scenario, request: Request, found: _Found) -> None:
    """Predict a layout with ever more saving of memory until it fits."""
    for zero, recompute in _savings(space):
        scenario = replace(layout, plan=replace(layout.plan, zero_stage=zero, recompute=recompute))
        rules = LAUNCHABLE if request.launchable else POSSIBLE
        refused = {one.rule for one in broken_by(scenario, rules)}
        if refused:
            found.rejected.update(refused)
            continue
        try:
            profile = predict(scenario)
        except InputError as error:
            if not str(error).startswith("workload.global_batch"):
                raise
            found.rejected["global_batch"] += 1
            continue
        found.evaluated += 1
        most = np.inf if request.max_memory is None else request.max_memory
        if profile.fits and float(profile.memory_bytes["total"]) <= most:
            found.profiles.append(profile)
            return
        found.rejected["memory"] += 1


def _savings(space: Space[Scenario]) -> Iterator[tuple[int, Any]]:
    """ZeRO stages and recomputation to try in order: of the list what is allowed, else what is stated."""
    plan = space.scenario.plan
    zeros, recomputed = (_allowed(space, name) for name in ("zero_stage", "recompute"))
    if zeros is None and recomputed is None:
        yield from ((z, r) for z, r in SAVING if plan.framework.allows("recompute", r))
        return
    usual: Mapping[str, Sequence[Any]] = {"zero_stage": (0, 1, 2, 3), "recompute": ("none", "selective", "full")}
    yield from product(zeros or usual["zero_stage"], recomputed or usual["recompute"])


def _allowed(space: Space[Scenario], name: str) -> tuple[Any, ...] | None:
    """The values that a field may take; None for all, the plan's own where it is fixed."""
    return space.values[name] if name in space.values else (getattr(space.scenario.plan, name),)


def _layouts(space: Space[Scenario]) -> Iterator[Scenario]:
    """Yield the scenario with every order of devices, degrees, split and micro-batch of the list."""
    for cluster in mixtures(space.scenario.cluster):
        largest = gcd(*(part.devices for part in cluster.parts))
        tensors = _listed(space, "tensor_parallel", _powers(min(MOST_RANKS, largest)))
        stages = _listed(space, "pipeline_parallel", _powers(min(MOST_STAGES, cluster.devices)))
        contexts, sequences = (
            _listed(space, "context_parallel", [1]),
            _listed(space, "micro_batch", _powers(MOST_SEQUENCES)),
        )
        for t, c, p, micro_batch, split in product(tensors, contexts, stages, sequences, _splits(space)):
            replicas, rest = divmod(cluster.devices, t * c * p)
            if rest or (split == "pipeline" and p == 1) or replicas not in _listed(space, "data_parallel", [replicas]):
                continue
            plan = replace(
                space.scenario.plan,
                tensor_parallel=t,
                context_parallel=c,
                pipeline_parallel=p,
                data_parallel=replicas,
                micro_batch=micro_batch,
                split=split,
                **_others(space, t),
            )
            yield replace(space.scenario, cluster=cluster, plan=plan)


def _others(space: Space[Scenario], tensor_parallel: int) -> dict[str, Any]:
    """Fields that are not searched here: a restricted one takes its first value, a free one its default."""
    fields = ("expert_parallel", "virtual_stages", "schedule", "offload", "attention")
    chosen: dict[str, Any] = {}
    for name in fields:
        values = _allowed(space, name)
        chosen[name] = values[0] if values else getattr(space.scenario.plan, name)
    split = _allowed(space, "sequence_parallel")
    offered = space.scenario.plan.framework.allows("sequence_parallel", True)
    chosen["sequence_parallel"] = split[0] if split else bool(offered and tensor_parallel > 1)
    return chosen


def _splits(space: Space[Scenario]) -> tuple[Split | None, ...]:
    stated = space.scenario.plan.split
    return ("pipeline", "data") if stated is None else (stated,)


def _listed(space: Space[Scenario], name: str, usual: Sequence[int]) -> Sequence[int]:
    """The values of a field that are tried: those that are allowed, or the usual ones."""
    values = _allowed(space, name)
    return usual if values is None or values == (None,) else values


def _powers(most: int) -> list[int]:
    """Powers of two up to a number."""
    return [2**power for power in range(max(most, 1).bit_length())]


def _measured(profiles: Sequence[Profile], space: Space[Scenario], request: Request) -> list[Found]:
    """Plans with what is to be small of them, on the devices that each uses."""
    found = []
    for profile in profiles:
        own = replace(space.scenario, cluster=profile.scenario.cluster)
        measure = Measure(space=replace(space, scenario=own, clusters=()), availability=request.availability)
        keys = tuple(float(measure(axis, measure.of_profile(profile))) for axis in request.axes)
        found.append(Found(keys, profile.scenario, measure, profile))
    return found


def _exceeded(plan: Found, request: Request, rejected: Counter[str]) -> bool:
    """Whether a plan is beyond a limit of the run, which is counted."""
    figures = plan.measure.of_profile(plan.predicted())
    broken = [name for name, over in exceeded(request.limits, plan.measure, figures).items() if np.any(over)]
    rejected.update(broken)
    return bool(broken)


def _remarks(plans: Sequence[RankedPlan], cluster: Cluster) -> Iterator[str]:
    """A sentence where the best plan leaves devices out, and how the best one splits its work."""
    yield from left_out(plans, cluster)
    if plans:
        yield from (said for said in plans[0].profile.warnings if said not in plans[0].profile.scenario.warnings)
