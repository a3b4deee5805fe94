"""The best points of a study: the fastest, and the cheapest where cost is reported."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.own.asked.derived import DESIGN
from sightline.exploration.own.asked.reports import BOUND
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
            place, value = _top(part, key, sign)
            if value > top:
                top, row = value, _row(found, part, place)
        if row:
            best[view] = row
    return best


def fastest_points(found: Found) -> dict[str, dict[str, Any]]:
    """The point of each view with most work per second; of a single operator with the shortest time."""
    return best_points(found, found.rate, 1.0) if found.rate else best_points(found, found.task.whole, -1.0)


_TIE = 0.001
"""Points this close to the best are as good."""
_LESS_IS_MORE = ("latency", "launch_time")
"""How keys end of which smaller values are better hardware."""


def _top(part: Part, key: str, sign: float) -> tuple[tuple[int, ...], float]:
    """The place of a part's best point that fits, and its figure; minus infinity without any.

    Of points that tie, that with the least hardware.
    """
    points = part.points
    if points is None:
        return (), -np.inf
    value = sign * points.columns[key]
    value = np.where(points.possible & ~np.isnan(value), value, -np.inf)
    top = value.max()
    if not np.isfinite(top) or not value.shape:
        return (0,) * len(value.shape), float(top)
    ties = np.argwhere(value >= top - _TIE * abs(top))
    ranks = np.stack([_ranks(name, values)[ties[:, i]] for i, (name, values) in enumerate(part.numbers.items())])
    # Of points with as little hardware the one that is best.
    least = np.lexsort((-value[tuple(ties.T)], ranks.sum(axis=0)))[0]
    place = tuple(map(int, ties[least]))
    return place, float(value[place])


def _ranks(key: str, values: Sequence[Any]) -> NDArray[np.int64]:
    """How much hardware each value of an axis stands for, from 0 on; alike where more is no hardware, or a name."""
    if not key.startswith("cluster.") or not all(isinstance(one, int | float) for one in values):
        return np.zeros(len(values), dtype=int)
    ranks = np.unique(np.asarray(values, dtype=float), return_inverse=True)[1]
    return ranks.max() - ranks if key.endswith(_LESS_IS_MORE) else ranks


def _row(found: Found, part: Part, place: tuple[int, ...]) -> dict[str, Any]:
    """The columns of one point of the table."""
    points = part.points
    numbers = {name: part.numbers[name][i] for name, i in zip(part.numbers, place, strict=True)}
    results = {} if points is None else {name: as_python(column[place]) for name, column in points.columns.items()}
    row = {**part.values, **numbers, **results}
    told = {*found.columns, *(DESIGN if found.study.designs else ())} - {"fits", BOUND}
    return {name: value for name, value in row.items() if name in told}


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
        told = dict.fromkeys((*found.study.report, *(DESIGN if designs else ())))
        known = [key for key in told if _is_known(row.get(key))]
        says = ", ".join(result(found.study.task, key, row[key]) for key in known)
        yield f"{of_view(view)}: {word} is {where}{f', with {plan}' if plan else ''}: {says}."


def _of_plan(value: Any) -> str:
    return value if isinstance(value, str) else format(value, "g")


def _is_known(value: Any) -> bool:
    return value is not None and not np.isnan(value)
