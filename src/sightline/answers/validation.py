"""How far to trust predictions: errors by suite and case, cases nearby, residuals of fits, evidence by combination."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sightline.answers import units
from sightline.answers.outline import FAINT, Charts, Lines, Outline, Rows, Said, Section
from sightline.answers.profile import evidence_part, rests_on, short_answer
from sightline.content import grouped
from sightline.profile import Profile
from sightline.profile.metrics import metric_of
from sightline.quantities import counted, percent
from sightline.validation.coverage_cells import STATUSES, TABLES, Cell

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration
    from sightline.validation.cases import Answer, Result
    from sightline.validation.nearest import Near

NOTHING = "-"

_SHORT = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "micro_batch": "mb",
    "zero_stage": "zero",
    "recompute": "recompute",
}
"""How a list of cases abbreviates the plan."""
_ASKED = {"batch": "batch", "prompt_tokens": "in", "output_tokens": "out"}
"""How it abbreviates what was generated."""


TITLE = "Predicted and measured"
FOOTNOTE = (
    "Errors are relative to the measured value. A bias above 0 means that predictions are too high. `inside` is "
    "the share of 80 % intervals that contain the measured value, `half-width` their median half-width."
)
PARTS = "Constants were fitted to part `fit`; part `test` was held out."


def validation_outline(results: "Sequence[Result]", *, cases: bool = False) -> Outline:
    """Return how far to trust predictions, suite by suite; with ``cases`` also case by case."""
    lines = list(_short_answer(results))
    label = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    has_parts = any(one.split in ("fit", "test") for one in results)
    kinds = {kind: [one for parts in suites.values() for one in parts] for kind, suites in by_kind(results).items()}
    return Outline(
        title=TITLE,
        said=lines,
        parts=[
            Charts(answer=results, label=label),
            *(_errors(f"Suites of {kind}", found) for kind, found in kinds.items()),
            Lines(lines=[" ".join([FOOTNOTE, *[PARTS] * has_parts])], kind=FAINT),
            *([Section(title="Cases", parts=[_cases(result) for result in results])] if cases else []),
        ],
    )


def _errors(title: str, results: "Sequence[Result]") -> Rows:
    return Rows(
        title=title,
        headings=(
            "suite",
            "quantity",
            "part",
            "cases",
            *("mean error", "median", "p90", "max", "bias", "inside", "half-width"),
        ),
        rows=[(one.suite, quantity_name(one.quantity), *error_cells(one)) for one in results],
        numbers=[False, False, False, *[True] * 8],
        most=100,
        labels=3,
        grouped=2,
        least=("p90", "max"),
    )


def _cases(result: "Result") -> Rows:
    """The cases of one part of a suite: measured, predicted and the error between them."""
    return Rows(
        title=f"{result.suite}, {result.split}: {quantity_name(result.quantity)}",
        headings=("case", "measured", "predicted", "error"),
        rows=list(map(case_cells, result.answers)),
        is_folded=True,
    )


def _short_answer(results: "Sequence[Result]") -> Iterator[Said]:
    """Yield, for each kind of suite, how many cases there are and the mean and largest error of its suites."""
    for kind, suites in by_kind(results).items():
        found = [one for parts in suites.values() for one in parts]
        errors = [one.mape for one in found if one.mape is not None]
        if errors:
            cases = sum(one.cases for one in found)
            ends = dict.fromkeys(f"{100 * end:.1f}" for end in (min(errors), max(errors)))
            by_suite = " by suite" if len(found) > 1 else ""
            parts = counted(len(found), "part of suites", "parts of suites")
            yield Said(
                asks=kind, says=f"{counted(cases, 'case')} in {parts}: mean error {' to '.join(ends)} %{by_suite}"
            )


_KINDS = {"all": "all", "dense": "dense", "experts": "MoE", "unmeasured_devices": "new devices"}


def expected_outline(means: Mapping[str, Mapping[str, Any]]) -> Outline:
    """Return what sources left out let one expect, a line for each kind of layers."""
    rows = [
        (_KINDS[kind], str(of["sources"]), str(of["rows"]), *map(_error, (of["mape"], of["largest"])), *_interval(of))
        for kind, of in means.items()
    ]
    headings = ("left out", "sources", "cases", "mean", "largest", "inside", "below 60 %", "half-width")
    return Outline(title="Means over sources and device architectures", parts=[Rows(headings=headings, rows=rows)])


def _interval(of: Mapping[str, Any]) -> tuple[str, ...]:
    return percent(of["coverage"]), str(of["sources_below_60"]), percent(of["half_width"])


def by_kind(results: "Sequence[Result]") -> "dict[str, dict[str, list[Result]]]":
    """Return the results by kind of suite and then by suite, in the order they come."""
    kinds: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        kinds.setdefault(result.kind, {}).setdefault(result.suite, []).append(result)
    return kinds


def quantity_name(quantity: str) -> str:
    """Return the name of a quantity for people."""
    return metric_of(quantity).spoken


def case_cells(answer: "Answer") -> tuple[str, ...]:
    """Return a case's name, what was measured and predicted, and the error."""
    name, measured = case_label(answer), units.digits(answer.case.measured, 4)
    if answer.predicted is None:
        return f"{name}: {answer.reason.splitlines()[0]}", measured, NOTHING, NOTHING
    return name, measured, units.digits(answer.predicted, 4), _error(answer.error, signed=True)


