"""A study's answer as JSON says it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sightline.exploration.answer import StudyAnswer
from sightline.profile.results import stamped
from sightline.quantities import as_json


def study_to_dict(answer: StudyAnswer) -> dict[str, Any]:
    """Return the documented keys of a study's answer; a figure that a row lacks is null."""
    columns = [_listed(values) for values in answer.columns.values()]
    return stamped(
        {
            "study": answer.study,
            "title": answer.title,
            "axes": {key: as_json(list(values)) for key, values in answer.axes.items()},
            "rows": [dict(zip(answer.columns, row, strict=True)) for row in zip(*columns, strict=True)],
            "summary": as_json(answer.summary),
            "assumptions": list(answer.assumptions),
            "reading": list(answer.reading),
            "warnings": list(answer.warnings),
        }
    )


def _listed(values: Sequence[Any] | np.ndarray) -> list[Any]:
    """A column as JSON has it: of a million figures not one by one."""
    column = np.asarray(values) if isinstance(values, np.ndarray) else None
    if column is None or column.dtype.kind not in "fiubU":
        listed: list[Any] = as_json(list(values))
        return listed
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return list(column.tolist())
    objects = column.astype(object)
    objects[~np.isfinite(column)] = None
    return list(objects.tolist())
