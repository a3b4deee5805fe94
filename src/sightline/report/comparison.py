"""A comparison of two profiles in words, as a table and as CSV."""

from typing import TYPE_CHECKING

from sightline.explanation.compared import LEVELS, UNKNOWN, Side
from sightline.explanation.comparison import NO_DIFFERENCE, ONLY_A, ONLY_B, Comparison, Difference
from sightline.profile import TASKS
from sightline.quantities import percent
from sightline.report import summary, units
from sightline.report.csv_lines import csv_text

if TYPE_CHECKING:
    from rich.console import RenderableType

LEVEL_TITLES = {
    "step": "key figures",
    "request": "matched requests",
    "phase": "time by phase",
    "memory": "memory of the fullest device",
    "module": "time by module",
    "operator": "time by operator",
}
_METRICS = {key: metric for task in TASKS for key, metric in task.figures.items()}
_VERDICTS = {NO_DIFFERENCE: "no difference", ONLY_A: "only in A", ONLY_B: "only in B", UNKNOWN: "not known"}
_MOST_DIGITS = 6
_VERDICT_COLORS = {
    "faster": "green",
    "less": "green",
    "slower": "red",
    "more": "red",
    NO_DIFFERENCE: "dim",
    UNKNOWN: "dim",
}


def label(row: Difference) -> str:
    """Return a row's name; of an address, from its phase to its operator."""
    if row.level in ("step", "request"):
        return _METRICS[row.quantity].label if row.quantity in _METRICS else row.quantity
    if row.level == "memory":
        part = row.quantity.partition(".")[2]
        return "total" if part == "total" else summary.LABELS.get(part, part)
    parts = [row.phase, row.module, row.operator]
    return ": ".join(summary.LABELS.get(part, part) for part in parts if part)


def value(row: Difference, of: float | None) -> str:
    """Return one side's value with its unit; a dash where it has none."""
    return "-" if of is None else shown(row.quantity, of)


def shown(quantity: str, value: float) -> str:
    """Return the value of a result key with its unit."""
    return units.size(value) if quantity.startswith("memory_bytes") else summary.shown(value, _METRICS[quantity].unit)


def heading(quantity: str) -> str:
    """Return the short name of a result key."""
    return "memory" if quantity.startswith("memory_bytes") else _METRICS[quantity].label


def is_time(row: Difference) -> bool:
    """Whether a row compares seconds."""
    return row.quantity in _METRICS and _METRICS[row.quantity].unit == "s"


def interval(row: Difference) -> str:
    """Return the interval of the ratio, empty without one; an end that is not 1 has the digits to see it."""
    if row.interval is None:
        return ""
    most = max(map(_digits_from_one, row.interval))
    return " to ".join(units.digits(end, most) for end in row.interval)


def _digits_from_one(end: float) -> int:
    """How many digits tell an end of an interval from 1."""
    enough = (
        count
        for count in range(3, _MOST_DIGITS)
        if end == 1.0 or float(units.digits(end, count).replace(",", "")) != 1.0
    )
    return next(enough, _MOST_DIGITS)


def figures(row: Difference) -> tuple[str, str, str, str]:
    """Return both sides' values, their ratio and its interval."""
    return value(row, row.a), value(row, row.b), _ratio(row), interval(row)


def _ratio(row: Difference) -> str:
    """The ratio, empty without one; one that is a difference has the digits to see it."""
    if row.ratio is None:
        return ""
    return units.digits(row.ratio, 3 if row.verdict == NO_DIFFERENCE else _digits_from_one(row.ratio))


def verdict(row: Difference) -> str:
    """Return how b differs from a, in few words."""
    return _VERDICTS.get(row.verdict, row.verdict)


def side_line(side: Side) -> str:
    """Return a side's name in the request, whether it is measured or predicted, and its scenario's name."""
    source = () if side.source == side.name else (side.source,)
    return ", ".join(filter(None, (side.name, *source, side.title)))


def footnote(comparison: Comparison) -> str:
    """Say when a row counts as a difference."""
    found = {row.probability for row in comparison.rows if row.probability}
    exact = "rows without an interval are exact and count as different above 0.1 %"
    if not found:
        return f"{exact[0].upper()}{exact[1:]}."
    said = f"Intervals of B / A are {' or '.join(map(percent, sorted(found)))} intervals"
    if len(found) > 1:
        said = "Intervals of B / A are 80 % (key figures) or 99 % (matched requests) intervals"
    lines = [f"{said}. Rows differ if the interval excludes 1"]
    if any(row.ratio is not None and row.interval is None for row in comparison.rows):
        lines[0] += f"; {exact}"
    if comparison.requests and 0.8 in found:
        lines.append("Intervals of matched requests cover the limited length of the load")
    elif comparison.faster is not None and comparison.faster.interval is not None:
        lines.append("Errors shared by both predictions cancel")
    return ". ".join(lines) + "."


def comparison_table(comparison: Comparison) -> "RenderableType":
    """Return both sides' names, how the plans differ, and the rows level by level."""
    from rich.console import Group
    from rich.text import Text

    from sightline.report.terminal.parts import Sentence

    sides = [Text(f"{letter}  {side_line(s)}") for letter, s in (("A", comparison.a), ("B", comparison.b))]
    about: list[RenderableType] = [
        Sentence(said, style="dim") for said in (comparison.about, comparison.requests) if said
    ]
    found: list[RenderableType] = (
        [] if comparison.faster is None else [Text(), Sentence(comparison.faster.sentence, style="bold")]
    )
    below: list[RenderableType] = [Text(), Sentence(footnote(comparison), style="dim")]
    return Group(*sides, *about, *found, Text(), _lines(comparison), *below)


def _lines(comparison: Comparison) -> "RenderableType":
    """The rows, level by level."""
    from sightline.report.terminal.listing import Column, Listing

    rows = [row for level in LEVELS for row in comparison.rows if row.level == level]
    cells = list(zip(*map(figures, rows), strict=True)) or [(), (), (), ()]
    said = [verdict(row) for row in rows]
    colors = {verdict(row): _VERDICT_COLORS.get(row.verdict, "") for row in rows}
    columns = [Column(heading=heading, cells=cells[at]) for at, heading in enumerate(("A", "B", "B / A"))]
    columns.append(Column(heading="interval", cells=cells[3], is_number=False))
    columns.append(Column(heading="B is", cells=said, is_number=False, style=lambda cell: colors.get(cell, "")))
    return Listing(
        labels=[Column(heading="", cells=[label(row) for row in rows], is_number=False)],
        figures=columns,
        groups=[LEVEL_TITLES[row.level] for row in rows],
        group_style="bold",
        group_gap=True,
    )


def comparison_to_csv(comparison: Comparison) -> str:
    """Return a comparison as CSV text, a line per row; the interval's ends are the columns low and high."""
    return csv_text(comparison.records())
