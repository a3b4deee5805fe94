"""The best plan of every point: the plans of planning's search and the devices of a study as axes of one mesh.

The search's own candidates, of which those count that the framework offers, with the same formulas as one plan. The
fastest plan that fits is taken point by point, or where none fits the one that needs least memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.exploration.own.asked.cells import NO_PLAN, Reasons
from sightline.exploration.own.asked.reports import NO_LEVEL
from sightline.exploration.own.points.fitting import fitting_first
from sightline.exploration.own.points.mesh import Points, blocks, points_of, put_profile
from sightline.exploration.own.points.variation import Index, Variation
from sightline.planning.training.best import fields_at
from sightline.planning.training.candidates import DIMENSIONS, Axes, Choice, layout_of, open_plan, resolved
from sightline.planning.training.search import pieces_of
from sightline.planning.training.validity import Valid, valid_plans
from sightline.prediction import predict
from sightline.progress import Progress
from sightline.scenario import Scenario
from sightline.scenario.rules import TRAINING_RULES
from sightline.scenario.space import Space

PLANS_PER_BLOCK: Final = 1 << 17
"""Plans times points that are worked out together."""
MOST_PLANS: Final = 200_000_000
"""Plans times points of one study."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Best:
    """The best plan of each point of a block so far, points flat."""

    seconds: NDArray[np.float64]
    """Infinite without any plan."""
    fits: NDArray[np.bool_]
    memory_bytes: NDArray[np.float64]
    fields: list[Any]

    def take(self, found: "_Best") -> None:
        """Replace plans by better ones."""
        mine, other = (self.seconds, self.fits, self.memory_bytes), (found.seconds, found.fits, found.memory_bytes)
        better = fitting_first(*(np.stack(pair) for pair in zip(mine, other, strict=True))) == 1
        for column, new in zip(mine, other, strict=True):
            column[better] = new[better]
        for point in np.flatnonzero(better):
            self.fields[point] = found.fields[point]


def _none(count: int) -> _Best:
    """No plan at so many points."""
    far = np.full(count, np.inf)
    return _Best(seconds=far, fits=np.zeros(count, dtype=bool), memory_bytes=far.copy(), fields=[None] * count)


