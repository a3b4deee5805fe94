"""A comparison of two profiles, and a measured suite beside its predictions: how each figure differs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sightline.answers import labels, summary, units
from sightline.answers.outline import BAD, FAINT, GOOD, Charts, Lines, Outline, Part, Rows, Said, Section, Text
from sightline.explanation.compared import LEVELS, UNKNOWN, Side
from sightline.explanation.comparison import LESS, MORE, NO_DIFFERENCE, ONLY_A, ONLY_B, Comparison, Difference
from sightline.profile.metrics import metric_of
from sightline.quantities import percent, relative

if TYPE_CHECKING:
    from sightline.reproduction.arxiv_2311_03687.measured import Answered, MeasuredSuite, Table

LEVEL_TITLES = {
    "step": "key figures",
    "request": "matched requests",
    "phase": "time by phase",
    "memory": "memory of the fullest device",
    "module": "time by module",
    "operator": "time by operator",
}
_VERDICTS = {NO_DIFFERENCE: "no difference", ONLY_A: "only in A", ONLY_B: "only in B", UNKNOWN: "not known"}
_MOST_DIGITS = 6
_KINDS = {"faster": GOOD, "less": GOOD, "slower": BAD, "more": BAD, NO_DIFFERENCE: FAINT, UNKNOWN: FAINT}


def label(row: Difference) -> str:
    """Return a row's name; of an address, from its phase to its operator."""
    if row.level in ("step", "request"):
        return metric_of(row.quantity).label
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
    return units.shown(value, metric_of(quantity).unit)


def is_time(row: Difference) -> bool:
    """Whether a row compares seconds."""
    return metric_of(row.quantity).unit == "s"


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
    """Return how b differs from a, in few words: "37 % faster"."""
    if row.ratio is None or row.verdict in _VERDICTS:
        return _VERDICTS[row.verdict]
    if row.verdict in (LESS, MORE):
        return relative(row.ratio, LESS, MORE)
    is_rate = metric_of(row.quantity).better == "higher"
    return relative(row.ratio, "lower", "higher") if is_rate else relative(row.ratio)


def side_line(side: Side) -> str:
    """Return a side's name in the request, whether it is measured or predicted, its scenario's name and if it fits."""
    source = () if side.source == side.name else (side.source,)
    return ", ".join(filter(None, (side.name, *source, side.title, "" if side.fits else "does not fit")))


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


def comparison_outline(comparison: Comparison) -> Outline:
    """Return both sides, which is faster, and the rows level by level: key figures open, the others folded."""
    lines = list(_short_answer(comparison))
    label = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    sides = (("A", comparison.a), ("B", comparison.b))
    return Outline(
        title=f"{comparison.a.name} vs {comparison.b.name}",
        said=lines,
        sentences=list(filter(None, (comparison.about, comparison.requests))),
        parts=[
            Charts(answer=comparison, label=label),
            *(_rows(comparison, level) for level in LEVELS),
            Lines(lines=[footnote(comparison)], kind=FAINT),
            *(
                Text(title=f"The scenario of {letter}", text=labels.scenario_yaml(side.scenario))
                for letter, side in sides
                if side.scenario
            ),
        ],
        warnings=comparison.warnings,
    )


def _short_answer(comparison: Comparison) -> Iterator[Said]:
    """Yield both sides, and which is faster."""
    sides = {"A": comparison.a, "B": comparison.b}
    yield from (Said(asks=key, says=side_line(side), kind="" if side.fits else BAD) for key, side in sides.items())
    if comparison.faster is not None:
        too_large = " and ".join(key for key, side in sides.items() if not side.fits)
        says = f"{f'if {too_large} fitted: ' if too_large else ''}{comparison.faster.sentence}"
        yield Said(asks="faster", says=says, kind=FAINT if too_large else "")


