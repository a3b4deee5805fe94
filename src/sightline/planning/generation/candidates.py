"""Candidates of a search of serving plans: layouts x batches x ways to cut prompts, each that says something new once.

Columns of equal length hold the fields of a list of plans.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.planning.generation.layouts import (
    MOST_PLANS,
    Columns,
    Loads,
    Shape,
    disaggregated,
    replicated,
    values_of,
)
from sightline.planning.generation.space import GenerationSpace, Variant, restricted, values_in
from sightline.prediction.generation.phases import Chunks, cut
from sightline.quantities import rounded_up
from sightline.scenario import Disaggregation, GenerationPlan, GenerationScenario
from sightline.scenario.generation import DEGREES

BUDGETS = (32768, 16384, 8192, 4096, 2048, 1024, 512)
"""Tokens of an iteration that are tried, besides the engine's own."""
NO_BUDGET = 2**40
"""Stands for no limit in a column of budgets."""
FEWEST_PLANS = 50_000
"""Disaggregated plans that a variant may always have."""
PREFILL_BATCHES = (1, 2, 4, 8)
"""Prompts that a prefill worker takes at once."""
MANY_PLANS = 1 << 17
"""Plans that are evaluated at once: about a megabyte a figure."""
CHUNK_FIELDS = tuple(name for name in Chunks.__dataclass_fields__)


class Candidates(NamedTuple):
    """A list of candidates of one variant."""

    columns: Columns
    choices: int
    """Ways to cut prompts that follow each other, the engine's own first; 1 where each says something new already."""


class Pieces(NamedTuple):
    """All candidates of a variant, in lists of at most so many."""

    lists: Callable[[], Iterator[Candidates]]
    total: int
    complete: bool = True
    """Whether nothing was left out for there being too much of it."""


