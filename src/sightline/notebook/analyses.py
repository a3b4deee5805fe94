"""Answers about answers: a comparison, an explanation, elasticities, rooflines."""

from typing import Any

from rich.console import Group
from rich.text import Text

from sightline.explanation.answer import Explanation
from sightline.explanation.compared import LEVELS
from sightline.explanation.comparison import Comparison
from sightline.notebook import pieces
from sightline.notebook.view import NOTEBOOK, View
from sightline.prediction.roofline_table import RooflineTable
from sightline.prediction.sensitivity import Sensitivity
from sightline.quantities import percent
from sightline.report import comparison as compared
from sightline.report import labels, summary, units

_NEGLIGIBLE = 0.005
"""Elasticities below this would be 0.00 in the table."""


def comparison(answer: Comparison) -> View:
    """Return both sides, which is faster, and the rows level by level: key figures open, the others folded."""
    from sightline.report.charts.comparison import comparison_bars

    sides = [f"{letter}: {compared.side_line(side)}" for letter, side in (("A", answer.a), ("B", answer.b))]
    faster = "" if answer.faster is None else pieces.paragraphs([answer.faster.sentence])
    said = [one for one in (answer.about, answer.requests) if one]
    levels = "".join(_level(answer, level) for level in LEVELS)
    html = "".join(
        (
            pieces.title("A compared with B"),
            pieces.paragraphs(sides),
            pieces.paragraphs(said, "faint"),
            faster,
            levels,
            pieces.paragraphs([compared.footnote(answer)], "faint"),
            pieces.warned(answer.warnings),
        )
    )
    return View(html=html, text=compared.comparison_table(answer), charts=[comparison_bars(answer, NOTEBOOK)])


def _level(answer: Comparison, level: str) -> str:
    rows = [
        (compared.label(row), *compared.figures(row), compared.verdict(row))
        for row in answer.rows
        if row.level == level
    ]
    if not rows:
        return ""
    table = pieces.table(("", "A", "B", "B / A", "interval", "B is"), rows)
    is_open = level == next((row.level for row in answer.rows), level)
    title = compared.LEVEL_TITLES[level]
    return pieces.section(title, table) if is_open else pieces.folded(title, table)


def explanation(answer: Explanation) -> View:
    """Return what limits the time, where it goes, and the changes that help most."""
    limits = [(one.limit, units.seconds(one.time_s), units.percent(one.share)) for one in answer.limits]
    phases = [(summary.LABELS.get(k, k), units.seconds(v), units.percent(v / answer.whole_s)) for k, v in _of(answer)]
    advice = [f"{one.sentence} {one.command}".strip() for one in answer.advice]
    html = "".join(
        (
            pieces.title(f"{answer.title}: {answer.source}, {units.seconds(answer.whole_s)}"),
            pieces.paragraphs(answer.sentences),
            pieces.table(("what limits it", "time", "share"), limits),
            pieces.section("what would help most", pieces.listed(advice)),
            pieces.folded("time by phase", pieces.table(("phase", "time", "share"), phases)),
            pieces.warned(answer.warnings),
        )
    )
    lines = [answer.title, *answer.sentences, *(" ".join(row) for row in limits), *advice]
    return View(html=html, text=Group(*map(Text, lines)))


def _of(answer: Explanation) -> list[tuple[str, float]]:
    return [(phase, seconds) for phase, seconds in answer.phases.items() if seconds]


def sensitivity(answer: Sensitivity) -> View:
    """Return the elasticities of what matters, the largest first, and plans that differ in one decision."""
    from sightline.report.charts.sensitivity import sensitivity_chart
    from sightline.report.terminal.analysis import LABELS, sensitivity_table

    keys = list(next(iter(answer.elasticity.values()), {}))
    largest = {name: max(map(abs, values.values()), default=0.0) for name, values in answer.elasticity.items()}
    names = [name for name in sorted(largest, key=lambda one: -largest[one]) if largest[name] >= _NEGLIGIBLE]
    rows = [(LABELS[name], *(f"{answer.elasticity[name][key]:+.2f}" for key in keys)) for name in names]
    headings = ("", *(key.removesuffix("_s").replace("_", " ") for key in keys))
    html = "".join(
        (
            pieces.title(labels.title(answer.answer.scenario)),
            pieces.paragraphs(["what 1 % more of a number changes, in per cent"], "faint"),
            pieces.table(headings, rows),
            _neighbours(answer),
        )
    )
    chart = sensitivity_chart(answer, NOTEBOOK)
    return View(html=html, text=sensitivity_table(answer), charts=[] if chart is None else [chart])


def _neighbours(answer: Sensitivity) -> str:
    own = float(answer.answer.whole_s)
    rows = [
        (
            one.change,
            units.seconds(float(one.profile.whole_s)),
            percent(float(one.profile.whole_s) / own - 1, 1, signed=True),
            summary.fit_sentence(one.profile),
        )
        for one in answer.neighbours
    ]
    headings = ("plans that differ in one decision", "time", "change", "memory")
    return pieces.folded(headings[0], pieces.table(headings, rows)) if rows else ""


def roofline(answer: RooflineTable) -> View:
    """Return what bounds each matmul."""
    from sightline.report.charts.rooflines.matmuls import roofline_chart
    from sightline.report.terminal.analysis import classification, ridges

    label = labels.title(answer.scenario)
    rows: list[tuple[Any, ...]] = [
        (
            f"{row.phase}, {row.layer}: {row.matmul}",
            units.digits(row.intensity),
            row.bound,
            units.seconds(row.roofline_s),
            units.seconds(row.predicted_s),
        )
        for row in answer.rows
    ]
    table = pieces.table(("matmul", "FLOP/byte", "bound", "roofline", "predicted"), rows)
    said = pieces.paragraphs([f"memory-bound below the ridge, in FLOP/byte: {ridges(answer)}"], "faint")
    return View(
        html=pieces.title(label) + said + table,
        text=classification(label, [answer]),
        charts=[roofline_chart([(label, answer)])],
    )
