"""A study's answer as JSON says it."""

from typing import Any

from sightline.exploration.answer import StudyAnswer
from sightline.profile.results import stamped
from sightline.quantities import as_json


def answer_to_dict(answer: StudyAnswer) -> dict[str, Any]:
    """Return the documented keys of a study's answer; a figure that a row lacks is null."""
    return stamped(
        {
            "study": answer.study,
            "title": answer.title,
            "axes": {key: as_json(list(values)) for key, values in answer.axes.items()},
            "rows": [as_json(row) for row in answer.rows],
            "summary": as_json(answer.summary),
            "assumptions": list(answer.assumptions),
            "reading": list(answer.reading),
            "warnings": list(answer.warnings),
        }
    )