def case_label(answer: "Answer") -> str:
    """Return the case's name, or which model runs on what and how."""
    scenario = answer.case.scenario
    if scenario.get("name"):
        return str(scenario["name"])
    model, cluster, plan = scenario.get("model"), scenario.get("cluster"), scenario.get("plan", {})
    if isinstance(model, dict):
        model = model.get("name") or f"{model.get('hidden_size')} x {model.get('num_hidden_layers')} layers"
    if isinstance(cluster, dict):
        cluster = cluster.get("devices")
    workload = scenario.get("workload", {})
    said = [f"{short} {plan[key]}" for key, short in _SHORT.items() if key in plan]
    said += [f"{short} {workload[key]}" for key, short in _ASKED.items() if key in workload]
    return ", ".join([f"{model} on {cluster}", " ".join(said)]).rstrip(", ")


def error_cells(result: "Result") -> list[str]:
    """Return a result's part and cases, its mean, median, p90 and largest error, its bias, coverage and half-width."""
    unanswered = f" ({result.unanswered} unanswered)" if result.unanswered else ""
    sizes = [_error(value) for value in (result.mape, result.median_ape, result.p90_ape, result.max_ape)]
    interval = (NOTHING if of is None else percent(of) for of in (result.coverage, result.half_width))
    return [result.split, f"{result.cases}{unanswered}", *sizes, _error(result.bias, signed=True), *interval]


def _error(value: float | None, *, signed: bool = False) -> str:
    return NOTHING if value is None else percent(value, 1, signed=signed)


_COLUMNS = ("case", "same", "measured", "predicted", "error", "inside 80 % interval", "suite", "part")
_IS_NUMBER = [False, False, True, True, True, False, False, False]


def trust_outline(profile: Profile, near: "Sequence[Near]") -> Outline:
    """Return what a prediction rests on, with the measured cases ``near`` it, before any case is looked up by hand."""
    fast = [line for line in short_answer(profile) if line.key == "speed"]
    said = f"{PARTS} Cases with the same device and framework are the most informative."
    return Outline(
        title="Evidence for this result",
        said=[*fast, *rests_on(profile), _near_errors(near)],
        parts=[
            Section(title="Nearest measured cases", parts=list(_near_tables(near))),
            Lines(lines=[said] if near else [], kind=FAINT),
            evidence_part(profile),
        ],
    )


def _named(quantity: str) -> str:
    return f"{quantity_name(quantity)}{' in seconds' if metric_of(quantity).unit == 's' else ''}"


def _near_tables(near: "Sequence[Near]") -> Iterator[Rows]:
    """A table for each quantity, under its name and unit."""
    for quantity in dict.fromkeys(one.quantity for one in near):
        rows = [_near_row(one) for one in near if one.quantity == quantity]
        title = f"Measured and predicted: {_named(quantity)}"
        yield Rows(title=title, headings=_COLUMNS, rows=rows, numbers=_IS_NUMBER)