def _rows(comparison: Comparison, level: str) -> Rows:
    rows = [row for row in comparison.rows if row.level == level]
    return Rows(
        title=LEVEL_TITLES[level].capitalize(),
        headings=("", "A", "B", "B / A", "80 % interval", "B is"),
        rows=[(label(row), *figures(row), verdict(row)) for row in rows],
        numbers=(False, True, True, True, True, False),
        is_folded=level not in ("step", "request", "phase"),
        kinds={verdict(row): _KINDS.get(row.verdict, "") for row in rows},
    )


OUTCOMES = {"out_of_memory": "-", "timeout": "timed out", "unsupported": "n/a", "crashed": "crashed"}
"""Text of a cell that was not measured; out of memory as the paper prints it."""


def suite_outline(suite: "MeasuredSuite", title: str, machine: Sequence[str] = ()) -> Outline:
    """Return the answer to a suite.

    Args:
        suite: Tables with the answers to their cells, in the tables' order.
        title: Of the suite.
        machine: Sentences about what it ran on.
    """
    return Outline(
        title=title,
        about=[*machine, _outcomes(suite)],
        parts=[
            *(part for at, (table, cells) in enumerate(suite) for part in _of_table(at, table, cells)),
            Section(title="Not measured", parts=[Lines(lines=_missing(suite))], is_folded=True),
        ],
    )


def _of_table(position: int, table: "Table", cells: "Sequence[Answered]") -> Iterator[Part]:
    rows = [
        (answered.cell.row, f"{answered.cell.column} · {metric_of(key).label}", *_suite_figures(answered, key))
        for answered in cells
        for key in table.quantities
    ]
    title, dots = f"{table.title}: measured and predicted", [_dots(table, one) for one in cells]
    yield Lines(title=table.title, lines=table.notes)
    yield Rows(
        title="" if table.notes else table.title,
        headings=("case", "figure", "measured", "predicted", "predicted is"),
        rows=rows,
        numbers=(False, False, True, True, True),
        labels=2,
        grouped=1,
    )
    yield Charts(answer=dots, label=title, start=f"chart{position}", function=_CHART)
    compared = [_modules(one.cell.row, one.comparison) for one in cells if one.comparison is not None]
    yield Section(parts=compared, is_long=True)


_CHART = "sightline.charts.accuracy:cells_chart"


def _suite_figures(answered: "Answered", key: str) -> tuple[str, str, str]:
    """A quantity measured, predicted, and how far the second is from the first."""
    measured, predicted, ratio = answered.figures(key)
    text = OUTCOMES.get(answered.status, answered.status) if measured is None else shown(key, measured)
    return (
        text + "*" * answered.shimmed,
        "" if predicted is None else shown(key, predicted),
        "" if ratio is None else relative(ratio, LESS, MORE),
    )


def _outcomes(suite: "MeasuredSuite") -> str:
    """How many cells ended how, and what the signs mean."""
    cells = [a for _, answered in suite for a in answered]
    counts = {status: sum(a.status == status for a in cells) for status in dict.fromkeys(a.status for a in cells)}
    said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    return f"{len(cells)} cases: {said}. - is out of memory, n/a is not supported here, * ran with a substitute."


def _dots(table: "Table", answered: "Answered") -> tuple[str, str, float | None, float | None]:
    measured, predicted, _ = answered.figures(table.quantities[0])
    return answered.cell.row, answered.cell.column, measured, predicted


def _modules(name: str, comparison: Comparison) -> Rows:
    """Phases and modules of one cell, measured and predicted."""
    rows = [
        (label(row), *figures(row)[:2], verdict(row)) for row in comparison.rows if row.level in ("phase", "module")
    ]
    headings = ("", "measured", "predicted", "predicted is")
    return Rows(title=f"{name}: phases and modules", headings=headings, rows=rows, is_folded=True)


def _missing(suite: "MeasuredSuite") -> list[str]:
    """Why cells have no figure, each reason once."""
    reasons = (
        f"{one.cell.row}, {one.cell.column}: {one.reason}"
        for _, cells in suite
        for one in cells
        if one.status != "ok" and one.reason
    )
    return list(dict.fromkeys(reasons))
