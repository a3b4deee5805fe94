"""The sentences of a study: best points, elasticities, power caps, and what they assume."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.base import said_of
from sightline.exploration.knees import elasticities_by_level, knees
from sightline.exploration.own import findings
from sightline.exploration.own.axes import TECHNOLOGY, Axis
from sightline.exploration.own.fastest import devices_each
from sightline.exploration.own.grid import Part, Variation
from sightline.exploration.own.pictures import ABOUT, figures_of
from sightline.exploration.own.reports import BOUND, CARBON, COST, DESIGN
from sightline.exploration.study_answer import StudyAnswer, View
from sightline.loading.clusters import made_of_technology
from sightline.prediction.sensitivity import elasticities
from sightline.profile import LEVEL_NAMES, LEVELS
from sightline.quantities import as_python, counted, percent
from sightline.scenario import GenerationScenario, Scenario
from sightline.technology.synthesis import said_of_power


def best_points(found: findings.Found, key: str, sign: float) -> dict[str, dict[str, Any]]:
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


def fastest_points(found: findings.Found) -> dict[str, dict[str, Any]]:
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


def _row(found: findings.Found, part: Part, place: tuple[int, ...]) -> dict[str, Any]:
    """The columns of one point of the table."""
    points = part.points
    numbers = {name: part.numbers[name][i] for name, i in zip(part.numbers, place, strict=True)}
    results = {} if points is None else {name: as_python(column[place]) for name, column in points.columns.items()}
    row = {**part.values, **numbers, **results}
    told = {*found.columns, *(DESIGN if found.study.designs else ())} - {"fits", BOUND}
    return {name: value for name, value in row.items() if name in told}


def said_of_best(found: findings.Found, best: Mapping[str, Mapping[str, Any]], word: str) -> Iterator[str]:
    """Yield a sentence for the best point of each view, with what it is best in: ``fastest``."""
    axes, designs = ({axis.key: axis for axis in some} for some in (found.axes, found.study.designs))
    for view, row in best.items():
        where = ", ".join(f"{findings.name_of(key)} {findings.in_words(axis, row[key])}" for key, axis in axes.items())
        plan = ", ".join(
            f"{findings.name_of(key)} {findings.in_words(designs[key], value) if key in designs else _of_plan(value)}"
            for key, value in row.items()
            if key.startswith(("plan.", "cluster.")) and key not in axes
        )
        told = dict.fromkeys((*found.study.report, *(DESIGN if designs else ())))
        known = [key for key in told if _is_known(row.get(key))]
        says = f": {', '.join(findings.result(found.study.task, key, row[key]) for key in known)}" if known else ""
        yield f"{findings.of_view(view)}: {word} is {where}{f', with {plan}' if plan else ''}{says}."


def _of_plan(value: Any) -> str:
    return value if isinstance(value, str) else format(value, "g")


def _is_known(value: Any) -> bool:
    return value is not None and not np.isnan(value)


def elasticities_of(found: findings.Found) -> dict[str, dict[str, float]]:
    """By view, the elasticity of the headline to each number of the cluster, in the first scenario."""
    out: dict[str, dict[str, float]] = {}
    for view, base in found.bases.items():
        if not isinstance(base, Scenario | GenerationScenario) or base.cluster.groups:
            continue
        if isinstance(base, Scenario) and base.plan.micro_batch is None:
            base = replace(base, plan=replace(base.plan, micro_batch=_micro_batch(found, view)))  # noqa: PLW2901 - the same
        moved = elasticities(base)
        out[view] = {number: keys[found.headline] for number, keys in moved.items() if found.headline in keys}
    return out


def _micro_batch(found: findings.Found, view: View) -> int:
    """The micro-batch that was found at the first point of a view; 1 where nothing was."""
    for part in found.parts:
        if part.view == view and part.points is not None and "plan.micro_batch" in part.points.columns:
            value = part.points.columns["plan.micro_batch"].ravel()[0]
            return 1 if np.isnan(value) else int(value)
    return 1


FEWEST = 3
"""Values of an axis between which knees are looked for."""


def knees_of(found: findings.Found) -> Iterator[dict[str, Any]]:
    """Yield where, along each number of the cluster, one level's elasticity overtakes another's.

    The other axes are at their first value. Plans that are searched change along an axis, and knees of one plan would
    say nothing of the others.
    """
    study = found.study
    if (
        study.search
        or study.designs
        or not all(isinstance(one, Scenario | GenerationScenario) for one in found.bases.values())
    ):
        return
    for line in findings.lines(found):
        key = line.axis.key
        if len(line.values) < FEWEST or not key.startswith("cluster.") or key.startswith(TECHNOLOGY):
            continue
        numbers = [axis for axis in found.axes if axis.number is not None and not axis.key.startswith(TECHNOLOGY)]
        varied = Variation(base=found.bases[line.view], axes=numbers)
        index = tuple(slice(None) if axis.key == key else slice(0, 1) for axis in numbers)
        by_level = elasticities_by_level(varied.at(index), found.headline)
        for knee in knees(line.values, {level: values.ravel() for level, values in by_level.items()}):
            yield {"view": line.view, "key": key, "position": knee.position, "before": knee.before, "after": knee.after}


LEAST_FALL: Final = 0.99
"""Share of the clock above which none is said to fall."""


def said_of_caps(found: findings.Found) -> Iterator[str]:
    """Yield how many devices a power cap slows down, and who takes the power where the memory takes most of it."""
    part = next((one for one in found.parts if one.devices is not None), None)
    devices = None if part is None else part.devices
    if part is None or devices is None:
        return
    numbers = [axis for axis in found.axes if axis.number is not None]
    cap, share, *watts = np.broadcast_arrays(devices.cap_w, devices.clock_share, *devices.watts.values())
    memory = watts[list(devices.watts).index("memory")]
    shape = np.broadcast_shapes(share.shape, devices.possible.shape)
    slowed = np.broadcast_to((share < 1.0) & devices.possible, shape)
    count = int(np.count_nonzero(slowed))
    if not count:
        return
    taken = np.where(slowed, np.broadcast_to(memory / cap, shape), -1.0)
    place = np.unravel_index(int(taken.argmax()), shape)

    def there(values: np.ndarray) -> float:
        return float(np.broadcast_to(values, shape)[place])

    where = ", ".join(
        f"{findings.name_of(axis.key)} {findings.in_words(axis, axis.values[i])}"
        for axis, i, n in zip(numbers, place, shape, strict=True)
        if n > 1
    )
    powers = said_of_power(there(cap), {name: there(of) for name, of in devices.watts.items()})
    possible = int(np.count_nonzero(np.broadcast_to(devices.possible, shape)))
    falls = f", and the clock falls to {percent(there(share))}" if there(share) <= LEAST_FALL else ""
    yield (
        f"The power cap slows down {count:,} of {counted(possible, 'device')}"
        f"{f', most with {where}' if where else ''}: {powers}{falls}."
    )


def told(found: findings.Found) -> StudyAnswer:
    """Return a study's answer: its table, read."""
    study = found.study
    steps = list(findings.break_evens(found))
    tornado = elasticities_of(found)
    knees_found = list(knees_of(found))
    best = fastest_points(found)
    cheapest = best_points(found, COST, -1.0) if COST in found.study.report else {}
    return StudyAnswer(
        study=study.name,
        title=study.name,
        axes={axis.key: axis.shown for axis in study.axes},
        columns=found.columns,
        about=findings.about(study.task, [*found.axes, *study.designs], list(found.columns)) | dict(ABOUT),
        summary={
            **_counts(found),
            **_named(found, {"best": best} | ({"cheapest": cheapest} if cheapest else {})),
            "bound_level": _shares(found),
            "elasticities": tornado,
            "knees": knees_found,
            "break_even": [step.to_dict() for step in steps],
        },
        assumptions=list(_assumptions(found)),
        reading=[
            *_counted(found),
            *_said_of_best(found, best, cheapest),
            *_said_of_shares(found),
            *_said_along(found),
            *said_of_caps(found),
            *_said_of_knees(found, knees_found),
            *findings.sentences(found, steps),
        ],
        figures=figures_of(found, tornado, steps),
        warnings=list(_warnings(found)),
    )


