"""The table of an explanation as CSV: a line for each phase, block, module and operator."""

from dataclasses import asdict

from sightline.explanation.answer import Explanation
from sightline.quantities import as_json
from sightline.report.csv_lines import csv_text


def explained_to_csv(explanation: Explanation) -> str:
    """Return the rows; of what has none, such as a load, its phases."""
    if explanation.rows:
        return csv_text([as_json(asdict(row)) for row in explanation.rows])
    return csv_text([{"phase": name, "time_s": value} for name, value in explanation.phases.items()])