def _near_errors(near: "Sequence[Near]") -> Said:
    answered = [one for one in near if one.answer.predicted is not None]
    if not answered:
        return Said(asks="nearest cases", says="no published case of this task uses the device or the framework")
    most = max(len(one.shares) for one in answered)
    closest = [one for one in answered if len(one.shares) == most]
    mean = fmean(abs(one.answer.error) for one in closest)
    inside = [_is_inside(one) for one in closest if one.answer.interval]
    held = f", {sum(inside)} of {len(inside)} inside their 80 % interval" if inside else ""
    shares = sorted({" and ".join(one.shares) for one in closest})
    same = f"same {' or '.join(shares)}"
    return Said(
        asks="nearest cases", says=f"{counted(len(closest), 'case')} ({same}): mean error {percent(mean, 1)}{held}"
    )


def _near_row(near: "Near") -> tuple[str, ...]:
    name, *figures = case_cells(near.answer)
    inside = ("yes" if _is_inside(near) else "no") if near.answer.interval else "-"
    same = ", ".join(near.shares)
    return name, same, *figures, inside, near.suite, near.answer.case.split


def _is_inside(near: "Near") -> bool:
    low, high = near.answer.interval or (0.0, 0.0)
    return low <= near.answer.case.measured <= high


MOST_COLUMNS = 5
"""Kernels shown in columns; more are shown in rows."""


def calibration_outline(calibration: "Calibration") -> Outline:
    """Return the constants of each kernel, then the residuals of all."""
    return Outline(
        title=f"{calibration.device}, {calibration.part}", parts=[_constants(calibration), _residuals(calibration)]
    )


def _constants(calibration: "Calibration") -> Rows:
    kernels, fitted, covered = calibration.fit.constants, calibration.fit.rows, calibration.covered
    if len(kernels) > MOST_COLUMNS:
        headings = ("kernel", "rows", "constants")
        return Rows(title="Constants", headings=headings, rows=list(_by_row(calibration)), numbers=False)
    rows: list[tuple[str, ...]] = [
        (name, *(_value(name, constants.get(name)) for constants in kernels.values())) for name in _keys(kernels)
    ]
    for count in _keys(fitted):
        counted = (_count(fitted.get(kernel, {}), count) for kernel in kernels)
        rows.append((f"rows, {count.replace('_', ' ')}", *counted))
    for column in _keys(covered):
        ranges = (_range(covered.get(kernel, {}), column) for kernel in kernels)
        rows.append((f"{column} covered", *ranges))
    rows.append(("evidence", *("calibrated" if kernel in fitted else "with it" for kernel in kernels)))
    return Rows(title="Constants", headings=("constant", *kernels), rows=rows)


def _keys(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, None]:
    """The keys of all kernels' tables, each once."""
    return dict.fromkeys(key for table in tables.values() for key in table)


def _by_row(calibration: "Calibration") -> Iterator[tuple[str, str, str]]:
    """The constants of very many kernels: a row for each, with its constants in words."""
    for kernel, constants in calibration.fit.constants.items():
        said = ", ".join(f"{name} {_value(name, value)}" for name, value in constants.items())
        yield kernel, _count(calibration.fit.rows.get(kernel, {}), "fitted"), said


def _residuals(calibration: "Calibration") -> Rows:
    rows = [
        (
            *(kernel, name, f"{figures['rows']:.0f}"),
            *(percent(figures[key], 1) for key in ("median", "p90")),
            percent(figures["bias"], 1, signed=True),
        )
        for kernel, ranges in calibration.fit.residuals.items()
        for name, figures in ranges.items()
    ]
    title = "Errors of the fit: predicted / measured - 1"
    headings = ("kernel", "rows of", "rows", "median", "90th percentile", "bias")
    return Rows(title=title, headings=headings, rows=rows, numbers=[False, False, *[True] * 4], labels=2)