def _named(found: findings.Found, best: Mapping[str, Any]) -> dict[str, Any]:
    """Best points by their names in a summary; those of a study that was stopped are the best so far."""
    return {f"{name}_so_far" if found.is_part else name: of for name, of in best.items()}


def _said_of_best(found: findings.Found, best: Mapping[str, Any], cheapest: Mapping[str, Any]) -> Iterator[str]:
    so_far = " so far" if found.is_part else ""
    if not best and found.points:
        reason = max(found.reasons, key=lambda one: found.reasons[one], default="")
        yield f"No point fits{so_far}{f': {reason}' if reason else ''}."
    rate = f" in {findings.label_of(found.study.task, found.rate)}" if found.rate else ""
    both = {view: row for view, row in best.items() if row == cheapest.get(view)}
    for rows, word in (
        (both, f"fastest{rate} and cheapest"),
        ({view: row for view, row in best.items() if view not in both}, f"fastest{rate}"),
        ({view: row for view, row in cheapest.items() if view not in both}, "cheapest"),
    ):
        yield from said_of_best(found, rows, f"{word}{so_far}")


def _counts(found: findings.Found) -> dict[str, Any]:
    points = found.points
    fits = found.columns.get("fits", np.ones(points, dtype=bool))
    return {
        "points": points,
        **({"stopped_before": found.whole - points} if found.is_part else {}),
        "fit": int(np.count_nonzero(fits == True)),  # noqa: E712 - a column that may hold None
        "do_not_fit": int(np.count_nonzero(fits == False)),  # noqa: E712 - as above
        "not_possible": dict(found.reasons),
    }


