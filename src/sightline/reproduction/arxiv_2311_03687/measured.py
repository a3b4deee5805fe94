"""The study's grid measured on the machine at hand, with the prediction beside each cell."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sightline.errors import InputError
from sightline.explanation.comparison import Comparison, compare
from sightline.exploration.answer import Column
from sightline.loading import load_all
from sightline.measurement.machine import Hardware, hardware_at_hand
from sightline.measurement.measure import measure_scenarios
from sightline.measurement.processes.suite import QUICK, Effort, Settings
from sightline.prediction import predict
from sightline.profile.results import flatten
from sightline.progress import SILENT, Progress
from sightline.quantities import counted
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.arxiv_2311_03687.cells import SUITE, Cell, Table, named, suite_tables
from sightline.reproduction.arxiv_2311_03687.settings import MODEL, ROW
from sightline.runs import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A cell with its answers."""

    cell: Cell
    status: str
    """How the run ended: ok, out_of_memory, unsupported, timeout, crashed, interrupted."""
    reason: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Result keys, nested ones dotted."""
    predicted: Mapping[str, float] = field(default_factory=dict)
    """The same of the prediction; empty where it refuses."""
    refused: str = ""
    """Why nothing is predicted."""
    shimmed: bool = False
    """Ran with stand-ins for what the machine lacks: shows that it works, not how fast."""
    comparison: Comparison | None = None
    """Phases and modules, of cells measured at that level."""

    def figures(self, key: str) -> tuple[float | None, float | None, float | None]:
        """Return a quantity measured and predicted, and the second over the first; None where one is not to be had."""
        measured, predicted = self.measured.get(key), self.predicted.get(key)
        return measured, predicted, predicted / measured if measured and predicted is not None else None


MeasuredSuite = Sequence[tuple[Table, Sequence[Answered]]]


def measured_suite(
    hardware: Hardware, store: Store, *, quick: bool = False, rerun: bool = False, progress: Progress = SILENT
) -> MeasuredSuite:
    """Return the study's tables with the answers to their cells, measured on this hardware and predicted.

    Every cell is stored as it ends, so that a suite that was stopped goes on where it was. ``quick`` keeps one model
    and few techniques, with few steps of each.
    """
    tables = suite_tables(hardware, quick=quick)
    cells = [(one, cell) for one in tables for cell in one.cells]
    found: dict[str, list[Answered]] = {one.name: [] for one in tables}
    for one, cell in progress.over(cells, "measuring"):
        found[one.name].append(_answered(one, cell, store, quick=quick, rerun=rerun))
    return [(one, found[one.name]) for one in tables if found[one.name]]


def tables_at_hand(store: Store, *, small: bool, progress: Progress) -> list[ReproducedTable]:
    """Return the study's tables measured on the machine at hand: a row for each figure of each cell.

    Raises:
        InputError: PyTorch is missing, its devices are unknown, or not one cell could be measured.
    """
    suite = measured_suite(hardware_at_hand(), store, quick=small, progress=progress)
    answers = [answered for _, cells in suite for answered in cells]
    if answers and not _measured(answers):
        why = next((one.reason for one in answers if one.reason), "no run ended well")
        raise InputError([f"nothing of the study could be measured here: {why}"])
    return [_table(one, cells) for one, cells in suite]


def _table(one: Table, cells: Sequence[Answered]) -> ReproducedTable:
    """A row for each figure; a reason of several cells is told once, above them."""
    told = {why: ended for why, ended in _endings_by_reason(cells).items() if len(ended) > 1}
    reading = [
        f"{counted(len(ended), 'case')}, {' or '.join(dict.fromkeys(ended))}: {why}" for why, ended in told.items()
    ]
    return table(
        f"measured-{one.name}",
        one.title,
        _rows(one, cells),
        about={**_ABOUT, "reason": Column(label="why", values=dict.fromkeys(told, "see above"))},
        reading=(*one.notes, *reading),
        status="measured" if _measured(cells) else "not measured",
    )


def _endings_by_reason(cells: Sequence[Answered]) -> Mapping[str, Sequence[str]]:
    """How each case of a reason ended, in words."""
    endings = defaultdict[str, list[str]](list)
    for answered in cells:
        if why := _why(answered):
            endings[why].append(_ended(answered))
    return endings


def _measured(cells: Sequence[Answered]) -> bool:
    """Whether any cell has a measured figure, or ran out of memory, which is an answer too."""
    return any(one.measured or one.status == "out_of_memory" for one in cells)


_NOT_INSTALLED = "not installed"
_ABOUT: Mapping[str, Column] = {
    "row": ROW,
    "column": MODEL,
    "quantity": Column(label="quantity"),
    "measured": Column(label="measured"),
    "predicted": Column(label="predicted"),
    "ratio": Column(label="predicted over measured"),
    "status": Column(label="how it ended"),
    "reason": Column(label="why"),
}


def _rows(one: Table, cells: Sequence[Answered]) -> Iterator[dict[str, Any]]:
    for answered in cells:
        for key in one.quantities:
            figures = zip(("measured", "predicted", "ratio"), answered.figures(key), strict=True)
            known = {name: value for name, value in figures if value is not None}
            ended = {"status": _ended(answered), "reason": _why(answered)}
            yield {"row": answered.cell.row, "column": answered.cell.column, "quantity": key, **known, **ended}


def _ended(answered: Answered) -> str:
    """How a run ended, in words."""
    is_missing = answered.status == "unsupported" and _NOT_INSTALLED in answered.reason
    return _NOT_INSTALLED if is_missing else answered.status + " (with stand-ins)" * answered.shimmed


def _why(answered: Answered) -> str:
    """Why nothing was measured, or else why nothing is predicted."""
    return answered.reason or answered.refused


def _answered(one: Table, cell: Cell, store: Store, *, quick: bool, rerun: bool) -> Answered:
    """A cell, measured and predicted; at module level the two are also compared.

    A cell that an earlier run finished is not measured again, and one that cannot run says why.
    """
    levels = tuple(dict.fromkeys(("end-to-end", one.level)))
    settings = Settings(quick=quick, effort=replace(QUICK if quick else Effort(), levels=levels))
    try:
        scenarios = load_all([dict(named(one, cell))])
        (found,) = measure_scenarios(scenarios, store, settings, suite=SUITE, rerun=rerun)
    except InputError as error:
        return Answered(cell=cell, status="unsupported", reason="; ".join(error.problems))
    run, (predicted, refused) = found.run, _predicted(found.scenario)
    done = run.status == "ok"
    compared = done and predicted and one.level != "end-to-end"
    return Answered(
        cell=cell,
        status=run.status,
        reason=run.reason,
        measured=flatten(run.result) if done else {},
        predicted=predicted,
        refused=refused,
        shimmed=done and bool(run.result["measurement"].get("shimmed")),
        comparison=compare(run.id, "predicted", levels=("phase", "module"), store=store.place) if compared else None,
    )


def _predicted(scenario: Any) -> tuple[dict[str, Any], str]:
    """The prediction's figures; none where it is refused, and why."""
    try:
        return flatten(predict(scenario).to_dict()), ""
    except InputError as error:
        return {}, "; ".join(error.problems)


def suite_to_list(suite: MeasuredSuite) -> list[dict[str, Any]]:
    """Return the suite for ``--json``: a mapping per table, its cells with status, measured and predicted figures."""
    return [
        {
            "table": table.name,
            "title": table.title,
            "cells": [
                {
                    "row": a.cell.row,
                    "column": a.cell.column,
                    "status": a.status,
                    "reason": a.reason,
                    "shimmed": a.shimmed,
                    "measured": {key: a.measured.get(key) for key in table.quantities},
                    "predicted": {key: a.predicted.get(key) for key in table.quantities},
                    "scenario": a.cell.scenario,
                }
                for a in cells
            ],
        }
        for table, cells in suite
    ]
