"""The table of a study as CSV."""

from typing import Any

from sightline.exploration.answer import StudyAnswer
from sightline.report.csv_lines import csv_text


def study_to_csv(answer: StudyAnswer) -> str:
    """Return every row of a study as CSV text under its columns' names, in SI units; absent values are empty cells."""
    if not len(answer):
        return ",".join(answer.columns) + "\n"
    return csv_text([{name: _cell(value) for name, value in row.items()} for row in answer.rows])


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value != value:  # noqa: PLR0124 (NaN: a figure that the row does not have)
        return ""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