def candidates(space: GenerationSpace, variant: Variant, variants: int = 1, tries: int = 1) -> Pieces:
    """Return the candidates of a variant, one of so many that are searched together.

    Lists are shorter where each candidate is evaluated with several batches, at most ``tries``.
    """
    batches = restricted(space, "batch") or (space.scenario.workload.batch,)
    cuts, complete = chunk_choices(space, variant.scenario), True
    if variant.pooled:
        most = max(MOST_PLANS // variants, FEWEST_PLANS) // (len(batches) * tries)
        layouts, complete = disaggregated(space, variant.scenario, _Loads(space, variant.scenario, cuts), most)
        further, choices = np.array([(batch,) for batch in batches], dtype=np.int64), 1
    else:
        layouts = replicated(space, variant.scenario)
        further = np.array([(batch, *way) for batch, way in product(batches, cuts)], dtype=np.int64)
        choices = len(cuts)
    shared = dict(zip(("batch", "max_batched_tokens", "chunked_prefill"), further.T, strict=False))
    layouts_count = len(layouts["replicas"])

    def lists() -> Iterator[Candidates]:
        step = max(1, MANY_PLANS // (len(further) * tries))
        for start in range(0, layouts_count, step):
            own = {name: column[start : start + step] for name, column in layouts.items()}
            count = len(own["replicas"])
            crossed = {name: np.repeat(column, len(further)) for name, column in own.items()}
            yield Candidates(crossed | {name: np.tile(column, count) for name, column in shared.items()}, choices)

    return Pieces(lists, layouts_count * len(further), complete)


def chunk_choices(space: GenerationSpace, scenario: GenerationScenario) -> list[tuple[int, int]]:
    """Return token budgets, each with whether prompts are cut to them (0 or 1): the engine's own choice first.

    Larger budgets come first: where two say the same, the larger one stands for both.
    """
    plan = scenario.plan
    usual = NO_BUDGET if plan.max_batched_tokens is None else int(plan.max_batched_tokens)
    offered = plan.engine.offers.get("chunked_prefill", (plan.chunked_prefill, not plan.chunked_prefill))
    free = (usual,) if plan.max_batched_tokens is None else (usual, *(b for b in BUDGETS if b != usual))
    budgets = [NO_BUDGET if b is None else int(b) for b in values_in(space, "max_batched_tokens", free)]
    chunked = [int(bool(c)) for c in values_in(space, "chunked_prefill", offered)]
    own = (usual, int(plan.chunked_prefill))
    return sorted(product(budgets, chunked), key=lambda way: (way != own, way[1] != own[1], -way[0]))


def scenario_of(variant: Variant, columns: Mapping[str, Any]) -> GenerationScenario:
    """Return the scenario of a list of plans, or of one."""
    scenario = variant.scenario
    budget = columns["max_batched_tokens"]
    whole = isinstance(budget, int) and budget >= NO_BUDGET
    shared = {"max_batched_tokens": None if whole else budget, "chunked_prefill": columns["chunked_prefill"] != 0}
    if np.ndim(budget) and np.all(budget >= NO_BUDGET):
        shared["max_batched_tokens"] = None
    plan = _with_degrees(scenario.plan, columns, shared)
    if variant.pooled:
        own = {name: columns[f"prefill.{name}"] for name in (*DEGREES, "replicas")}
        prefill = _with_degrees(replace(scenario.plan, disaggregate=None), own, shared)
        plan = replace(plan, disaggregate=Disaggregation(prefill=prefill, prefill_batch=columns["prefill.batch"]))
    else:
        plan = replace(plan, disaggregate=None)
    return replace(scenario, plan=plan, workload=replace(scenario.workload, batch=columns["batch"]))


def _with_degrees(plan: GenerationPlan, columns: Mapping[str, Any], shared: Mapping[str, Any]) -> GenerationPlan:
    return replace(plan, **{name: columns[name] for name in (*DEGREES, "replicas")}, **shared)


def says_something_new(scenario: GenerationScenario, choices: int) -> NDArray[np.bool_]:
    """Return which plans of a list cut prompts unlike all before them of the ``choices`` they belong to."""
    count = len(scenario.workload.batch)  # type: ignore[arg-type]
    if choices == 1:
        return np.ones(count, dtype=bool)
    plan = scenario.plan
    chunks = cut(scenario, rounded_up(scenario.workload.batch / (plan.data_parallel * plan.replicas)))
    said = (*(getattr(chunks, name) for name in CHUNK_FIELDS), scenario.workload.batch)
    grids = [np.broadcast_to(column, count).reshape(-1, choices) for column in said]
    fresh = np.ones((count // choices, choices), dtype=bool)
    for later in range(1, choices):
        for earlier in range(later):
            same = np.logical_and.reduce([grid[:, later] == grid[:, earlier] for grid in grids])
            fresh[:, later] &= ~same
    return fresh.reshape(-1)


class _Loads:
    """What prefill workers are given at once: prompts, and how they are cut, each that says something new once."""

    def __init__(self, space: GenerationSpace, scenario: GenerationScenario, cuts: Sequence[tuple[int, int]]) -> None:
        prompts = values_of(space, scenario, "prefill.batch", PREFILL_BATCHES)
        self._scenario, self._cuts = scenario, len(cuts)
        self._loads = [(batch, *way) for batch, way in product(prompts, cuts)]

    def __call__(self, shapes: list[Shape]) -> Loads:
        """Return the loads of each shape."""
        if not shapes:
            return {}
        every = [(*shape, 1, *load) for shape, load in product(shapes, self._loads)]
        names = (*DEGREES, "replicas", "batch", "max_batched_tokens", "chunked_prefill")
        columns = dict(zip(names, np.array(every, dtype=np.int64).T, strict=True))
        variant = Variant(self._scenario, pooled=False, usual=True)
        # Prefill workers run each batch to its end, whatever the loop around them does.
        whole = scenario_of(variant, columns)
        fresh = says_something_new(
            replace(whole, workload=replace(whole.workload, continuous=False)), self._cuts
        ).reshape(len(shapes), -1)
        return {
            shape: [load for load, new in zip(self._loads, own, strict=True) if new]
            for shape, own in zip(shapes, fresh.tolist(), strict=True)
        }
