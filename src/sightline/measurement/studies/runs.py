"""Measure a study: every cell of its tables as a case of its own; what cannot run is an outcome, never an end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightline.errors import InputError
from sightline.loading import load_all
from sightline.measurement.generation.runs import Settings as GenerationSettings
from sightline.measurement.generation.runs import measure_generations
from sightline.measurement.processes.suite import Step
from sightline.measurement.studies.arxiv_2311_03687 import STUDY, Cell, Table
from sightline.measurement.training.runs import QUICK, Effort, Settings, measure_trainings
from sightline.runs import Store
from sightline.scenario import GenerationScenario, Scenario

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
    on_step: Callable[[Step], None] = lambda _: None,
) -> Iterator[MeasuredCell]:
    """Measure the tables' cells in order and yield each as it ends; cells that an earlier run finished are not repeated.

    Raises:
        KeyboardInterrupt: Ctrl-C; what has ended is stored.
        WorkError: A run could not be stored.
    """
    for table in tables:
        for cell in table.cells:
            yield _measured(table, cell, store, on_step, quick=quick, rerun=rerun)


def _measured(
    table: Table, cell: Cell, store: Store, on_step: Callable[[Step], None], *, quick: bool, rerun: bool
) -> MeasuredCell:
    try:
        (scenario,) = load_all([dict(named(table, cell))])
        common: dict[str, Any] = {"suite": STUDY, "rerun": rerun, "on_step": on_step}
        if isinstance(scenario, GenerationScenario):
            (one,) = measure_generations([scenario], store, GenerationSettings(quick=quick), **common)
        else:
            assert isinstance(scenario, Scenario)  # noqa: S101 - the grid has no single operators
            (one,) = measure_trainings([scenario], store, Settings(effort=_effort(table, quick=quick)), **common)
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
