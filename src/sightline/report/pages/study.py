"""The page of a study of hardware: what it found, its pictures, its table, and what it rests on."""

from sightline.exploration.answer import StudyAnswer
from sightline.quantities import counted
from sightline.report import pieces
from sightline.report.charts.drawing import PHONE
from sightline.report.charts.studies.chart import study_chart
from sightline.report.document import document
from sightline.report.pieces import FAINT, Piece
from sightline.report.studies.csv import study_to_csv
from sightline.report.studies.table import columns_of

_STYLE = "td { white-space: nowrap; } @media (max-width: 560px) { th, td { font-size: 12px; } }"
_MOST_ROWS = 200
"""Rows of the table; of a longer one these, and all in the text of the CSV file."""
_MOST_CSV = 5_000
"""Rows of the CSV text inside the page; with more it would load slowly."""


def study_page(answer: StudyAnswer, *, command: str = "") -> str:
    """Return the report of a study as one page that needs no network; ``command`` asked for it."""
    body = pieces.joined(pieces.headline(answer.title), study_piece(answer))
    return document(answer.title, body, command=command, style=_STYLE)


def study_piece(answer: StudyAnswer, place: str = "chart", *, is_folded: bool = False) -> Piece:
    """Return what stands on the page of a study, without its title.

    Args:
        answer: The study's.
        place: The name of the element with its chart.
        is_folded: Whether its table is, as beside other studies.
    """
    holds = pieces.folded if is_folded else pieces.section
    return pieces.joined(
        pieces.paragraphs(answer.reading),
        pieces.warned(answer.warnings),
        _chart(answer, place) if answer.figures else "",
        holds("Table", *_table(answer)) if len(answer) else "",
        pieces.section("Assumptions", pieces.listed(answer.assumptions)),
        _csv(answer) if len(answer) else "",
    )


def _chart(answer: StudyAnswer, place: str) -> Piece:
    wide, narrow = study_chart(answer, titled=False), study_chart(answer, PHONE, titled=False)
    return pieces.chart(place, wide, narrow, label=". ".join([answer.title, *answer.reading[:2]]))


def _table(answer: StudyAnswer) -> tuple[str, str]:
    """The table, with numbers to the right, and how much is left out of it."""
    columns = columns_of(answer, _MOST_ROWS)
    rows = zip(*(column.cells for column in columns), strict=True)
    numbers = [column.is_number for column in columns]
    shown = pieces.table([one.heading for one in columns], rows, label="rows of the study", numbers=numbers)
    left = len(answer) - _MOST_ROWS
    more = [f"{counted(left, 'more row')} in the CSV below"] if left > 0 else []
    return shown, pieces.paragraphs(more, FAINT)


def _csv(answer: StudyAnswer) -> Piece:
    """All columns, folded."""
    if len(answer) > _MOST_CSV:
        said = f"Too many rows for a page ({len(answer):,}); use --csv."
        return Piece(html=pieces.paragraphs([said], FAINT))
    said = f"{counted(len(answer), 'row')} of {counted(len(answer.columns), 'column')} as CSV, in SI units"
    return pieces.folded(said, pieces.text(study_to_csv(answer), "CSV"))
