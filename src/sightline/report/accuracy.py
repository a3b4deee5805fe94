"""Validation results as text: a table of errors, a list of cases, and the documented result keys."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.report import units
from sightline.report.results import plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

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


def results_to_dict(results: "Sequence[Result]", *, cases: bool = False) -> dict[str, Any]:
    """Return the results under the documented keys, on request with every case."""
    suites = []
    for result in results:
        entry = result.to_dict()
        if cases:
            entry["answers"] = [_answer_to_dict(answer) for answer in result.answers]
        suites.append(plain(entry))
    return {"suites": suites}


def error_table(results: "Sequence[Result]") -> "RenderableType":
    """Return the errors of each suite's parts, a line each; the quantity stands below the suite's name."""
    from rich.text import Text

    table = _table(("suite", "part"), ("cases", "mean", "median", "max", "bias"))
    named = ""
    for position, result in enumerate(results):
        is_first, is_last = result.suite != named, result.suite not in [r.suite for r in results[position + 1 :]]
        named = result.suite
        quantity = Text(f"  {quantity_name(result.quantity)}", style="dim")
        table.add_row(Text(named, style="bold") if is_first else quantity, *_error_cells(result))
        if is_first and is_last:
            table.add_row(quantity)
    return table


def quantity_name(quantity: str) -> str:
    """Return the name of a quantity for people."""
    return quantity.removesuffix("_s").replace("tokens_per", "tokens/s").replace("_", " ")


def case_table(result: "Result") -> "RenderableType":
    """Return the cases of one part of a suite: measured, predicted and the error between them."""
    table = _table(("case",), ("measured", "predicted", "error"))
    table.title = f"{result.suite}, {result.split}: {result.quantity}"
    table.title_justify = "left"
    for answer in result.answers:
        measured = units.digits(answer.case.measured, 4)
        if answer.predicted is None:
            table.add_row(case_label(answer), measured, NOTHING, answer.reason.splitlines()[0])
        else:
            table.add_row(
                case_label(answer), measured, units.digits(answer.predicted, 4), _error(answer.error, signed=True)
            )
    return table


def case_label(answer: "Answer") -> str:
    """Return the case's name, or what it trains on what and how."""
    scenario = answer.case.scenario
    if scenario.get("name"):
        return str(scenario["name"])
    model, cluster, plan = scenario.get("model"), scenario.get("cluster"), scenario.get("plan", {})
    if isinstance(model, dict):
        model = model.get("name") or f"{model.get('hidden_size')} x {model.get('num_hidden_layers')} layers"
    if isinstance(cluster, dict):
        cluster = cluster.get("devices")
    said = [f"{short} {plan[key]}" for key, short in _SHORT.items() if key in plan]
    return ", ".join([f"{model} on {cluster}", " ".join(said)]).rstrip(", ")


def _error_cells(result: "Result") -> list[str]:
    unanswered = f" ({result.unanswered} unanswered)" if result.unanswered else ""
    sizes = [_error(value) for value in (result.mape, result.median_ape, result.max_ape)]
    return [result.split, f"{result.cases}{unanswered}", *sizes, _error(result.bias, signed=True)]


def _answer_to_dict(answer: "Answer") -> dict[str, Any]:
    answered = answer.predicted is not None
    return {
        "scenario": answer.case.scenario,
        "measured": answer.case.measured,
        "predicted": answer.predicted,
        "error": answer.error if answered else None,
        "reason": answer.reason,
    }


def _error(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return NOTHING
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


def _table(words: Sequence[str], numbers: Sequence[str]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
