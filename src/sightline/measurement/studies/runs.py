"""Measure a study: every cell of its tables as a case of its own; what cannot run is an outcome, never an end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightline.errors import InputError
from sightline.loading import load_all
from sightline.measurement.measure import measure_scenarios
from sightline.measurement.processes.suite import QUICK, Effort, OnStep, Settings
from sightline.measurement.studies.arxiv_2311_03687 import STUDY, Cell, Table
from sightline.runs import Store

UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCell:
    """A cell of a table and how its case ended."""

    table: Table
    cell: Cell
    status: str
    reason: str
    scenario: Any = None
    """As it was read; None where it could not be."""
    run: Any = None
    """The stored run; None where there was nothing to run."""


def measure_study(
    tables: Sequence[Table],
    store: Store,
    *,
    quick: bool = False,
    rerun: bool = False,
    on_step: OnStep = lambda _: None,
) -> Iterator[MeasuredCell]:
    """Measure the tables' cells in order and yield each as it ends; cells that an earlier run finished are not repeated.

    Raises:
        KeyboardInterrupt: Ctrl-C; what has ended is stored.
        WorkError: A run could not be stored.
    """
    for table in tables:
        for cell in table.cells:
            yield _measured(table, cell, store, on_step, quick=quick, rerun=rerun)


def _measured(table: Table, cell: Cell, store: Store, on_step: OnStep, *, quick: bool, rerun: bool) -> MeasuredCell:
    try:
        (scenario,) = load_all([dict(named(table, cell))])
        settings = Settings(quick=quick, effort=_effort(table, quick=quick))
        (one,) = measure_scenarios([scenario], store, settings, suite=STUDY, rerun=rerun, on_step=on_step)
    except InputError as error:
        return MeasuredCell(table=table, cell=cell, status=UNSUPPORTED, reason="; ".join(error.problems))
    return MeasuredCell(
        table=table, cell=cell, status=one.run.status, reason=one.run.reason, scenario=scenario, run=one.run
    )


def named(table: Table, cell: Cell) -> Mapping[str, Any]:
    """Return the cell's scenario under a name that says where it stands."""
    return {"name": f"{table.name}: {cell.row}, {cell.column}", **cell.scenario}


def _effort(table: Table, *, quick: bool) -> Effort:
    effort = QUICK if quick else Effort()
    return replace(effort, levels=tuple(dict.fromkeys(("end-to-end", table.level))))
