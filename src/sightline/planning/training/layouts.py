"""The list of training plans on several kinds of devices: orders, degrees, splits, micro-batches, savings of memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import gcd
from typing import Any

from sightline.planning.kinds import mixtures
from sightline.scenario import Plan, Scenario
from sightline.scenario.space import Space

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
