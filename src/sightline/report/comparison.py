"""A comparison of two profiles in words, as a table, as JSON and as CSV."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sightline.explanation.comparison import NO_DIFFERENCE, ONLY_A, ONLY_B, Comparison, Difference
from sightline.explanation.faster import to_dict
from sightline.explanation.side import LEVELS, Side
from sightline.profile import TASKS
from sightline.profile.results import stamped
from sightline.report import summary, units
from sightline.report.csv_lines import csv_text

if TYPE_CHECKING:
    from rich.console import RenderableType

LEVEL_TITLES = {
    "step": "key figures",
    "request": "the same requests",
    "phase": "time by phase",
    "memory": "memory of the fullest device",
    "module": "time by module",
    "operator": "time by operator",
}
_METRICS = {key: metric for task in TASKS for key, metric in task.figures.items()}
_VERDICTS = {NO_DIFFERENCE: "no difference", ONLY_A: "only in A", ONLY_B: "only in B"}
_NAMES, _VERDICT = 16, 13
_VERDICT_COLORS = {"faster": "green", "less": "green", "slower": "red", "more": "red", "no difference found": "dim"}


def label(row: Difference) -> str:
    """Return a row's name; of an address, from its phase to its operator."""
    if row.level in ("step", "request"):
        return _METRICS[row.quantity].label if row.quantity in _METRICS else row.quantity
    if row.level == "memory":
        part = row.quantity.partition(".")[2]
        return "in all" if part == "total" else summary.LABELS.get(part, part)
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
    """Return the interval of the ratio, empty without one."""
    return "" if row.interval is None else " to ".join(units.digits(end) for end in row.interval)


def figures(row: Difference) -> tuple[str, str, str, str]:
    """Return both sides' values, their ratio and its interval."""
    ratio = "" if row.ratio is None else units.digits(row.ratio)
    return value(row, row.a), value(row, row.b), ratio, interval(row)


def verdict(row: Difference) -> str:
    """Return how b differs from a, in few words."""
    return _VERDICTS.get(row.verdict, row.verdict)


def side_line(side: Side) -> str:
    """Return a side's name in the request, whether it is measured or predicted, and its scenario's name."""
    source = () if side.source == side.name else (side.source,)
    return ", ".join(filter(None, (side.name, *source, side.title)))


def footnote(comparison: Comparison) -> str:
    """Say when a row counts as a difference."""
    if comparison.a.is_measured or comparison.b.is_measured:
        return "80 % intervals of B / A; a row differs where 1 is outside of its 99 % interval."
    if comparison.requests:
        return (
            "80 % intervals of B / A. Of the same requests they hold what the length of the load leaves open; of key "
            "figures also the errors of both predictions, taken as independent."
        )
    if comparison.faster is None or comparison.faster.interval is None:
        return "Two predictions: differences are what the model says."
    return (
        "80 % intervals of B / A: what both errors share has cancelled. A key figure differs where 1 is outside; "
        "other rows are what the model says."
    )


def comparison_table(comparison: Comparison) -> "RenderableType":
    """Return both sides' names, how the plans differ, and the rows level by level."""
    from rich.console import Group
    from rich.text import Text

    from sightline.report.terminal.parts import plain_table

    table = plain_table(("",), ("A", "B", "B / A"), gap=1)
    table.columns[0].min_width = _NAMES
    table.add_column("interval", no_wrap=True)
    table.add_column("B is", no_wrap=True, min_width=_VERDICT)
    for level in LEVELS:
        rows = [row for row in comparison.rows if row.level == level]
        if rows and table.row_count:
            table.add_row()
        if rows:
            table.add_row(Text(LEVEL_TITLES[level], style="bold"))
        for row in rows:
            said = Text(verdict(row), style=_VERDICT_COLORS.get(row.verdict, ""))
            table.add_row(*(Text(cell) for cell in (label(row), *figures(row))), said)
    sides = [Text(f"{letter}  {side_line(s)}") for letter, s in (("A", comparison.a), ("B", comparison.b))]
    about = [Text(said, style="dim") for said in (comparison.about, comparison.requests) if said]
    found = [] if comparison.faster is None else [Text(), Text(comparison.faster.sentence, style="bold")]
    return Group(*sides, *about, *found, Text(), table, Text(), Text(footnote(comparison), style="dim"))


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison under its result keys, in SI units and plain Python numbers."""
    sides = {
        letter: {"name": side.name, "title": side.title, "source": side.source}
        for letter, side in (("a", comparison.a), ("b", comparison.b))
    }
    rows = [asdict(row) for row in comparison.rows]
    ranked = {} if comparison.faster is None else {"faster": to_dict(comparison.faster)}
    said = {"plans": comparison.about, "requests": comparison.requests, "warnings": list(comparison.warnings)}
    return stamped({**sides, **ranked, "rows": rows, **said})


def comparison_to_csv(comparison: Comparison) -> str:
    """Return a comparison as CSV text, a line per row; the interval's ends are the columns low and high."""
    return csv_text(comparison.records())
