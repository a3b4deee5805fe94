"""The list of serving plans on several kinds of devices: replicas on all, and prefill on one and decode on another."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import gcd
from typing import Any

from sightline import catalog
from sightline.planning.generation.answers import free_fields
from sightline.planning.generation.layouts import values_of
from sightline.planning.generation.space import GenerationSpace, engines, plan_of, restricted, runs, values_in
from sightline.scenario import Cluster, Disaggregation, GenerationPlan, GenerationScenario
from sightline.scenario.generation import DEGREES

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
