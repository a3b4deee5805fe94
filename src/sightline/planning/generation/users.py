"""How many users plans serve at a time within memory and limits."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sightline.planning.generation.candidates import NO_BUDGET, Candidates
from sightline.planning.generation.evaluation import evaluated
from sightline.planning.generation.layouts import Columns
from sightline.planning.generation.space import Variant
from sightline.scenario import GenerationScenario
from sightline.scenario.generation import DEGREES

DOUBLED = 2 ** np.arange(21, dtype=np.int64)
"""Numbers of users that are tried first; the last is the most that is looked for."""
FEWEST, MOST = 4, 64
"""Numbers between the largest that is served and the next that is not, which are tried at once for each layout."""
TOGETHER = 256
"""Plans of a few layouts that are tried at once."""


def most_users(variant: Variant, layouts: Columns, limits: Mapping[str, float]) -> NDArray[np.int64]:
    """Return the largest batch with which each layout fits and meets the limits; 0 for none.

    Found on a grid that narrows: where more users meet limits that fewer do not, it may be a smaller one.
    """
    count = len(layouts["replicas"])
    low, high = np.zeros(count, dtype=np.int64), np.full(count, DOUBLED[-1] + 1)
    rows, batches = np.arange(count), np.tile(DOUBLED, (count, 1))
    while len(rows):
        served = _served(variant, {name: column[rows] for name, column in layouts.items()}, batches, limits)
        low[rows] = np.maximum(low[rows], np.where(served, batches, 0).max(axis=1))
        beyond = np.where(batches > low[rows, None], batches, high[rows, None])
        high[rows] = np.minimum(high[rows], beyond.min(axis=1))
        rows = np.flatnonzero(high - low > 1)
        batches = _between(low[rows], high[rows])
    return low


def with_most_users(scenario: GenerationScenario, limits: Mapping[str, float]) -> GenerationScenario:
    """Return one plan, of equal replicas, with the largest batch that it serves; with 1 where it serves none."""
    plan = scenario.plan
    budget = NO_BUDGET if plan.max_batched_tokens is None else plan.max_batched_tokens
    degrees = {name: getattr(plan, name) for name in (*DEGREES, "replicas")}
    row = {**degrees, "max_batched_tokens": budget, "chunked_prefill": int(plan.chunked_prefill)}
    layout = {name: np.array([value], dtype=np.int64) for name, value in row.items()}
    (users,) = most_users(Variant(scenario, pooled=False, usual=True), layout, limits).tolist()
    return replace(scenario, workload=replace(scenario.workload, batch=max(users, 1)))


def _between(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers between two, evenly, the lowest among them."""
    tried = int(np.clip(TOGETHER // max(len(low), 1), FEWEST, MOST))
    steps = (high - low)[:, None] * np.arange(tried) // tried
    between: NDArray[np.int64] = low[:, None] + np.maximum(steps, 1)
    return between


def _served(
    variant: Variant, layouts: Columns, batches: NDArray[np.int64], limits: Mapping[str, float]
) -> NDArray[np.bool_]:
    """Whether each layout serves each of its batches."""
    columns = {name: np.repeat(column, batches.shape[1]) for name, column in layouts.items()}
    columns |= {"batch": batches.ravel(), "place": np.arange(batches.size)}
    served = np.zeros(batches.size, dtype=bool)
    served[evaluated(variant, Candidates(columns, 1), (), limits).columns["place"]] = True
    return served.reshape(batches.shape)
