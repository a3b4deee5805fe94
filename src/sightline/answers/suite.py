"""A measured suite in the layout of its paper: a table per question, techniques down, models across.

Each line has the measured and the predicted figure. Out of memory is a dash, other failures are named.
"""

from collections.abc import Iterator, Sequence

from sightline.answers import comparison as words
from sightline.answers import units
from sightline.answers.outline import Charts, Lines, Outline, Part, Rows, Section
from sightline.explanation.comparison import Comparison
from sightline.reproduction.arxiv_2311_03687.cells import Table
from sightline.reproduction.arxiv_2311_03687.measured import Answered, MeasuredSuite

OUTCOMES = {"out_of_memory": "-", "timeout": "timed out", "unsupported": "n/a", "crashed": "crashed"}
"""Text of a cell that was not measured; out of memory as the paper prints it."""


def suite_outline(title: str, suite: MeasuredSuite, machine: Sequence[str] = ()) -> Outline:
    """Return the answer to a suite.

    Args:
        title: Of the suite.
        suite: Tables with the answers to their cells, in the tables' order.
        machine: Sentences about what it ran on.
    """
    return Outline(
        title=title,
        about=[*machine, _outcomes(suite)],
        parts=[
            *(part for at, (table, cells) in enumerate(suite) for part in _of_table(at, table, cells)),
            Section(title="Not measured", parts=[Lines(lines=_missing(suite))], is_folded=True),
        ],
    )


def _of_table(position: int, table: Table, cells: Sequence[Answered]) -> Iterator[Part]:
    rows = [
        (answered.cell.row, f"{answered.cell.column} · {words.heading(key)}", *_figures(answered, key))
        for answered in cells
        for key in table.quantities
    ]
    label, dots = f"{table.title}: measured and predicted", [_dots(table, one) for one in cells]
    yield Lines(title=table.title, lines=table.notes)
    yield Rows(
        title="" if table.notes else table.title,
        headings=("case", "figure", "measured", "predicted", "ratio"),
        rows=rows,
        numbers=(False, False, True, True, True),
        labels=2,
        grouped=1,
    )
    yield Charts(answer=dots, label=label, start=f"chart{position}", function=_CHART)
    compared = [_modules(one.cell.row, one.comparison) for one in cells if one.comparison is not None]
    yield Section(parts=compared, is_long=True)


_CHART = "sightline.report.charts.accuracy:cells_chart"


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
    return f"{len(cells)} cases: {said}. - is out of memory, n/a is not supported here, * ran with a substitute."


def _dots(table: Table, answered: Answered) -> tuple[str, str, float | None, float | None]:
    measured, predicted, _ = answered.figures(table.quantities[0])
    return answered.cell.row, answered.cell.column, measured, predicted


def _modules(name: str, comparison: Comparison) -> Rows:
    """Phases and modules of one cell, measured and predicted."""
    rows = [(words.label(row), *words.figures(row)) for row in comparison.rows if row.level in ("phase", "module")]
    headings = ("", "measured", "predicted", "ratio", "interval")
    return Rows(title=f"{name}: phases and modules", headings=headings, rows=rows, is_folded=True)


def _missing(suite: MeasuredSuite) -> list[str]:
    """Why cells have no figure, each reason once."""
    reasons = (
        f"{one.cell.row}, {one.cell.column}: {one.reason}"
        for _, cells in suite
        for one in cells
        if one.status != "ok" and one.reason
    )
    return list(dict.fromkeys(reasons))