def _value(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return units.seconds(value) if metric_of(name).unit == "s" else f"{value:.3g}"


def _count(counts: Mapping[str, int], name: str) -> str:
    return f"{counts[name]:,}" if name in counts else "-"


def _range(ranges: Mapping[str, tuple[float, float]], column: str) -> str:
    if column not in ranges:
        return "-"
    low, high = ranges[column]
    shown = units.size if column == "bytes" else units.digits
    return shown(low) if low == high else f"{shown(low)} - {shown(high)}"


COVERAGE_TITLE = "Evidence behind predictions"
MEANINGS: Mapping[str, str] = {
    "calibrated": "constants fitted to measurements of this case",
    "extrapolated": "constants of a related case: another device, other sizes or formats, or too few measurements",
    "datasheet-only": "no measurement: datasheet values and averages over devices",
    "unsupported": "not supported",
}
"""Of each status."""
NAMES: Mapping[str, tuple[str, str, str]] = {
    "operators": ("Devices and operators", "device", "operator"),
    "techniques": ("Frameworks and techniques", "framework", "technique"),
    "features": ("Engines and features", "engine", "feature"),
}
"""Of each table: its title, and what its rows are of."""
_FEW = 4
"""Devices, frameworks and engines up to which every choice is listed."""
_MOST_ROWS = 500
"""Rows of a table in Markdown."""


def coverage_outline(cells: Sequence[Cell]) -> Outline:
    """Return what the words mean, and the tables."""
    tables = list(_tables(cells))
    shown = {heading for table in tables for heading in table.headings}
    numbers = [Said(asks=what, says=meaning) for heading, (what, meaning) in NUMBERS.items() if heading in shown]
    return Outline(
        title=COVERAGE_TITLE,
        legend=[*(Said(asks=status, says=meaning) for status, meaning in MEANINGS.items()), *numbers],
        parts=tables,
        footnotes=[_EACH_CELL],
    )


_EACH_CELL = (
    "Every cell is the result of one small scenario (see the JSON). Other sizes and plans may have weaker "
    "evidence; every prediction reports its own."
)


def _tables(cells: Sequence[Cell]) -> Iterator[Rows]:
    """A table of each kind: every choice of a few names, or counts of many."""
    for table in TABLES:
        title, of, what = NAMES[table]
        by_name = grouped((cell.of, cell) for cell in cells if cell.table == table)
        if len(by_name) > _FEW:
            counts = [(name, *_counts(own)) for name, own in by_name.items()]
            yield Rows(title=title, headings=(of, *STATUSES), rows=counts, most=_MOST_ROWS)
            continue
        for name, own in by_name.items():
            is_of_operators = table == "operators"
            headings = _OF_OPERATORS if is_of_operators else _OF_CHOICES
            rows = list(_by_format(own)) if is_of_operators else list(map(_choice, own))
            named = f"{name}: {what}s"
            yield Rows(title=named, headings=(what, *headings), rows=rows, numbers=False, most=_MOST_ROWS)


_PUBLISHED = "published cases (sources)"
_OF_OPERATORS = ("status", "formats", "why")
_OF_CHOICES = ("status", _PUBLISHED, "why")


NUMBERS: Mapping[str, tuple[str, str]] = {
    _PUBLISHED: (_PUBLISHED, "978 (9) means 978 published cases from 9 sources; a dash means none"),
    STATUSES[0]: ("numbers", "operators per format, techniques or features with this status"),
}
"""By a heading of a table: what its numbers are called, and what they are."""


def _counts(cells: Sequence[Cell]) -> Iterator[str]:
    """How many cells have each status."""
    found = [cell.status for cell in cells]
    return (str(found.count(status)) for status in STATUSES)


def _by_format(cells: Sequence[Cell]) -> Iterator[Sequence[str]]:
    """The formats of each operator by status and what keeps them from a better one; the operator's name once."""
    for what, of_operator in groupby(cells, key=lambda cell: cell.what):
        formats = grouped(((cell.status, cell.why), cell.dtype) for cell in of_operator)
        name = what
        for status, why in sorted(formats, key=lambda one: STATUSES.index(one[0])):
            yield name, status, ", ".join(formats[status, why]), why
            name = ""


def _choice(cell: Cell) -> Sequence[str]:
    return cell.what, cell.status, _published_cases(cell), cell.why


def _published_cases(cell: Cell) -> str:
    """How many published cases use a technique or feature, and of how many sources; a dash for none."""
    of = cell.published
    return f"{of.cases:,} ({of.sources})" if of is not None and of.cases else "-"
