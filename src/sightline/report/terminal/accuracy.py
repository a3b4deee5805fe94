"""Errors of predictions and calibrations: by suite, case and kernel, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.quantities import percent
from sightline.report import units
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import plain_table

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration
    from sightline.validation import Answer, Result

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


def error_table(results: "Sequence[Result]") -> RenderableType:
    """Return the errors of each suite's parts, a line each, by kind of suite."""
    kinds = by_kind(results)
    blocks: list[RenderableType] = []
    for kind, suites in kinds.items():
        if len(kinds) > 1:
            blocks += [*([Text()] if blocks else []), Text(kind, style="bold underline")]
        blocks.append(_errors([result for parts in suites.values() for result in parts]))
    return Group(*blocks)


def _errors(results: "Sequence[Result]") -> Listing:
    """The errors of suites of one kind, under the name of each suite and its quantity."""
    cells = list(zip(*map(error_cells, results), strict=True))
    headings = ("cases", "mean", "median", "p90", "max", "bias", "inside", "half-width")
    return Listing(
        labels=[Column(heading="part", cells=[f"  {part}" for part in cells[0]], is_number=False)],
        figures=[Column(heading=heading, cells=column) for heading, column in zip(headings, cells[1:], strict=True)],
        groups=[f"{result.suite}: {quantity_name(result.quantity)}" for result in results],
        group_style="bold",
        least=("p90", "max"),
    )


_KINDS = {
    "all": "all",
    "dense": "dense",
    "experts": "MoE",
    "unmeasured_devices": "new devices",
}


def expected_table(means: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return what sources left out let one expect, a line for each kind of layers."""
    numbers = ("sources", "cases", "mean", "largest", "inside", "below 60 %", "half-width")
    rows = (
        (_KINDS[kind], str(of["sources"]), str(of["rows"]), *map(_error, (of["mape"], of["largest"])), *_interval(of))
        for kind, of in means.items()
    )
    return plain_table(("left out",), numbers, rows, title="Means over sources and device architectures")


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
    known = {"ttft_s": "time to first token", "tpot_s": "time per output token", "itl_s": "time between tokens"}
    name, _, part = quantity.partition(".")
    said = known.get(name) or name.replace("s_per_s", "s/s").removesuffix("_s").replace("_", " ")
    return f"{said}, {part}" if part else said


def case_table(result: "Result") -> RenderableType:
    """Return the cases of one part of a suite: measured, predicted and the error between them."""
    title = f"{result.suite}, {result.split}: {result.quantity}"
    names, *cells = zip(*map(case_cells, result.answers), strict=True)
    headings = ("measured", "predicted", "error")
    figures = [Column(heading=heading, cells=column) for heading, column in zip(headings, cells, strict=True)]
    return Group(Text(title), Listing(labels=[Column(heading="case", cells=names, is_number=False)], figures=figures))


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


MOST_COLUMNS = 5
"""Kernels shown in columns; more are shown in rows."""


def calibration_tables(calibration: "Calibration") -> list[Table]:
    """Return the constants of each kernel, then the residuals of all."""
    return [_constants(calibration), _residuals(calibration)]


def _constants(calibration: "Calibration") -> Table:
    kernels, fitted, covered = calibration.fit.constants, calibration.fit.rows, calibration.covered
    title = f"{calibration.device}, {calibration.part}: constants"
    if len(kernels) > MOST_COLUMNS:
        return plain_table(("kernel", "rows", "constants"), rows=_by_row(calibration), title=title)
    rows = [(name, *(_value(name, constants.get(name)) for constants in kernels.values())) for name in _keys(kernels)]
    for count in _keys(fitted):
        counted = (_count(fitted.get(kernel, {}), count) for kernel in kernels)
        rows.append((f"rows, {count.replace('_', ' ')}", *counted))
    for column in _keys(covered):
        ranges = (_range(covered.get(kernel, {}), column) for kernel in kernels)
        rows.append((f"{column} covered", *ranges))
    rows.append(("evidence", *("calibrated" if kernel in fitted else "with it" for kernel in kernels)))
    return plain_table(("constant",), tuple(kernels), rows, title=title)


def _keys(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, None]:
    """The keys of all kernels' tables, each once."""
    return dict.fromkeys(key for table in tables.values() for key in table)


def _by_row(calibration: "Calibration") -> Iterator[tuple[str, str, str]]:
    """The constants of very many kernels: a row for each, with its constants in words."""
    for kernel, constants in calibration.fit.constants.items():
        said = ", ".join(f"{name} {_value(name, value)}" for name, value in constants.items())
        yield kernel, _count(calibration.fit.rows.get(kernel, {}), "fitted"), said


def _residuals(calibration: "Calibration") -> Table:
    rows = (
        (
            *(kernel, name, f"{figures['rows']:.0f}"),
            *(percent(figures[key], 1) for key in ("median", "p90")),
            percent(figures["bias"], 1, signed=True),
        )
        for kernel, ranges in calibration.fit.residuals.items()
        for name, figures in ranges.items()
    )
    title = "Errors of the fit: predicted / measured - 1"
    return plain_table(("kernel", "rows of"), ("rows", "median", "90th percentile", "bias"), rows, title=title)


def _value(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return units.seconds(value) if name.endswith("_s") else f"{value:.3g}"


def _count(counts: Mapping[str, int], name: str) -> str:
    return f"{counts[name]:,}" if name in counts else "-"


def _range(ranges: Mapping[str, tuple[float, float]], column: str) -> str:
    if column not in ranges:
        return "-"
    low, high = ranges[column]
    shown = units.size if column == "bytes" else units.digits
    return shown(low) if low == high else f"{shown(low)} - {shown(high)}"