def _counted(found: findings.Found) -> Iterator[str]:
    counts = _counts(found)
    if found.is_part:
        yield f"Stopped after {found.points:,} of {found.whole:,} points{', shown below' if found.points else ''}."
    more = []
    if counts["do_not_fit"]:
        more.append(f"{counts['do_not_fit']:,} do not fit in memory")
    if impossible := sum(found.reasons.values()):
        more.append(f"{impossible:,} are invalid")
    if more or not found.is_part:
        yield f"{counted(counts['points'], 'point')}{': ' if more else ''}{', '.join(more)}."


def _shares(found: findings.Found) -> dict[str, dict[str, float]]:
    """By view, the share of points that fit whose time each level takes most of."""
    shares: dict[str, dict[str, float]] = {}
    for view in found.views:
        counts = np.zeros(len(LEVELS) + 1)
        for part in found.parts:
            if part.view == view and part.points is not None and BOUND in part.points.columns:
                codes = part.points.columns[BOUND][part.points.possible]
                counts += np.bincount(codes.astype(int) % len(counts), minlength=len(counts))
        whole = counts[:-1].sum()
        if whole:
            named = zip(LEVELS, counts, strict=False)
            shares[view] = {level: float(count / whole) for level, count in named if count}
    return shares


def _said_of_shares(found: findings.Found) -> Iterator[str]:
    that_fit = " that fit" if _counts(found)["do_not_fit"] else ""
    for view, shares in _shares(found).items():
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{LEVEL_NAMES[level]} at {percent(share)}" for level, share in ordered)
        yield f"{findings.of_view(view)}: the bottleneck is {listed} of the points{that_fit}."


_UNCHANGED = 0.005
"""Change along an axis that sentences leave out."""


def _said_along(found: findings.Found) -> Iterator[str]:
    """How the headline moves along each axis of numbers; those along which it does not in one sentence."""
    unchanged: dict[View, list[str]] = {}
    for line in findings.lines(found):
        values = line.of(found.headline)
        there = np.flatnonzero(~np.isnan(values)).tolist()
        if len(there) < 2:
            continue
        if findings.change_of(values) < _UNCHANGED:
            unchanged.setdefault(line.view, []).append(findings.name_of(line.axis.key))
        else:
            yield f"{findings.of_view(line.view)}: {_moved(found, line, values, there)}."
    for view, names in unchanged.items():
        of = findings.label_of(found.study.task, found.headline)
        yield f"{findings.of_view(view)}: {of} changes by less than {percent(_UNCHANGED, 1)} along {', '.join(names)}."


def _moved(found: findings.Found, line: findings.Line, values: Any, there: list[int]) -> str:
    """How the headline moves along a line, its least value where that lies inside, and where another level binds."""
    key, task = found.headline, found.study.task
    codes, unit = line.of(BOUND), findings.column_of(task, key).unit
    first, last, least = there[0], there[-1], min(there, key=lambda i: values[i])
    span = (
        f"from {findings.in_words(line.axis, line.values[first])} to {findings.in_words(line.axis, line.values[last])}"
    )
    moved = f"{findings.in_unit(values[first], unit)} to {findings.in_unit(values[last], unit)}"
    is_inside = values[least] * (1.0 + _UNCHANGED) < min(values[first], values[last])
    at = f", lowest {findings.in_unit(values[least], unit)} at {findings.in_words(line.axis, line.values[least])}"
    levels = _sequence([(line.values[i], LEVELS[codes[i]]) for i in there if codes[i] >= 0], line.axis)
    what, of = findings.name_of(line.axis.key), findings.label_of(task, key)
    return f"{what} {span} takes {of} from {moved}{at if is_inside else ''}{levels}"


