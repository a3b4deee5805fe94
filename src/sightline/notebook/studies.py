"""The answer of a study: what it found, its table, what it assumes, its pictures."""

from sightline.exploration.answer import StudyAnswer
from sightline.notebook import pieces
from sightline.notebook.view import NOTEBOOK, View
from sightline.quantities import counted
from sightline.report.studies.table import columns_of

_MOST_ROWS = 200
"""Rows of the table; ``answer.table`` has all of them."""
_OPEN = 24
"""Rows up to which the table is not folded."""


def study(answer: StudyAnswer) -> View:
    """Return a study's sentences, table and pictures."""
    from sightline.report.charts.studies.chart import study_chart
    from sightline.report.studies.text import study_text

    html = "".join(
        (
            pieces.title(answer.title),
            pieces.paragraphs(answer.reading),
            pieces.warned(answer.warnings),
            _table(answer) if len(answer) else "",
            pieces.folded("what it assumes", pieces.listed(answer.assumptions)),
        )
    )
    charts = [study_chart(answer, NOTEBOOK, titled=False)] if answer.figures and len(answer) else []
    return View(html=html, text=study_text(answer), charts=charts)


def _table(answer: StudyAnswer) -> str:
    columns = columns_of(answer, _MOST_ROWS)
    rows = zip(*(column.cells for column in columns), strict=True)
    numbers = [column.is_number for column in columns]
    body = pieces.table([column.heading for column in columns], list(rows), numbers=numbers)
    left = len(answer) - _MOST_ROWS
    if left > 0:
        body += pieces.paragraphs([f"and {counted(left, 'more row')}: `answer.table` has all of them"], "faint")
    return body if len(answer) <= _OPEN else pieces.folded(f"table of {counted(len(answer), 'row')}", body)
