"""The best plan of every point: the plans of planning's search and the devices of a study as axes of one mesh.

The search's own candidates, of which those count that the framework offers, with the same formulas as one plan. The
fastest plan that fits is taken point by point, or where none fits the one that needs least memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.exploration.own.axes import NO_PLAN, TECHNOLOGY, Axis, Reasons, along
from sightline.exploration.own.grid import Around, Devices, Index, Points, Variation, blocks, points_of, put_profile
from sightline.exploration.own.reports import MEMORY, NO_LEVEL
from sightline.planning.training.best import fields_at
from sightline.planning.training.candidates import DIMENSIONS, Axes, Choice, layout_of, open_plan, resolved
from sightline.planning.training.training_search import pieces_of
from sightline.planning.training.validity import Valid, valid_plans
from sightline.prediction import predict
from sightline.progress import Progress
from sightline.scenario import Scenario
from sightline.scenario.rules import TRAINING_RULES
from sightline.scenario.space import Space


def fitting_first(seconds: NDArray[np.float64], fits: Any, memory_bytes: Any) -> NDArray[np.intp]:
    """Return, along the first axis, the place of the fastest that fits.

    Where none fits it is the one that needs least memory, and of those that need the same the fastest.

    Args:
        seconds: Of each at every point; infinite or NaN where it is not possible.
        fits: Whether each fits.
        memory_bytes: What each needs.
    """
    possible = np.isfinite(seconds)
    chosen = possible & fits
    none_fits = ~chosen.any(axis=0)
    if none_fits.any():
        needed = np.where(possible, memory_bytes, np.inf)
        chosen = np.where(none_fits, possible & (needed <= needed.min(axis=0)), chosen)
    return np.asarray(np.where(chosen, seconds, np.inf).argmin(axis=0))


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
            f"search has {count:,} plans for each of {points.done.size:,} points; allowed: {MOST_PLANS:,} in "
            "total (search fewer fields or use fewer values)"
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


TRIED: Final = 7
"""Values of each number that are tried around the best so far; an odd number, so that it is among them."""
ROUNDS: Final = 3
"""How often. Each round's values lie three times as dense, so that the last are a 27th of the grid's step apart."""
NONE_HAS_A_PLAN: Final = "no device of the search has a valid plan"
Tried = Callable[[Sequence[Axis], Around], Points]
"""Works out all points of the axes that a study has and of those that are searched, which come last."""


def best_designs(tried: Tried, searched: Sequence[Axis], whole: str) -> Points:
    """Return the points of a study's own axes, each with its fastest device; points without any have no figures."""
    best = _best_design(tried(searched, {}), searched, {}, whole)
    refined = {axis.key: axis for axis in searched if _is_continuous(axis)}
    axes = [replace(axis, values=tuple(range(TRIED))) if axis.key in refined else axis for axis in searched]
    for step in range(ROUNDS if refined else 0):
        if not best.done.all() or whole not in best.columns:
            break
        around = {key: _around(best, axis, step, axes) for key, axis in refined.items()}
        best = _better(best, _best_design(tried(axes, around), axes, around, whole), whole)
    return best


def count_without(best: Points, whole: str, tried: Devices, plans: Reasons, reasons: Reasons) -> None:
    """Count the points without a device, for what all devices of the grid exceed, or for why none has a plan.

    Args:
        best: The points.
        whole: The key of the time, which such points lack.
        tried: The devices of the grid.
        plans: Why there were no plans.
        reasons: Where they are counted.
    """
    seconds = best.columns.get(whole, np.full(best.shape, np.nan))
    left = ~np.isfinite(seconds) & best.done

    def of_all(where: NDArray[np.bool_]) -> NDArray[np.bool_]:
        each = where.shape[len(best.shape) :]
        return np.asarray(np.broadcast_to(where, (*best.shape, *each)).reshape(*best.shape, -1).all(axis=-1))

    none_can_be = of_all(~tried.possible)
    for sentence, where in tried.reasons:
        here = left & none_can_be & of_all(where)
        _count(reasons, f"no device of the search can be built: {TECHNOLOGY}: {sentence}", here)
        left = left & ~here
    _count(reasons, "no device of the search can be built: each exceeds a limit", left & none_can_be)
    _count(reasons, next(iter(plans.counts), NONE_HAS_A_PLAN), left & ~none_can_be)


def _count(reasons: Reasons, sentence: str, where: NDArray[np.bool_]) -> None:
    if count := int(np.count_nonzero(where)):
        reasons.add(sentence, count)


def devices_each(searched: Sequence[Axis]) -> int:
    """Return how many devices are tried at each point."""
    refined = prod(TRIED if _is_continuous(axis) else len(axis.values) for axis in searched)
    grid = prod(len(axis.values) for axis in searched)
    return grid + (ROUNDS * refined if any(map(_is_continuous, searched)) else 0)


def _is_continuous(axis: Axis) -> bool:
    return isinstance(axis.values[0], float)


def _around(best: Points, axis: Axis, step: int, searched: Sequence[Axis]) -> NDArray[np.float64]:
    """Values of a searched axis near the best of each point, along its dimension among all; ``step`` is the round."""
    grid = axis.values
    reach = np.log(grid[1] / grid[0]) * (2 / (TRIED - 1)) ** step
    middle = best.columns[axis.key][..., np.newaxis]
    values = np.where(np.isnan(middle), grid[0], middle) * np.exp(np.linspace(-reach, reach, TRIED))
    place = [one.key for one in searched].index(axis.key)
    shape = (*best.shape, *(TRIED if i == place else 1 for i in range(len(searched))))
    return np.asarray(np.clip(values, grid[0], grid[-1])).reshape(shape)


def _best_design(points: Points, searched: Sequence[Axis], around: Around, whole: str) -> Points:
    """The best device at every point, with its results and what it is made of."""
    kept = points.shape[: len(points.shape) - len(searched)]
    found = Points(shape=kept, done=np.asarray(points.done.reshape(*kept, -1).all(axis=-1)))
    if whole not in points.columns:
        return found
    place = fitting_first(*(np.moveaxis(one.reshape(*kept, -1), -1, 0) for one in _chosen_by(points, whole)))

    def there(column: NDArray[Any]) -> NDArray[Any]:
        flat = np.broadcast_to(column, points.shape).reshape(*kept, -1)
        return np.asarray(np.take_along_axis(flat, place[..., np.newaxis], axis=-1)[..., 0])

    found.columns |= {name: there(column) for name, column in points.columns.items()}
    none = ~np.isfinite(found.columns[whole])
    for i, axis in enumerate(searched):
        values = around.get(axis.key, along(axis.values, len(kept) + i, len(points.shape)))
        found.columns[axis.key] = np.where(none, np.nan, there(values))
    return found


def _better(best: Points, other: Points, whole: str) -> Points:
    """Point by point the better of two; the first where both are equal, or the second was not worked out."""
    if not other.done.all() or whole not in other.columns:
        return best
    both = (np.stack(pair) for pair in zip(_chosen_by(best, whole), _chosen_by(other, whole), strict=True))
    second = fitting_first(*both) == 1
    columns = {name: np.where(second, other.columns[name], column) for name, column in best.columns.items()}
    return Points(shape=best.shape, done=best.done, columns=columns)


def _chosen_by(points: Points, whole: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Seconds of all points, whether they fit, and bytes."""
    seconds = points.columns[whole]
    fits = points.columns.get("fits", np.ones(points.shape)) == 1.0
    return seconds, fits, points.columns.get(MEMORY, np.zeros(points.shape))
