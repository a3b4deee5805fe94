"""A measured suite in the layout of its paper: a table per question, techniques down, models across.

Each cell has the measured and the predicted figure. Out of memory is a dash, other failures are named.
"""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from sightline.explanation.comparison import Comparison
from sightline.report import comparison as words
from sightline.report import pieces, units
from sightline.report.charts.accuracy import cells_chart
from sightline.report.document import document
from sightline.report.pieces import FAINT, Piece
from sightline.report.terminal import parts
from sightline.reproduction.arxiv_2311_03687.cells import Table
from sightline.reproduction.arxiv_2311_03687.measured import Answered, MeasuredSuite

if TYPE_CHECKING:
    from rich.console import RenderableType

OUTCOMES = {"out_of_memory": "-", "timeout": "timed out", "unsupported": "n/a", "crashed": "crashed"}
"""Text of a cell that was not measured; out of memory as the paper prints it."""


def suite_page(title: str, machine: Sequence[str], suite: MeasuredSuite, *, command: str = "") -> str:
    """Return the report as one page that needs no network.

    Args:
        title: Of the suite.
        machine: Sentences about what it ran on.
        suite: Tables with the answers to their cells, in the tables' order.
        command: The command that measured it, for the footer.
    """
    body = pieces.joined(
        pieces.headline(title),
        pieces.paragraphs((*machine, _outcomes(suite)), FAINT),
        *(_section(position, table, cells) for position, (table, cells) in enumerate(suite)),
        _missing(suite),
    )
    return document(title, body, command=command)


def suite_terminal(suite: MeasuredSuite) -> "RenderableType":
    """Return the tables as text, measured and predicted in each cell."""
    from rich.console import Group
    from rich.text import Text

    blocks: list[RenderableType] = []
    for table, cells in suite:
        grid = parts.plain_table(("", ""), ("measured", "predicted", "ratio"))
        for answered in cells:
            for position, key in enumerate(table.quantities):
                name = answered.cell.row if position == 0 else ""
                column = f"{answered.cell.column} · {words.heading(key)}"
                grid.add_row(name, Text(column, style="dim"), *_figures(answered, key))
        blocks += [Text(table.title, style="bold"), *(Text(note, style="dim") for note in table.notes), grid, Text()]
    return Group(*blocks, Text(_outcomes(suite), style="dim"))


def _figures(answered: Answered, key: str) -> tuple[str, str, str]:
    """A quantity measured, predicted, and the second over the first."""
    measured, predicted, ratio = answered.figures(key)
    shown = OUTCOMES.get(answered.status, answered.status) if measured is None else words.shown(key, measured)
    return (
        shown + "*" * answered.shimmed,
        "" if predicted is None else words.shown(key, predicted),
        "" if ratio is None else units.digits(ratio),
    )


def _outcomes(suite: MeasuredSuite) -> str:
    """How many cells ended how, and what the signs mean."""
    cells = [a for _, answered in suite for a in answered]
    counts = {status: sum(a.status == status for a in cells) for status in dict.fromkeys(a.status for a in cells)}
    said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    return (
        f"{len(cells)} cases: {said}. - is out of memory, n/a is not supported on this machine, * ran with a "
        "substitute."
    )


def _section(position: int, table: Table, cells: Sequence[Answered]) -> Piece:
    chart = cells_chart([_dots(table, a) for a in cells])
    return pieces.section(
        table.title,
        pieces.paragraphs(table.notes, FAINT),
        _matrix(table, cells),
        pieces.chart(f"chart{position}", chart, label=f"{table.title}: measured and predicted") if chart else "",
        *(_modules(a.cell.row, a.comparison) for a in cells if a.comparison is not None),
    )


def _dots(table: Table, answered: Answered) -> tuple[str, str, float | None, float | None]:
    measured, predicted, _ = answered.figures(table.quantities[0])
    return answered.cell.row, answered.cell.column, measured, predicted


def _matrix(table: Table, cells: Sequence[Answered]) -> str:
    """Rows down, columns across; under each column its quantities, measured and predicted."""
    rows, columns = (list(dict.fromkeys(getattr(a.cell, side) for a in cells)) for side in ("row", "column"))
    at = {(a.cell.row, a.cell.column): a for a in cells}
    span = 2 * len(table.quantities)
    groups = "".join(f'<th class="n" colspan="{span}">{escape(column)}</th>' for column in columns)
    heads = "".join(
        f'<th class="n">{words.heading(key)}</th><th class="n">predicted</th>'
        for _ in columns
        for key in table.quantities
    )
    body = "".join(
        f"<tr><td>{escape(row)}</td>{''.join(_cell(table, at.get((row, column))) for column in columns)}</tr>"
        for row in rows
    )
    head = f"<thead><tr><td></td>{groups}</tr><tr><td></td>{heads}</tr></thead>"
    return pieces.scrolled(f"<table>{head}<tbody>{body}</tbody></table>", table.title)


def _cell(table: Table, answered: Answered | None) -> str:
    if answered is None:
        return '<td colspan="2"></td>' * len(table.quantities)
    title = f' title="{escape(answered.reason)}"' if answered.reason else ""
    figures = (_figures(answered, key) for key in table.quantities)
    return "".join(
        f'<td class="n"{title}>{escape(measured)}</td><td class="n faint">{escape(predicted)}</td>'
        for measured, predicted, _ in figures
    )


def _modules(name: str, comparison: Comparison) -> Piece:
    """Phases and modules of one cell, measured and predicted."""
    rows = [(words.label(row), *words.figures(row)) for row in comparison.rows if row.level in ("phase", "module")]
    found = pieces.table(("", "measured", "predicted", "ratio", "interval"), rows, label=f"{name}: phases and modules")
    return pieces.folded(f"{name}: phases and modules", found)


def _missing(suite: MeasuredSuite) -> Piece:
    """Why cells have no figure, each reason once."""
    reasons = dict.fromkeys(
        f"{a.cell.row}, {a.cell.column}: {a.reason}"
        for _, cells in suite
        for a in cells
        if a.status != "ok" and a.reason
    )
    return pieces.folded("Not measured", pieces.listed(reasons))
