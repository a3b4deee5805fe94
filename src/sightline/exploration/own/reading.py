"""What a study's table shows, in sentences and figures, and what it assumes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sightline.exploration.answer import StudyAnswer, View
from sightline.exploration.own.axes import Axis
from sightline.exploration.own.break_even import PER, break_evens, sentences
from sightline.exploration.own.figures import figures_of
from sightline.exploration.own.found import Found, lines
from sightline.exploration.own.mesh import Points
from sightline.exploration.own.reports import BOUND
from sightline.exploration.own.table import Part
from sightline.exploration.own.words import in_unit, label_of, name_of, result, unit_of, value_of
from sightline.prediction.sensitivity import elasticities
from sightline.profile import LEVELS, TRAINING
from sightline.quantities import as_python, counted
from sightline.scenario import GenerationScenario, Scenario

VIEWS_SAID: Mapping[View, str] = {
    "ideal": "Ideal view: every device reaches fixed shares of its peak and bandwidth, and launches take no time.",
    "calibrated": "Calibrated view: devices reach what kernels reach today, as far as they were measured.",
}


def told(found: Found) -> StudyAnswer:
    """Return a study's answer: its table, read."""
    study = found.study
    steps = list(break_evens(found))
    units = {axis.key: axis.unit for axis in found.axes}
    tornado = _elasticities(found)
    best = _best(found, found.rate, 1.0) if found.rate else _best(found, found.task.whole, -1.0)
    cheapest = _best(found, COST, -1.0) if COST in found.study.report else {}
    return StudyAnswer(
        study=study.name,
        title=study.name,
        axes={axis.key: axis.shown for axis in study.axes},
        columns=found.columns,
        summary={
            **_counts(found),
            "best": best,
            **({"cheapest": cheapest} if cheapest else {}),
            "bound_level": _shares(found),
            "elasticities": tornado,
            "break_even": [step.to_dict() for step in steps],
        },
        assumptions=list(_assumptions(found)),
        reading=[
            *_counted(found),
            *(_said_of_best(found, best, "fastest") if best else ["No point fits."]),
            *_said_of_best(found, {view: row for view, row in cheapest.items() if row != best.get(view)}, "cheapest"),
            *_said_of_shares(found),
            *_said_along(found),
            *sentences(steps, units),
        ],
        figures=figures_of(found, tornado),
        warnings=list(_warnings(found)),
    )


def _counts(found: Found) -> dict[str, Any]:
    points = len(next(iter(found.columns.values())))
    fits = found.columns.get("fits", np.ones(points, dtype=bool))
    return {
        "points": points,
        "fit": int(np.count_nonzero(fits == True)),  # noqa: E712 - a column that may hold None
        "do_not_fit": int(np.count_nonzero(fits == False)),  # noqa: E712 - as above
        "not_possible": dict(found.reasons),
    }


def _counted(found: Found) -> Iterator[str]:
    counts = _counts(found)
    more = []
    if counts["do_not_fit"]:
        more.append(f"{counts['do_not_fit']:,} do not fit in memory")
    if impossible := sum(found.reasons.values()):
        more.append(f"{impossible:,} cannot be")
    yield f"{counted(counts['points'], 'point')}{': ' if more else ''}{', '.join(more)}."


COST: Final = "cost_usd_per_million_tokens"


def _best(found: Found, key: str, sign: float) -> dict[str, dict[str, Any]]:
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


def _top(points: Points, key: str, sign: float) -> tuple[tuple[int, ...], float]:
    """The place of a part's best point that fits, and its figure; minus infinity without any."""
    value = sign * points.columns[key]
    fits = points.columns["fits"] == 1.0 if "fits" in points.columns else True
    value = np.where(points.done & fits & ~np.isnan(value), value, -np.inf)
    place = tuple(map(int, np.unravel_index(int(value.argmax()), value.shape))) if value.shape else ()
    return place, float(value[place])


def _row(found: Found, part: Part, place: tuple[int, ...]) -> dict[str, Any]:
    """The columns of one point of the table."""
    points = part.points
    numbers = {name: part.numbers[name][i] for name, i in zip(part.numbers, place, strict=True)}
    results = {} if points is None else {name: as_python(column[place]) for name, column in points.columns.items()}
    row = {**part.values, **numbers, **results}
    return {name: value for name, value in row.items() if name in found.columns and name not in ("fits", BOUND)}


def _said_of_best(found: Found, best: Mapping[str, Mapping[str, Any]], word: str) -> Iterator[str]:
    axes = {axis.key: axis for axis in found.axes}
    for view, row in best.items():
        where = ", ".join(f"{name_of(key)} {_in_words(axis, row[key])}" for key, axis in axes.items())
        plan = ", ".join(
            f"{name_of(key)} {value if isinstance(value, str) else format(value, 'g')}"
            for key, value in row.items()
            if key.startswith("plan.") and key not in axes
        )
        known = [key for key in found.study.report if _is_known(row.get(key))]
        says = ", ".join(result(found.study.task, key, row[key]) for key in known)
        yield f"{_of_view(view)}: {word} is {where}{f', with {plan}' if plan else ''}: {says}."


