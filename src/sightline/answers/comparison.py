"""A comparison of two profiles: both sides, which is faster, and how each figure differs."""

from collections.abc import Iterator

from sightline.answers import labels, summary, units
from sightline.answers.outline import BAD, FAINT, GOOD, Charts, Lines, Outline, Rows, Said, Text
from sightline.explanation.compared import LEVELS, UNKNOWN, Side
from sightline.explanation.comparison import NO_DIFFERENCE, ONLY_A, ONLY_B, Comparison, Difference
from sightline.profile.metrics import metric_of
from sightline.quantities import percent

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
    return units.size(value) if quantity.startswith("memory_bytes") else summary.shown(value, metric_of(quantity).unit)


def heading(quantity: str) -> str:
    """Return the short name of a result key."""
    return "memory" if quantity.startswith("memory_bytes") else metric_of(quantity).label


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
    yield Said(asks="A", says=side_line(comparison.a))
    yield Said(asks="B", says=side_line(comparison.b))
    if comparison.faster is not None:
        yield Said(asks="faster", says=comparison.faster.sentence)


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
