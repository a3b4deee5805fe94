"""The best points of a study: the fastest, and the cheapest where cost is reported."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from sightline.exploration.own.asked.reports import BOUND, COST
from sightline.exploration.own.points.mesh import Points
from sightline.exploration.own.points.table import Part
from sightline.exploration.own.told.found import Found
from sightline.exploration.own.told.words import in_words, name_of, of_view, result
from sightline.quantities import as_python


def best_points(found: Found, key: str, sign: float) -> dict[str, dict[str, Any]]:
    """The point of each view that fits and has the most of a result, or the least where ``sign`` is -1."""
    best: dict[str, dict[str, Any]] = {}
    for view in found.views:
        top, row = -np.inf, {}
        for part in found.parts:
            if part.view != view or part.points is None or key not in part.points.columns:
                continue
            place, value = _top(part.points, key, sign)
            if value > top:
                top, row = value, _row(found, part, place)
        if row:
            best[view] = row
    return best


def fastest_points(found: Found) -> dict[str, dict[str, Any]]:
    """The point of each view with most work per second; of a single operator with the shortest time."""
    return best_points(found, found.rate, 1.0) if found.rate else best_points(found, found.task.whole, -1.0)


def _top(points: Points, key: str, sign: float) -> tuple[tuple[int, ...], float]:
    """The place of a part's best point that fits, and its figure; minus infinity without any."""
    value = sign * points.columns[key]
    value = np.where(points.possible & ~np.isnan(value), value, -np.inf)
    place = tuple(map(int, np.unravel_index(int(value.argmax()), value.shape))) if value.shape else ()
    return place, float(value[place])


def _row(found: Found, part: Part, place: tuple[int, ...]) -> dict[str, Any]:
    """The columns of one point of the table."""
    points = part.points
    numbers = {name: part.numbers[name][i] for name, i in zip(part.numbers, place, strict=True)}
    results = {} if points is None else {name: as_python(column[place]) for name, column in points.columns.items()}
    row = {**part.values, **numbers, **results}
    return {name: value for name, value in row.items() if name in found.columns and name not in ("fits", BOUND)}


def said_of_best(found: Found, best: Mapping[str, Mapping[str, Any]], word: str) -> Iterator[str]:
    """Yield a sentence for the best point of each view, with what it is best in: ``fastest``."""
    axes, designs = ({axis.key: axis for axis in some} for some in (found.axes, found.study.designs))
    for view, row in best.items():
        where = ", ".join(f"{name_of(key)} {in_words(axis, row[key])}" for key, axis in axes.items())
        plan = ", ".join(
            f"{name_of(key)} {in_words(designs[key], value) if key in designs else _of_plan(value)}"
            for key, value in row.items()
            if key.startswith(("plan.", "cluster.")) and key not in axes
        )
        known = [key for key in found.study.report if _is_known(row.get(key))]
        says = ", ".join(result(found.study.task, key, row[key]) for key in known)
        yield f"{of_view(view)}: {word} is {where}{f', with {plan}' if plan else ''}: {says}."


def _of_plan(value: Any) -> str:
    return value if isinstance(value, str) else format(value, "g")


def _is_known(value: Any) -> bool:
    return value is not None and not np.isnan(value)
