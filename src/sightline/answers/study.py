"""A study of hardware or plans: its columns as people read them, what it found, its pictures and its table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

from sightline.answers import units
from sightline.answers.outline import Charts, Lines, Outline, Part, Rows, Text
from sightline.answers.outline import Column as ShownColumn
from sightline.answers.units import BINARY, DECIMAL, NOTHING, digits
from sightline.exploration.study_answer import Column, StudyAnswer
from sightline.quantities import as_python, counted

NOUNS = {"s": "time", "B": "memory", "USD": "cost", "J": "energy", "W": "power", "share": "share"}
"""What several columns of a unit are together."""
_PREFIXED = ("FLOP", "FLOP/s", "B/s", "bit/s", "W", "Wh", "J", "Hz")
_COUNTED = ("tokens", "requests", "parameters", "tokens/s", "requests/s")
_MM2 = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity(Column):
    """What the numbers of a column are, and how they are written."""

    def scaled(self, largest: float) -> tuple[float, str]:
        """Return by what values up to ``largest`` are divided on an axis, and the unit that they have then."""
        as_energy = self.unit == "J" and not self.per
        divisor, unit = _divided("Wh" if as_energy else self.unit, abs(largest) / (3600.0 if as_energy else 1.0))
        divisor *= 3600.0 if as_energy else 1.0
        return divisor, f"{unit} {self.per}".strip()

    def titled(self, unit: str) -> str:
        """Return the label with a unit, or the unit alone where it says the same."""
        if self.label in unit:
            return unit
        label = self.label.removesuffix(f" {self.unit}") if self.unit else self.label
        return f"{label} ({unit})" if unit and unit not in label else label

    @property
    def heading(self) -> str:
        """The label with what each value is for, over values that have their unit."""
        return f"{self.label} {self.per}".strip()

    @property
    def is_year(self) -> bool:
        """Whether values are years, which have no thousands separators."""
        return self.unit == "year"

    def text(self, value: Any) -> str:
        """Return one value with its unit as people write it, without what it is ``per``."""
        if value is None or (isinstance(value, float) and not isfinite(value)):
            return NOTHING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return self.values.get(str(value), str(value))
        if self.is_year:
            return f"{value:g}"
        if self.unit == "J" and not self.per:
            return units.energy(value)
        return _text(self.unit, value) if self.unit else plain(value)


def plain(value: float) -> str:
    """Return a number without a unit: whole ones with separators, others with three digits."""
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:,.0f}"
    if abs(value) >= 1e6:
        return units.count(value)
    text = units.digits(value)
    return text.rstrip("0").rstrip(".") if "." in text and abs(value) < 1e-3 else text


def quantity_of(key: str, about: Mapping[str, Column], label: str = "") -> Quantity:
    """Return what a column holds as its study states it, with another label if one is given."""
    column = about.get(key) or Column(label=key.replace("_", " ").replace(".", " "))
    return Quantity(label=label or column.label, unit=column.unit, per=column.per, values=column.values)


def _divided(unit: str, largest: float) -> tuple[float, str]:
    if unit == "s":
        return (1e-9, "nanoseconds") if 0 < largest < 1e-6 else units.longer_time_unit(largest)
    if unit == "B":
        step = _steps(largest, 1024.0, len(BINARY))
        return 1024.0**step, BINARY[step]
    if unit in _PREFIXED:
        step = _steps(largest, 1000.0, len(DECIMAL))
        return 1000.0**step, DECIMAL[step] + unit
    if unit in ("year", ""):
        return 1.0, ""
    return {"share": (0.01, "%"), "m2": (_MM2, "mm2")}.get(unit, (1.0, unit))


def _steps(largest: float, base: float, count: int) -> int:
    return min(max(floor(log10(largest) / log10(base) + 1e-9), 0), count - 1) if largest >= 1 else 0


def _text(unit: str, value: float) -> str:
    forms: dict[str, Callable[[float], str]] = {
        "s": units.seconds,
        "B": units.size,
        "share": units.percent,
        "USD": _money,
        "m2": lambda area: f"{plain(area / _MM2)} mm2",
        "kg": lambda kg: f"{units.digits(kg / 1000)} t" if abs(kg) >= 1e4 else f"{units.digits(kg)} kg",
    }
    if unit in forms:
        return forms[unit](value)
    if unit in _PREFIXED:
        return units.rate(value, unit) if abs(value) >= 1 or value == 0 else f"{units.digits(value)} {unit}"
    if unit in _COUNTED:
        return f"{units.count(value)} {unit}"
    return f"{plain(value)} {unit}"


def _money(usd: float) -> str:
    """An amount; one below a cent keeps its digits."""
    if 0 < abs(usd) < 0.1:
        return f"${units.digits(usd)}"
    return f"${usd:,.0f}" if 100 <= abs(usd) < 10_000 else units.money(usd)


def numeric(values: Iterable[Any]) -> bool:
    """Return whether all values that are there are numbers."""
    there = [value for value in values if value is not None]
    return bool(there) and all(map(units.is_number, there))


def columns_of(answer: StudyAnswer, rows: int | None = None) -> list[ShownColumn]:
    """Return the columns that the study shows, of its first ``rows`` only if a number is given."""
    keys = [key for key in answer.shown or answer.columns if key in answer.columns]
    quantities = {key: quantity_of(key, answer.about) for key in keys}
    headings = _headings(quantities)
    found: list[ShownColumn] = []
    for key in keys:
        values = [as_python(value) for value in answer.columns[key][:rows]]
        is_number = numeric(values)
        told = (not found or found[-1].tells_apart) and (key in answer.axes or not is_number) and "bound" not in key
        found.append(
            ShownColumn(
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
    if quantity.unit in _COUNTED and quantity.unit in heading.split():
        return [quantity.text(one).removesuffix(f" {quantity.unit}") for one in values]
    if not quantity.unit and any(isinstance(value, float) and not value.is_integer() for value in values):
        # Whole numbers among others get as many digits as these.
        return [digits(one) if isinstance(one, float) and abs(one) < 1e6 else quantity.text(one) for one in values]
    return [NOTHING if value is None else quantity.text(value) for value in values]


_MOST_ROWS = 200
"""Rows of the table; the CSV file has all."""
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
    return Rows.of_columns(
        ordered,
        title="Table" if is_folded else "",
        total=len(answer),
        is_folded=is_folded,
        labels=len(labels),
        regroups=True,
        drops=_LEAST,
        more_columns=len(answer.columns) - len(columns),
    )


def studies_outline(studies: Mapping[str, str]) -> Outline:
    """Return the names of the built-in studies with what each asks."""
    rows: Sequence[tuple[str, str]] = list(studies.items())
    return Outline(parts=[Rows(headings=("name", "asks"), rows=rows, numbers=False)])