def _in_words(axis: Axis, value: Any) -> str:
    return in_unit(float(value), axis.unit) if axis.is_multiple else value_of(axis, value)


def _shares(found: Found) -> dict[str, dict[str, float]]:
    """By view, the share of points whose time each level takes most of."""
    shares: dict[str, dict[str, float]] = {}
    for view in found.views:
        counts = np.zeros(len(LEVELS) + 1)
        for part in found.parts:
            if part.view == view and part.points is not None and BOUND in part.points.columns:
                codes = part.points.columns[BOUND][part.points.done]
                counts += np.bincount(codes.astype(int) % len(counts), minlength=len(counts))
        whole = counts[:-1].sum()
        if whole:
            named = zip(LEVELS, counts, strict=False)
            shares[view] = {level: float(count / whole) for level, count in named if count}
    return shares


def _said_of_shares(found: Found) -> Iterator[str]:
    for view, shares in _shares(found).items():
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{level} binds {share:.0%}" for level, share in ordered)
        yield f"{_of_view(view)}: {listed} of the points."


def _said_along(found: Found) -> Iterator[str]:
    """How the headline moves along each axis of numbers, and where another level begins to bind."""
    key, task = found.headline, found.study.task
    for line in lines(found):
        values, codes = line.of(key), line.of(BOUND)
        there = np.flatnonzero(~np.isnan(values))
        if len(there) < 2:
            continue
        first, last = there[0], there[-1]
        span = f"from {_in_words(line.axis, line.values[first])} to {_in_words(line.axis, line.values[last])}"
        moved = f"{in_unit(values[first], unit_of(task, key))} to {in_unit(values[last], unit_of(task, key))}"
        levels = _sequence([(line.values[i], LEVELS[codes[i]]) for i in there if codes[i] >= 0], line.axis)
        what, of = name_of(line.axis.key), label_of(task, key)
        yield f"{_of_view(line.view)}: {what} {span} takes {of} from {moved}{levels}."


def _sequence(bound: list[tuple[Any, str]], axis: Axis) -> str:
    """Which level binds along a line: one, or each from where it begins to."""
    changes = [one for i, one in enumerate(bound) if i == 0 or one[1] != bound[i - 1][1]]
    if not changes:
        return ""
    first, *others = changes
    then = "".join(f", {level} from {_in_words(axis, value)}" for value, level in others)
    return f"; {first[1]} binds{then or ' throughout'}"


def _elasticities(found: Found) -> dict[str, dict[str, float]]:
    """By view, the elasticity of the headline to each number of the cluster, in the first scenario."""
    out: dict[str, dict[str, float]] = {}
    for view, base in found.bases.items():
        if not isinstance(base, Scenario | GenerationScenario) or base.cluster.groups:
            continue
        scenario: Any = base
        if found.task is TRAINING and base.plan.micro_batch is None:
            micro_batch = next((int(row["plan.micro_batch"]) for row in (_first(found, view),) if row), 1)
            scenario = replace(base, plan=replace(base.plan, micro_batch=micro_batch))
        moved = elasticities(scenario)
        out[view] = {number: keys[found.headline] for number, keys in moved.items() if found.headline in keys}
    return out


def _first(found: Found, view: View) -> dict[str, Any]:
    """The plan that was found at the first point of a view."""
    for part in found.parts:
        if part.view == view and part.points is not None and "plan.micro_batch" in part.points.columns:
            value = part.points.columns["plan.micro_batch"].ravel()[0]
            return {} if np.isnan(value) else {"plan.micro_batch": value}
    return {}


def _assumptions(found: Found) -> Iterator[str]:
    yield from (VIEWS_SAID[view] for view in found.views)
    if found.study.search:
        names = ", ".join(found.study.search)
        yield f"Every point has the fastest plan that fits, searched over {names}; where none fits, the smallest."
    for axis in found.axes:
        if axis.is_multiple:
            yield f"{axis.key} is varied in multiples of the device's own."
    for price in found.study.prices:
        scale, unit = PER.get(price.number.unit, (1.0, price.number.unit or "unit"))
        rate = in_unit(price.usd_per_hour_per_unit * scale, "USD/hour")
        yield f"Each {unit} of {price.number.key} adds {rate} to a device's rent."
    if firsts := next((line.where for line in lines(found) if line.where), ""):
        yield f"Sentences about one axis hold at the first value of the others: {firsts}, ..."
    yield "Numbers that are not varied stay those of the base, whatever a device with the varied ones would need."


def _warnings(found: Found) -> Iterator[str]:
    for sentence, count in found.reasons.items():
        yield f"{counted(count, 'point')} cannot be: {sentence}"
    if found.stopped:
        whole = found.study.points * len(found.views)
        yield f"stopped after {_counts(found)['points']:,} of {whole:,} points"
    for base in found.bases.values():
        yield from base.warnings
