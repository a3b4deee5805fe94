"""The findings of a reproduced source, or a single table of it, as CSV."""

from sightline.report.csv_lines import csv_text
from sightline.report.studies.csv import study_to_csv
from sightline.reproduction.answer import Reproduction
from sightline.reproduction.results import reproduction_to_dict


def reproduced_to_csv(answer: Reproduction) -> str:
    """Return a line for each finding; where a table alone was asked for, its rows."""
    if len(answer.tables) == 1 and not answer.outcomes:
        return study_to_csv(answer.tables[0].answer)
    lines = reproduction_to_dict(answer)["findings"]
    return csv_text(
        [
            {
                key: str(value).lower() if isinstance(value, bool) else "" if value is None else value
                for key, value in line.items()
                if key != "interpretations"
            }
            for line in lines
        ]
    )
