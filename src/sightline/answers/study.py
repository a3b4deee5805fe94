"""A study of hardware or plans: what it found, its pictures, its table, and what it rests on."""

from collections.abc import Mapping, Sequence

from sightline.answers.outline import Charts, Lines, Outline, Part, Rows, Text
from sightline.answers.study_columns import columns_of
from sightline.exploration.answer import StudyAnswer
from sightline.quantities import counted

_MOST_ROWS = 200
"""Rows of the table; the CSV file has all."""
_MOST_LINES, _HEAD = 40, 24
"""Rows that a terminal shows in full, and how many of a longer table."""
_LEAST = ("carbon", "energy")
"""Headings of figures that follow from others, so that a narrow terminal can do without them."""


def study_outline(answer: StudyAnswer, start: str = "", *, csv: str = "") -> Outline:
    """Return what a study found.

    Args:
        answer: The study's.
        start: Of the id of its chart, where a page has several studies.
        csv: All of its rows as text, for pages.
    """
    label = ". ".join([answer.title, *answer.reading[:2]])
    chart = Charts(answer=answer, label=label, start=f"chart-{start}".rstrip("-"), names=("study",), titled=False)
    said = f"{counted(len(answer), 'row')} of {counted(len(answer.columns), 'column')} as CSV, in SI units"
    parts: list[Part] = [
        Lines(lines=answer.reading),
        *([chart] if answer.figures and len(answer) else []),
        *([_table(answer, is_folded=bool(start))] if len(answer) else []),
        *([Text(title=said, text=csv, file="study.csv")] if csv else []),
    ]
    return Outline(title=answer.title, parts=parts, assumptions=answer.assumptions, warnings=answer.warnings)


def _table(answer: StudyAnswer, *, is_folded: bool) -> Rows:
    columns = columns_of(answer, _MOST_ROWS)
    labels = [column for column in columns if column.tells_apart] or columns[:1]
    ordered = [*labels, *(column for column in columns if column not in labels)]
    return Rows(
        title="Table" if is_folded else "",
        headings=[column.heading for column in ordered],
        rows=list(zip(*(column.cells for column in ordered), strict=True)),
        numbers=[column.is_number for column in ordered],
        total=len(answer),
        most_lines=None if len(answer) <= _MOST_LINES else _HEAD,
        is_folded=is_folded,
        labels=len(labels),
        regroups=True,
        drops=_LEAST,
        more_columns=len(answer.columns) - len(columns),
    )


def studies_outline(studies: Mapping[str, str]) -> Outline:
    """Return the names of the built-in studies with what each asks."""
    rows: Sequence[tuple[str, str]] = list(studies.items())
    return Outline(title="", parts=[Rows(title="", headings=("name", "asks"), rows=rows, numbers=False)])
