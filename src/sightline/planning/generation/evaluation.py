"""Lists of serving plans evaluated: judged by rules, memory and limits, and the most users of each."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.launching.engines.rules import STATED, launch_questions
from sightline.planning.generation.candidates import NO_BUDGET, Candidates, Columns, says_something_new, scenario_of
from sightline.planning.generation.space import Variant
from sightline.planning.generation_objectives import figure, missed_by, within
from sightline.prediction.generation.batch_profile import profile_of
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.policies import Workers, policy_of
from sightline.scenario import GenerationScenario
from sightline.scenario.generation import DEGREES
from sightline.scenario.rules import verdict

COUNTED_AS: Mapping[str, str] = {"memory_bytes.total": "memory"}
"""What counts of rejected plans call a limit by another name than its figure's."""


class Evaluated(NamedTuple):
    """The plans of a list that fit and meet all limits."""

    columns: Columns
    figures: Mapping[str, NDArray[np.float64]]
    """By key."""
    evaluated: int
    """Plans whose time and memory were both computed."""
    rejected: Counter[str]
    """By rule, ``memory`` or limit; a plan that misses several limits counts once, for the first of them."""
    nearest: tuple[float, Mapping[str, int], Mapping[str, float]] | None = None
    """Where none meets all limits, the one that misses them by least: by which factor, its columns and figures."""


def evaluated(variant: Variant, of: Candidates, keys: tuple[str, ...], limits: Mapping[str, float]) -> Evaluated:
    """Return the feasible plans among candidates, with the figures named by ``keys``."""
    rejected: Counter[str] = Counter()
    columns = _valid(variant, of, rejected)
    workers, columns = _fitting(scenario_of(variant, columns), columns, rejected)
    count = len(columns["batch"])
    if workers is None:
        return Evaluated(columns, {key: np.zeros(0) for key in keys}, 0, rejected)
    profile = profile_of(workers)
    figures = {key: figure(key, profile, count) for key in {*keys, *limits}}
    meets = np.ones(count, dtype=bool)
    for key, limit in limits.items():
        met = within(key, figures[key], limit)
        rejected[COUNTED_AS.get(key, key)] += int(np.count_nonzero(meets & ~met))
        meets &= met
    nearest = None if meets.any() else _nearest(columns, figures, limits)
    return Evaluated(_some(columns, meets), _some(figures, meets), count, rejected, nearest)


def _some(of: Mapping[str, NDArray[Any]], chosen: NDArray[np.bool_]) -> Mapping[str, NDArray[Any]]:
    """The rows of columns that a mask chooses."""
    if chosen.all():
        return of
    places = np.flatnonzero(chosen)
    return {name: column[places] for name, column in of.items()}


def _nearest(
    columns: Columns, figures: Mapping[str, Any], limits: Mapping[str, float]
) -> tuple[float, Mapping[str, int], Mapping[str, float]]:
    """The plan whose worst limit is missed by least, and by which factor."""
    with np.errstate(divide="ignore", invalid="ignore"):
        misses = [missed_by(key, figures[key], limit) for key, limit in limits.items()]
    worst = np.maximum.reduce(misses)
    place = int(np.argmin(np.where(np.isnan(worst), np.inf, worst)))
    return (
        float(worst[place]),
        {name: int(column[place]) for name, column in columns.items()},
        {key: float(values[place]) for key, values in figures.items()},
    )


def _valid(variant: Variant, of: Candidates, rejected: Counter[str]) -> Columns:
    """The candidates that break no rule and say something new."""
    fresh = _some(of.columns, says_something_new(scenario_of(variant, of.columns), of.choices))
    stated = {} if variant.max_sequences is None else {"max_sequences": variant.max_sequences}
    scenario = scenario_of(variant, fresh)
    judged = verdict(scenario, stated, launch_questions(scenario, STATED) if variant.launched else ())
    rejected.update(judged.rejected)
    return _some(fresh, np.broadcast_to(judged.valid, len(fresh["batch"])))


def _fitting(scenario: GenerationScenario, columns: Columns, rejected: Counter[str]) -> tuple[Workers | None, Columns]:
    """The workers and the columns of the plans that fit; no workers where none does.

    All sequences that are asked for have to fit at a time, so that none waits for memory.
    """
    count = len(columns["batch"])
    if not count:
        return None, columns
    policy = policy_of(scenario)
    workers = policy.price(scenario)
    total = generation_memory(workers.decoding, workers.prefilling, scenario.workload)["total"]
    fits = np.broadcast_to(total <= scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction, count)
    if fits.all():
        return policy.admitted(workers), columns
    rejected["memory"] += count - int(np.count_nonzero(fits))
    fitting = policy.admitted(workers.of_some(np.flatnonzero(fits))) if fits.any() else None
    return fitting, _some(columns, fits)


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
