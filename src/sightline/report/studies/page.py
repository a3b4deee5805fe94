"""The page of a study: what it found, its pictures, its table, and what it rests on."""

from collections.abc import Sequence
from html import escape

from sightline.exploration.answer import StudyAnswer
from sightline.quantities import counted
from sightline.report.charts.drawing import PHONE, chart_element, html_document
from sightline.report.charts.studies.chart import study_chart
from sightline.report.page import STYLE
from sightline.report.studies.csv import study_to_csv
from sightline.report.studies.table import StudyColumn, columns_of

_STYLE = """
main { max-width: 1000px; } table { width: auto; } li { margin: 0 0 4px; } ul { padding-left: 20px; }
td { white-space: nowrap; } p { overflow-wrap: anywhere; }
@media (max-width: 560px) { th, td { padding-right: 9px; font-size: 12px; } h1 { overflow-wrap: anywhere; } }
"""
_MOST_ROWS = 200
"""Rows of the table; of a longer one these, and all in the text of the CSV file."""
_MOST_CSV = 5_000
"""Rows of the CSV text inside the page; with more it would load slowly."""


def study_page(answer: StudyAnswer) -> str:
    """Return the report of a study as one page that needs no network."""
    sections = [
        f"<h1>{escape(answer.title)}</h1>",
        "".join(f"<p>{escape(sentence)}</p>" for sentence in answer.reading),
        "".join(f'<p class="perhaps">Warning: {escape(sentence)}</p>' for sentence in answer.warnings),
        _chart(answer) if answer.figures else "",
        _table(answer) if len(answer) else "",
        _listed("What it assumes", answer.assumptions),
        _csv(answer) if len(answer) else "",
    ]
    return html_document(answer.title, f"<main>{''.join(sections)}</main>", STYLE + _STYLE)


def _chart(answer: StudyAnswer) -> str:
    wide, narrow = study_chart(answer, titled=False), study_chart(answer, PHONE, titled=False)
    return f'<div class="scroll">{chart_element(wide, "chart", narrow)}</div>'


def _table(answer: StudyAnswer) -> str:
    columns = columns_of(answer, _MOST_ROWS)
    left = len(answer) - _MOST_ROWS
    more = f'<p class="faint">{counted(left, "more row")}: in the CSV text below</p>' if left > 0 else ""
    return f"<h2>Table</h2>{_cells(columns)}{more}"


def _cells(columns: Sequence[StudyColumn]) -> str:
    """The table, with numbers to the right."""
    kinds = [' class="n"' if column.is_number else "" for column in columns]
    heads = "".join(f"<th{kind}>{escape(one.heading)}</th>" for kind, one in zip(kinds, columns, strict=True))
    rows = "".join(
        f"<tr>{''.join(f'<td{kind}>{escape(cell)}</td>' for kind, cell in zip(kinds, cells, strict=True))}</tr>"
        for cells in zip(*(column.cells for column in columns), strict=True)
    )
    return f'<div class="scroll"><table><tr>{heads}</tr>{rows}</table></div>'


def _listed(title: str, sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<h2>{title}</h2><ul>{items}</ul>" if sentences else ""


def _csv(answer: StudyAnswer) -> str:
    """All columns, folded."""
    if len(answer) > _MOST_CSV:
        return f'<p class="faint">{counted(len(answer), "row")} are too many for a page: --csv has them.</p>'
    said = f"{counted(len(answer), 'row')} of {counted(len(answer.columns), 'column')} as CSV, in SI units"
    return f"<details><summary>{said}</summary><pre>{escape(study_to_csv(answer))}</pre></details>"
