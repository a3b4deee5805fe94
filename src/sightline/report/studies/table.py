"""The columns of a study that people read: which they are, their headings and their cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.exploration.answer import StudyAnswer
from sightline.quantities import as_python
from sightline.report.studies.quantities import NOTHING, Quantity, numeric, quantity_of
from sightline.report.units import digits

_COUNTS = ("tokens", "parameters", "requests", "tokens/s", "requests/s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyColumn:
    """One column of the table that people read."""

    key: str
    heading: str
    cells: Sequence[str] = field(repr=False)
    is_number: bool
    tells_apart: bool
    """Whether it is one of the words that a row begins with, or one of the study's axes."""


def columns_of(answer: StudyAnswer, rows: int | None = None) -> list[StudyColumn]:
    """Return the columns that the study shows, of its first ``rows`` only if a number is given."""
    keys = [key for key in answer.shown or answer.columns if key in answer.columns]
    quantities = {key: quantity_of(key, answer.about) for key in keys}
    headings = _headings(quantities)
    found: list[StudyColumn] = []
    for key in keys:
        values = [as_python(value) for value in answer.columns[key][:rows]]
        is_number = numeric(values)
        told = (not found or found[-1].tells_apart) and (key in answer.axes or not is_number) and "bound" not in key
        found.append(
            StudyColumn(
                key=key,
                heading=headings[key],
                cells=_cells(quantities[key], values, headings[key]),
                is_number=is_number,
                tells_apart=told,
            )
        )
    return found


def _headings(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    """The names of columns; those that two would share are told by their whole key."""
    labels = {key: quantity.heading for key, quantity in quantities.items()}
    shared = {label for label in labels.values() if list(labels.values()).count(label) > 1}
    return {key: quantity_of(key, {}).label if label in shared else label for key, label in labels.items()}


def _cells(quantity: Quantity, values: Sequence[Any], heading: str) -> list[str]:
    """The texts of values; a count does not repeat the heading that says of what."""
    if quantity.unit in _COUNTS and quantity.unit in heading.split():
        return [quantity.text(one).removesuffix(f" {quantity.unit}") for one in values]
    if not quantity.unit and any(isinstance(value, float) and not value.is_integer() for value in values):
        # Whole numbers among others get as many digits as these.
        return [digits(one) if isinstance(one, float) and abs(one) < 1e6 else quantity.text(one) for one in values]
    return [NOTHING if value is None else quantity.text(value) for value in values]