def _said_of_knees(found: findings.Found, knees: list[dict[str, Any]]) -> Iterator[str]:
    units = {axis.key: axis.unit for axis in found.axes}
    for knee in knees:
        at = f"{findings.name_of(knee['key'])} {findings.in_unit(knee['position'], units[knee['key']])}"
        before, after = LEVEL_NAMES[knee["before"]], LEVEL_NAMES[knee["after"]]
        yield f"{findings.of_view(knee['view'])}: beyond {at}, the time depends more on {after} than on {before}."


def _sequence(bound: list[tuple[Any, str]], axis: Axis) -> str:
    """Which level binds along a line: one, or each from where it begins to."""
    changes = [one for i, one in enumerate(bound) if i == 0 or one[1] != bound[i - 1][1]]
    if not changes:
        return ""
    first, *others = changes
    then = "".join(f", {LEVEL_NAMES[level]} from {findings.in_words(axis, value)}" for value, level in others)
    return f"; limited by {LEVEL_NAMES[first[1]]}{then or ' throughout'}"


def _assumptions(found: findings.Found) -> Iterator[str]:
    yield from map(said_of, found.views)
    if found.study.designs:
        names = ", ".join(axis.key for axis in found.study.designs)
        tried = devices_each(found.study.designs)
        yield (
            f"Every point uses the fastest of {tried:,} devices that can be built, searched over {names}; "
            "continuous values are refined around the best grid point."
        )
    if found.study.search:
        names = ", ".join(found.study.search)
        yield f"Every point uses the fastest plan that fits, searched over {names}; if none fits, the smallest."
    for axis in found.axes:
        if axis.is_multiple:
            yield f"{axis.key} varies in multiples of the device's value."
    for price in found.study.prices:
        scale, unit = findings.PER.get(price.number.unit, (1.0, price.number.unit or "unit"))
        rate = findings.in_unit(price.usd_per_hour_per_unit * scale, "USD/hour")
        yield f"Each {unit} of {price.number.key} adds {rate} to the device price."
    if "device_cost_usd" in found.study.report:
        yield "Manufacturing cost covers good dies and memory, an estimate without package and margins."
    if any(key.startswith(CARBON) for key in found.study.report):
        yield found.study.electricity.sentence
    if firsts := next((line.where for line in findings.lines(found) if line.where), ""):
        yield f"Statements about one axis hold at the first value of the others: {firsts}, ..."
    yield "All other numbers stay those of the base."


def _warnings(found: findings.Found) -> Iterator[str]:
    for sentence, count in found.reasons.items():
        yield f"{counted(count, 'invalid point')}: {sentence}"
    if found.is_part:
        yield f"stopped after {found.points:,} of {found.whole:,} points; the best result is among those"
    elif found.stopped and found.study.designs:
        yield "stopped while refining devices; unrefined devices are the best of a grid"
    varies_technology = _varies_technology(found)
    yield from _warned_of_rents(found)
    for base in found.bases.values():
        said = set(made_of_technology(base.cluster)) if varies_technology else set()
        yield from (sentence for sentence in base.warnings if sentence not in said)


def _varies_technology(found: findings.Found) -> bool:
    return bool(found.study.designs) or any(axis.key.startswith(TECHNOLOGY) for axis in found.axes)


def _warned_of_rents(found: findings.Found) -> Iterator[str]:
    """Yield that devices of other technologies have the rent of the base's, where nothing says what they cost more."""
    reported = [key for key in (COST, "usd_per_hour") if key in found.study.report]
    is_priced = bool(found.study.prices) or any(axis.key == "cluster.device.price" for axis in found.axes)
    clusters = [base.cluster for base in found.bases.values()]
    if not reported or is_priced or not _varies_technology(found) or clusters[0].usd_per_hour is None:
        return
    yield (
        f"{' and '.join(reported)}: every device has the price of {clusters[0].device.name}, so better "
        "technology is free; set prices, or an axis cluster.device.price"
    )
