"""Devices searched together with plans: shares of the die, stacks, clock and voltage that a study leaves open.

Each is an axis that the answer does not have: at every point of the others the best device that can be built is taken.
A grid is the same at all points; what is continuous is refined around the best of each (`exploration.optimize`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.optimize import ROUNDS, TRIED, finer
from sightline.exploration.own.asked.axes import Axis, along
from sightline.exploration.own.asked.cells import Reasons
from sightline.exploration.own.asked.numbers import TECHNOLOGY
from sightline.exploration.own.asked.reports import MEMORY
from sightline.exploration.own.points.fitting import fitting_first
from sightline.exploration.own.points.mesh import Points
from sightline.exploration.own.points.technology import Around, Devices

NONE_HAS_A_PLAN: Final = "no device of the search has a plan"
Tried = Callable[[Sequence[Axis], Around], Points]
"""Works out all points of the axes that a study has and of those that are searched, which come last."""


def best_designs(tried: Tried, searched: Sequence[Axis], whole: str) -> Points:
    """Return the points of a study's own axes, each with its fastest device; points without any have no figures."""
    best = _best_of(tried(searched, {}), searched, {}, whole)
    refined = {axis.key: axis for axis in searched if _is_continuous(axis)}
    axes = [replace(axis, values=tuple(range(TRIED))) if axis.key in refined else axis for axis in searched]
    for step in range(ROUNDS if refined else 0):
        if not best.done.all() or whole not in best.columns:
            break
        around = {key: _around(best, axis, step, axes) for key, axis in refined.items()}
        best = _better(best, _best_of(tried(axes, around), axes, around, whole), whole)
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
        _count(reasons, f"no device of the search can be built, as {TECHNOLOGY}: {sentence}", here)
        left = left & ~here
    _count(reasons, "no device of the search can be built: each exceeds one limit or another", left & none_can_be)
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
    """Values of a searched axis near the best of each point, along its dimension among all."""
    values = finer(best.columns[axis.key], axis.values, step)
    place = [one.key for one in searched].index(axis.key)
    return values.reshape(*best.shape, *(TRIED if i == place else 1 for i in range(len(searched))))


def _best_of(points: Points, searched: Sequence[Axis], around: Around, whole: str) -> Points:
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
