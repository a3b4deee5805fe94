"""What a study's table shows, in sentences and figures, and what it assumes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sightline.exploration.answer import StudyAnswer, View
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.derived import CARBON
from sightline.exploration.own.asked.numbers import TECHNOLOGY
from sightline.exploration.own.asked.reports import BOUND, COST
from sightline.exploration.own.points.designs import devices_each
from sightline.exploration.own.told.best import best_points, fastest_points, said_of_best
from sightline.exploration.own.told.break_even import PER, break_evens, sentences
from sightline.exploration.own.told.elasticity import elasticities_of, knees_of
from sightline.exploration.own.told.figures import ABOUT, figures_of
from sightline.exploration.own.told.found import Found, Line, change_of, lines
from sightline.exploration.own.told.power import said_of_caps
from sightline.exploration.own.told.words import about, column_of, in_unit, in_words, label_of, name_of, of_view
from sightline.exploration.views import said_of
from sightline.loading.clusters import made_of_technology
from sightline.profile import LEVEL_NAMES, LEVELS
from sightline.quantities import counted, percent


def told(found: Found) -> StudyAnswer:
    """Return a study's answer: its table, read."""
    study = found.study
    steps = list(break_evens(found))
    tornado = elasticities_of(found)
    knees_found = list(knees_of(found))
    best = fastest_points(found)
    cheapest = best_points(found, COST, -1.0) if COST in found.study.report else {}
    return StudyAnswer(
        study=study.name,
        title=study.name,
        axes={axis.key: axis.shown for axis in study.axes},
        columns=found.columns,
        about=about(study.task, [*found.axes, *study.designs], list(found.columns)) | dict(ABOUT),
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
            *sentences(found, steps),
        ],
        figures=figures_of(found, tornado, steps),
        warnings=list(_warnings(found)),
    )


def _named(found: Found, best: Mapping[str, Any]) -> dict[str, Any]:
    """Best points by their names in a summary; those of a study that was stopped are the best so far."""
    return {f"{name}_so_far" if found.is_part else name: of for name, of in best.items()}


def _said_of_best(found: Found, best: Mapping[str, Any], cheapest: Mapping[str, Any]) -> Iterator[str]:
    so_far = " so far" if found.is_part else ""
    if not best and found.points:
        reason = max(found.reasons, key=lambda one: found.reasons[one], default="")
        yield f"No point fits{so_far}{f': {reason}' if reason else ''}."
    rate = f" in {label_of(found.study.task, found.rate)}" if found.rate else ""
    both = {view: row for view, row in best.items() if row == cheapest.get(view)}
    for rows, word in (
        (both, f"fastest{rate} and cheapest"),
        ({view: row for view, row in best.items() if view not in both}, f"fastest{rate}"),
        ({view: row for view, row in cheapest.items() if view not in both}, "cheapest"),
    ):
        yield from said_of_best(found, rows, f"{word}{so_far}")


def _counts(found: Found) -> dict[str, Any]:
    points = found.points
    fits = found.columns.get("fits", np.ones(points, dtype=bool))
    return {
        "points": points,
        **({"stopped_before": found.whole - points} if found.is_part else {}),
        "fit": int(np.count_nonzero(fits == True)),  # noqa: E712 - a column that may hold None
        "do_not_fit": int(np.count_nonzero(fits == False)),  # noqa: E712 - as above
        "not_possible": dict(found.reasons),
    }


def _counted(found: Found) -> Iterator[str]:
    counts = _counts(found)
    if found.is_part:
        yield f"Stopped after {found.points:,} of {found.whole:,} points{', which follow' if found.points else ''}."
    more = []
    if counts["do_not_fit"]:
        more.append(f"{counts['do_not_fit']:,} do not fit in memory")
    if impossible := sum(found.reasons.values()):
        more.append(f"{impossible:,} cannot be")
    if more or not found.is_part:
        yield f"{counted(counts['points'], 'point')}{': ' if more else ''}{', '.join(more)}."


def _shares(found: Found) -> dict[str, dict[str, float]]:
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


def _said_of_shares(found: Found) -> Iterator[str]:
    that_fit = " that fit" if _counts(found)["do_not_fit"] else ""
    for view, shares in _shares(found).items():
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{LEVEL_NAMES[level]} binds {percent(share)}" for level, share in ordered)
        yield f"{of_view(view)}: {listed} of the points{that_fit}."


_UNCHANGED = 0.005
"""Change along an axis that sentences leave out."""


