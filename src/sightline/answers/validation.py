"""How far to trust predictions: their errors by suite and by case, and the measured cases most like one."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sightline.answers import units
from sightline.answers.outline import FAINT, Charts, Lines, Outline, Rows, Said, Section
from sightline.answers.profile import evidence_part, of_profile, rests_on
from sightline.profile import Profile
from sightline.profile.metrics import metric_of
from sightline.quantities import counted, percent

if TYPE_CHECKING:
    from sightline.validation import Answer, Result
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
    "the share of 80 % intervals that contain the measured value, `half-width` their median half-width. Constants were "
    "fitted to part `fit`; part `test` was held out."
)


def validation_outline(results: "Sequence[Result]", *, cases: bool = False) -> Outline:
    """Return how far to trust predictions, suite by suite; with ``cases`` also case by case."""
    lines = list(_short_answer(results))
    label = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    kinds = {kind: [one for parts in suites.values() for one in parts] for kind, suites in by_kind(results).items()}
    return Outline(
        title=TITLE,
        said=lines,
        parts=[
            Charts(answer=results, label=label),
            *(_errors(f"Suites of {kind}", found) for kind, found in kinds.items()),
            Lines(lines=[FOOTNOTE], kind=FAINT),
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
            mean = f"mean error {100 * min(errors):.1f} to {100 * max(errors):.1f} % by suite"
            yield Said(asks=kind, says=f"{cases:,} cases in {len(found)} parts of suites: {mean}")


_KINDS = {
    "all": "all",
    "dense": "dense",
    "experts": "MoE",
    "unmeasured_devices": "new devices",
}


def expected_outline(means: Mapping[str, Mapping[str, Any]]) -> Outline:
    """Return what sources left out let one expect, a line for each kind of layers."""
    rows = [
        (_KINDS[kind], str(of["sources"]), str(of["rows"]), *map(_error, (of["mape"], of["largest"])), *_interval(of))
        for kind, of in means.items()
    ]
    headings = ("left out", "sources", "cases", "mean", "largest", "inside", "below 60 %", "half-width")
    return Outline(
        title="Means over sources and device architectures",
        parts=[Rows(title="", headings=headings, rows=rows)],
    )


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
    fast = [line for line in of_profile(profile) if line.asks == "how fast"]
    said = (
        "Constants were fitted to part `fit`; part `test` was held out. Cases with the same device and framework "
        "are the most informative."
    )
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
