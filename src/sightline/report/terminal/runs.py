"""Stored runs as text: a list, one in full, the answer to a query."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.profile import TASKS
from sightline.profile.results import figure_of, flatten
from sightline.report.terminal.parts import plain_table
from sightline.runs import Run

if TYPE_CHECKING:
    import polars

_HEADLINES = [task.whole for task in TASKS]
"""Result keys shown in a list; the first that a run has."""

_MOST_ROWS = 20


def summary(run: Run) -> dict[str, Any]:
    """Return what a list says of a run."""
    key = next((key for key in _HEADLINES if isinstance(figure_of(run.result, key), int | float)), None)
    said = {name: getattr(run, name) for name in ("id", "name", "suite", "status", "reason", "created", "ended")}
    said["contended"] = bool(run.environment.get("contended", False))
    return said | ({key: figure_of(run.result, key)} if key else {})


def listing(runs: Sequence[Run]) -> Table:
    """Return a line per run."""
    return plain_table(("run", "status", "result", "name"), rows=map(_line, runs))


def _line(run: Run) -> tuple[str, ...]:
    said = summary(run)
    key = next((key for key in _HEADLINES if key in said), None)
    status = run.status.replace("_", " ") + (", contended" if said["contended"] else "")
    return run.id, status, f"{key} {said[key]:.4g}" if key else run.reason, run.name


def one(run: Run, rows: "polars.DataFrame", samples: "polars.DataFrame") -> RenderableType:
    """Return a run in full: what it says of itself, its result, its table, how many samples."""
    table = plain_table(("", ""))
    table.show_header = False
    for key in ("id", "name", "suite", "status", "reason", "created", "ended", "version"):
        if getattr(run, key):
            table.add_row(key, Text(str(getattr(run, key))))
    table.add_row("samples", str(samples.height))
    for heading, content in (("result", run.result), ("environment", run.environment), ("scenario", run.scenario)):
        table.add_section()
        for key, value in flatten(content).items():
            table.add_row(f"{heading}.{key}", Text(_short(value)))
    blocks: list[RenderableType] = [table]
    if rows.height:
        blocks += [Text(), answer(rows.columns, rows.rows()[:_MOST_ROWS])]
        if rows.height > _MOST_ROWS:
            blocks.append(Text(f"and {rows.height - _MOST_ROWS} more rows", style="dim"))
    if run.output:
        blocks += [Text(), Text("the end of what it printed:", style="bold"), Text(run.output.rstrip())]
    return Group(*blocks)


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return what a query gave."""
    return plain_table(tuple(columns), rows=([Text(_short(value)) for value in row] for row in rows))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)
