"""Stored runs as text: a list, everything of one, the answer to a query."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.profile.results import flatten
from sightline.report.runs import FAILED, columns_of, label_of
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import plain_table
from sightline.runs import Run

if TYPE_CHECKING:
    import polars


def listing(runs: Sequence[Run], now: datetime | None = None) -> Listing:
    """Return what a list shows of each run: its name, why it failed, the start of its id, age, task, model, figure."""
    return Listing(
        labels=[Column(heading="name", cells=[label_of(run) for run in runs], is_number=False)],
        figures=[
            Column(heading=heading, cells=cells, is_number=heading == "age", style=_color)
            for heading, cells in columns_of(runs, now).items()
        ],
        least=("model", "task", "result"),
    )


def _color(cell: str) -> str:
    return {"ok": "green", "running": "cyan"}.get(cell, "red" if cell in FAILED else "")


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
        blocks += [Text(), Text("end of its output:", style="bold"), Text(run.output.rstrip())]
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