def search_points(
    space: Space[Scenario], varied: Variation, keys: Sequence[str], reasons: Reasons, progress: Progress
) -> Points:
    """Return the results of the best plan at every point of the axes; columns ``plan.FIELD`` say which it is.

    Args:
        space: The base, and what is searched.
        varied: What is varied of the space's scenario: numbers of the cluster.
        keys: Result keys.
        reasons: Counts the points without any plan, by why.
        progress: Told of every block of points.

    Raises:
        InputError: the search has too many plans for so many points.
    """
    plans = [one for choice, piece in _pieces(space) if (one := _valid(space, choice, piece)) is not None]
    count = sum(prod(valid.axes.shape) for _, valid in plans)
    points = points_of(varied.axes)
    if not plans:
        buildable = np.broadcast_to(varied.buildable((slice(None),) * len(points.shape)), points.shape)
        if buildable.any():
            reasons.add(NO_PLAN, int(np.count_nonzero(buildable)))
        points.done[...] = True
        progress.advance(points.done.size)
        return points
    if count * points.done.size > MOST_PLANS:
        raise InputError(
            f"search has {count:,} plans for each of {points.done.size:,} points; allowed: {MOST_PLANS:,} in all, "
            "so search fewer fields, or vary less"
        )
    for index in blocks(varied.axes, max(1, PLANS_PER_BLOCK // max(prod(valid.axes.shape) for _, valid in plans))):
        if progress.cancelled:
            break
        shape = points.done[index].shape
        best = _none(prod(shape))
        for choice, valid in plans:
            best.take(_best_of(space, choice, valid, varied, index, shape))
        with np.errstate(all="ignore"):
            _put(points, index, best, space, varied, keys)
        points.done[index] = True
        progress.advance(prod(shape))
    return points


def _pieces(space: Space[Scenario]) -> Iterator[tuple[Choice, Axes]]:
    layout = layout_of(space)
    for choice, piece in pieces_of(layout):
        yield choice, layout.axes(piece, both_ways=choice.both_ways)


def _valid(space: Space[Scenario], choice: Choice, axes: Axes) -> tuple[Choice, Valid] | None:
    """The plans of a choice that keep the rules, each once; None without any."""
    with np.errstate(all="ignore"):
        valid = valid_plans(space, open_plan(space, axes, choice), axes, TRAINING_RULES).trimmed()
    return (choice, valid) if valid.axes.count else None


def _best_of(
    space: Space[Scenario], choice: Choice, valid: Valid, varied: Variation, index: Index, points: tuple[int, ...]
) -> _Best:
    """The best plan of a choice at every point of a block."""
    scenario = _behind(open_plan(space, valid.axes, choice), len(index))
    cluster = varied.at(index, before=DIMENSIONS).cluster
    scenario = replace(scenario, cluster=replace(cluster, devices=scenario.cluster.devices))
    count = prod(points)

    def flat(values: Any) -> NDArray[Any]:
        return np.broadcast_to(values, (*valid.axes.shape, *points)).reshape(-1, count)

    with np.errstate(all="ignore"):
        profile = predict(scenario)
        possible = _mask(valid, len(index)) & varied.buildable(index)
        seconds = flat(np.where(possible, profile.step_time_s, np.inf))
    fits, memory_bytes = flat(profile.fits), flat(profile.memory_bytes["total"])
    place = fitting_first(seconds, fits, memory_bytes)
    at = place, np.arange(count)
    distinct, of = np.unique(place, return_inverse=True)
    plans = fields_at(valid.axes, choice, np.unravel_index(distinct, valid.axes.shape))
    return _Best(
        seconds=seconds[at], fits=fits[at], memory_bytes=memory_bytes[at], fields=[plans[i] for i in of.ravel()]
    )


def _behind(scenario: Scenario, count: int) -> Scenario:
    """The scenario of a mesh with further dimensions behind its own."""

    def longer(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.reshape(value.shape + (1,) * count)
        if isinstance(value, dict):
            return {key: longer(one) for key, one in value.items()}
        return value

    plan: dict[str, Any] = {name: longer(value) for name, value in fields_of(scenario.plan).items()}
    batch: Any = longer(scenario.workload.global_batch)
    devices: Any = longer(scenario.cluster.devices)
    return replace(
        scenario,
        plan=replace(scenario.plan, **plan),
        workload=replace(scenario.workload, global_batch=batch),
        cluster=replace(scenario.cluster, devices=devices),
    )


def _mask(valid: Valid, count: int) -> NDArray[np.bool_]:
    """Where valid plans are, with dimensions of points behind."""
    mask: Any = valid.states & valid.schedules
    for one in valid.rest:
        mask = mask & one
    whole = np.broadcast_to(mask, valid.axes.shape)
    return whole.reshape(whole.shape + (1,) * count)


def _put(
    points: Points,
    index: Index,
    best: _Best,
    space: Space[Scenario],
    varied: Variation,
    keys: Sequence[str],
) -> None:
    """Put the results of the best plans into a block, plan by plan: many points share one."""
    plans: dict[tuple[Any, ...], list[int]] = {}
    for point, fields in enumerate(best.fields):
        if fields is not None:
            plans.setdefault(tuple(fields.items()), []).append(point)
    shape = points.done[index].shape
    for named, of in plans.items():
        chosen = np.zeros(shape, dtype=bool)
        chosen.ravel()[of] = True
        plan = dict(named)
        scenario = resolved(space, plan)
        cluster = varied.at(index).cluster
        scenario = replace(scenario, cluster=replace(cluster, devices=scenario.cluster.devices))
        here = Points(shape=shape, done=np.ones(shape, dtype=bool))
        put_profile(here, (slice(None),) * len(shape), predict(scenario), keys, chosen, varied.electricity)
        for name, values in here.columns.items():
            _where(points, index, name, values, chosen)
        for name in searched_fields(space):
            value = plan.get(name, scenario.plan.data_parallel if name == "data_parallel" else None)
            word = "+".join(sorted(value)) or "none" if isinstance(value, frozenset) else value
            is_word = isinstance(word, str)
            _where(points, index, f"plan.{name}", np.full(shape, word if is_word else float(word or 0)), chosen)


def searched_fields(space: Space[Scenario]) -> list[str]:
    """Return the fields of the plan that a table shows: those that are searched, and replicas where degrees are."""
    follows = not {"tensor_parallel", "pipeline_parallel", "context_parallel"} & set(space.free)
    return [name for name in space.free if name != "data_parallel" or not follows]


def _where(points: Points, index: Index, name: str, values: NDArray[Any], chosen: NDArray[np.bool_]) -> None:
    """Put values into some points of a block's column."""
    if name not in points.columns:
        is_word, is_code = values.dtype.kind == "U", values.dtype.kind == "i"
        none: Any = "" if is_word else NO_LEVEL if is_code else np.nan
        points.columns[name] = np.full(points.shape, none, dtype="<U32" if is_word else values.dtype)
    place: Any = (*index, ...)  # a view even where there is one point
    part = points.columns[name][place]
    part[chosen] = values[chosen]