def _said_along(found: Found) -> Iterator[str]:
    """How the headline moves along each axis of numbers; those along which it does not in one sentence."""
    unchanged: dict[View, list[str]] = {}
    for line in lines(found):
        values = line.of(found.headline)
        there = np.flatnonzero(~np.isnan(values)).tolist()
        if len(there) < 2:
            continue
        if change_of(values) < _UNCHANGED:
            unchanged.setdefault(line.view, []).append(name_of(line.axis.key))
        else:
            yield f"{of_view(line.view)}: {_moved(found, line, values, there)}."
    for view, names in unchanged.items():
        of = label_of(found.study.task, found.headline)
        yield f"{of_view(view)}: {of} changes by less than {percent(_UNCHANGED, 1)} along {', '.join(names)}."


def _moved(found: Found, line: Line, values: Any, there: list[int]) -> str:
    """How the headline moves along a line, its least value where that lies inside, and where another level binds."""
    key, task = found.headline, found.study.task
    codes, unit = line.of(BOUND), column_of(task, key).unit
    first, last, least = there[0], there[-1], min(there, key=lambda i: values[i])
    span = f"from {in_words(line.axis, line.values[first])} to {in_words(line.axis, line.values[last])}"
    moved = f"{in_unit(values[first], unit)} to {in_unit(values[last], unit)}"
    is_inside = values[least] * (1.0 + _UNCHANGED) < min(values[first], values[last])
    at = f" with the least, {in_unit(values[least], unit)}, at {in_words(line.axis, line.values[least])}"
    levels = _sequence([(line.values[i], LEVELS[codes[i]]) for i in there if codes[i] >= 0], line.axis)
    what, of = name_of(line.axis.key), label_of(task, key)
    return f"{what} {span} takes {of} from {moved}{at if is_inside else ''}{levels}"


def _said_of_knees(found: Found, knees: list[dict[str, Any]]) -> Iterator[str]:
    units = {axis.key: axis.unit for axis in found.axes}
    for knee in knees:
        at = f"{name_of(knee['key'])} {in_unit(knee['position'], units[knee['key']])}"
        before, after = LEVEL_NAMES[knee["before"]], LEVEL_NAMES[knee["after"]]
        yield f"{of_view(knee['view'])}: beyond {at} the time depends on {after} more than on {before}."


def _sequence(bound: list[tuple[Any, str]], axis: Axis) -> str:
    """Which level binds along a line: one, or each from where it begins to."""
    changes = [one for i, one in enumerate(bound) if i == 0 or one[1] != bound[i - 1][1]]
    if not changes:
        return ""
    first, *others = changes
    then = "".join(f", {LEVEL_NAMES[level]} from {in_words(axis, value)}" for value, level in others)
    return f"; {LEVEL_NAMES[first[1]]} binds{then or ' throughout'}"


def _assumptions(found: Found) -> Iterator[str]:
    yield from map(said_of, found.views)
    if found.study.designs:
        names = ", ".join(axis.key for axis in found.study.designs)
        tried = devices_each(found.study.designs)
        yield (
            f"Every point has the fastest of {tried:,} devices that can be built, searched over {names}; what is "
            "continuous is refined around the best of a grid."
        )
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
    if "device_cost_usd" in found.study.report:
        yield "What a device costs to make is that of good dies and of memory, an estimate without package and margins."
    if any(key.startswith(CARBON) for key in found.study.report):
        yield found.study.electricity.sentence
    if firsts := next((line.where for line in lines(found) if line.where), ""):
        yield f"Sentences about one axis hold at the first value of the others: {firsts}, ..."
    yield "Numbers that are not varied stay those of the base, whatever a device with the varied ones would need."


def _warnings(found: Found) -> Iterator[str]:
    for sentence, count in found.reasons.items():
        yield f"{counted(count, 'point')} cannot be: {sentence}"
    if found.is_part:
        yield f"stopped after {found.points:,} of {found.whole:,} points; what is best is that of those"
    elif found.stopped and found.study.designs:
        yield "stopped while devices were refined; those that were not are the best of a grid"
    varies_technology = _varies_technology(found)
    yield from _warned_of_rents(found)
    for base in found.bases.values():
        said = set(made_of_technology(base.cluster)) if varies_technology else set()
        yield from (sentence for sentence in base.warnings if sentence not in said)


def _varies_technology(found: Found) -> bool:
    return bool(found.study.designs) or any(axis.key.startswith(TECHNOLOGY) for axis in found.axes)


def _warned_of_rents(found: Found) -> Iterator[str]:
    """Yield that devices of other technologies have the rent of the base's, where nothing says what they cost more."""
    reported = [key for key in (COST, "usd_per_hour") if key in found.study.report]
    is_priced = bool(found.study.prices) or any(axis.key == "cluster.device.price" for axis in found.axes)
    clusters = [base.cluster for base in found.bases.values()]
    if not reported or is_priced or not _varies_technology(found) or clusters[0].usd_per_hour is None:
        return
    yield (
        f"{' and '.join(reported)}: every device has the rent of {clusters[0].device.name}, so that better technology "
        "costs nothing more; state prices, or an axis cluster.device.price"
    )
