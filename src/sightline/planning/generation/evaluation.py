"""Lists of serving plans evaluated: judged by the rulebook, then by memory, then timed and held against limits."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.planning.generation.candidates import Candidates, says_something_new, scenario_of
from sightline.planning.generation.layouts import Columns
from sightline.planning.generation.objectives import figure, missed_by, within
from sightline.planning.generation.space import Variant
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.policies import Workers, policy_of
from sightline.prediction.generation.predict import profile_of
from sightline.scenario import GenerationScenario
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
    judged = verdict(scenario_of(variant, fresh), stated)
    rejected.update(judged.rejected)
    return _some(fresh, np.broadcast_to(judged.valid, len(fresh["batch"])))


def _fitting(scenario: GenerationScenario, columns: Columns, rejected: Counter[str]) -> tuple[Workers | None, Columns]:
    """The workers and the columns of the plans that fit; no workers where none does.

    All sequences that are asked for have to fit at a time, so that none waits for memory.
    """
    count = len(columns["batch"])
    if not count:
        return None, columns
    workers = policy_of(scenario).price(scenario)
    total = generation_memory(workers.decoding, workers.prefilling, scenario.workload)["total"]
    fits = np.broadcast_to(total <= scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction, count)
    if fits.all():
        return workers, columns
    rejected["memory"] += count - int(np.count_nonzero(fits))
    return workers.of_some(np.flatnonzero(fits)) if fits.any() else None, _some(columns, fits)
