"""Stored runs as text: a list, everything of one, the answer to a query."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.profile import TASKS
from sightline.profile.results import figure_of, flatten
from sightline.report.summary import NOTHING, shown
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import plain_table
from sightline.runs import Run

if TYPE_CHECKING:
    import polars

_HEADLINES = [task.whole for task in TASKS]
"""Result keys shown in a list; the first that a run has."""

_FAILED = ("crashed", "out of memory", "timeout", "unsupported", "interrupted")


def summary(run: Run) -> dict[str, Any]:
    """Return what a list says of a run."""
    key = next((key for key in _HEADLINES if isinstance(figure_of(run.result, key), int | float)), None)
    said = {name: getattr(run, name) for name in ("id", "name", "suite", "status", "reason", "created", "ended")}
    said["contended"] = bool(run.environment.get("contended", False))
    return said | ({key: figure_of(run.result, key)} if key else {})


def listing(runs: Sequence[Run], now: datetime | None = None) -> Listing:
    """Return what a list shows of each run: its name, why it failed, the start of its id, age, task, model, figure."""
    moment, ids = now or datetime.now(UTC), [run.id for run in runs]
    columns = {
        "run": [short_id(run.id, ids) for run in runs],
        "age": [age(run, moment) for run in runs],
        "task": [str((run.scenario.get("workload") or {}).get("task") or NOTHING) for run in runs],
        "model": [_model(run) for run in runs],
        "result": [_headline(run) for run in runs],
        "status": [_status(run) for run in runs],
    }
    names = [f"{run.name}: {run.reason}" if run.reason else run.name for run in runs]
    return Listing(
        labels=[Column(heading="name", cells=names, is_number=False)],
        figures=[
            Column(heading=heading, cells=cells, is_number=heading == "age", style=_color)
            for heading, cells in columns.items()
        ],
        least=("model", "task", "result"),
    )


def short_id(name: str, others: Collection[str]) -> str:
    """Return how a run's id begins, as far as it takes to tell it from the ids of ``others``."""
    words = name.split("-")
    starts = ("-".join(words[:count]) for count in range(2, len(words)))
    return next((start for start in starts if sum(other.startswith(start) for other in others) <= 1), name)


def age(run: Run, now: datetime | None = None) -> str:
    """Return how long ago a run began."""
    try:
        passed = ((now or datetime.now(UTC)) - datetime.fromisoformat(run.created)).total_seconds()
    except ValueError:
        return NOTHING
    steps = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
    return next((f"{passed / size:.0f} {unit}" for size, unit in steps if passed >= size), f"{max(passed, 0.0):.0f} s")


def _model(run: Run) -> str:
    """The model's name, or the operator; for runs of suites how many there are."""
    model = run.scenario.get("model")
    if model:
        return str(model.get("name") or "unnamed") if isinstance(model, Mapping) else str(model)
    return str((run.scenario.get("workload") or {}).get("operator") or NOTHING)


def _headline(run: Run) -> str:
    """Its main figure with the unit, or how many operators it measured."""
    if several := run.result.get("results"):
        return f"{len(several):,} operators"
    for task in TASKS:
        found = figure_of(run.result, task.whole)
        if isinstance(found, int | float):
            metric = task.figures[task.whole]
            return f"{metric.label} {shown(found, metric.unit)}"
    return NOTHING


def _status(run: Run) -> str:
    busy = ", contended" if run.environment.get("contended") else ""
    return run.status.replace("_", " ") + busy


def _color(cell: str) -> str:
    return {"ok": "green", "running": "cyan"}.get(cell, "red" if cell in _FAILED else "")


def in_full(run: Run, rows: "polars.DataFrame", samples: "polars.DataFrame") -> RenderableType:
    """Return everything that is known of a run, a line for each key of its result, environment and scenario."""
    table = plain_table(("", ""))
    table.show_header = False
    for key in ("id", "name", "suite", "status", "reason", "created", "ended", "version"):
        if getattr(run, key):
            table.add_row(key, Text(str(getattr(run, key))))
    table.add_row("samples", f"{samples.height:,}")
    for heading, content in (("result", run.result), ("environment", run.environment), ("scenario", run.scenario)):
        table.add_section()
        for key, value in flatten(content).items():
            table.add_row(f"{heading}.{key}", Text(_short(value)))
    blocks: list[RenderableType] = [table]
    if rows.height:
        blocks += [Text(), answer(rows.columns, rows.rows())]
    if run.output:
        blocks += [Text(), Text("the end of what it printed:", style="bold"), Text(run.output.rstrip())]
    return Group(*blocks)


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return what a query gave."""
    return plain_table(tuple(columns), rows=([Text(_short(value)) for value in row] for row in rows))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_short, value))
    return "" if value is None else str(value)
