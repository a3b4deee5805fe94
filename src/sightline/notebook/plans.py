"""The answer of a search of plans: the best ones, why others lose, and what they trade."""

from collections.abc import Sequence

from sightline.notebook import pieces
from sightline.notebook.view import NOTEBOOK, View
from sightline.planning.answer import PlanAnswer
from sightline.report.plans import columns, sentences


def plans(answer: PlanAnswer) -> View:
    """Return the best plans as a table with their reasons, and the chart of what they take and trade."""
    from sightline.report.charts.plan import plan_chart
    from sightline.report.plans.whole_run import whole_run
    from sightline.report.terminal.plan import plan_text

    said = (*whole_run(answer), *sentences.standing(answer), *sentences.binding(answer))
    marks = (*sentences.obstacles(answer), *sentences.perhaps_too_large(answer))
    html = "".join(
        (
            pieces.title(sentences.title(answer)),
            pieces.paragraphs(sentences.subtitle(answer), "faint"),
            _table(answer),
            pieces.paragraphs((*said, *marks)),
            pieces.paragraphs((sentences.searched(answer), *sentences.left_out(answer)), "faint"),
            pieces.warned(answer.warnings),
            _near(answer),
            _reasons(answer),
        )
    )
    charts = [plan_chart(answer, NOTEBOOK, titled=False)] if answer.plans else []
    return View(html=html, text=plan_text(answer), charts=charts)


def _table(answer: PlanAnswer) -> str:
    if not answer.plans:
        return ""
    figures = columns.figures(answer)
    told = {column.key for column in figures}
    shown = [*(column for column in columns.choices(answer) if column.key not in told), *figures]
    marks = [sentences.marked(answer, position) for position in range(len(answer.plans))]
    rows = zip(marks, *(column.cells for column in shown), strict=True)
    return pieces.table(("plan", *(column.heading for column in shown)), rows)


def _near(answer: PlanAnswer) -> str:
    lines = [f"{said} {command}".strip() for said, command in sentences.nearest(answer)]
    return pieces.section("nearest that fit", pieces.listed(lines))


def _reasons(answer: PlanAnswer) -> str:
    """Why other choices lose, what a better part brings, what was refused and assumed; each folded."""
    by = sentences.compared_by(answer)
    parts: Sequence[tuple[str, Sequence[tuple[str, str, str]], tuple[str, str, str]]] = (
        ("best with each other value", sentences.alternatives(answer), ("instead", by, "")),
        ("why not", sentences.neighbours(answer), ("instead", by, "")),
        ("better, and why not", sentences.gains(answer), ("instead", by, "")),
        ("better hardware", sentences.hardware(answer), ("part", by, "")),
        ("beyond the limits", sentences.beyond_limits(answer), ("exceed", "limit", "")),
        ("not valid", sentences.rejections(answer), ("not valid", "rule", "")),
    )
    tables = (
        pieces.folded(name, pieces.table(headings, rows, numbers=False)) for name, rows, headings in parts if rows
    )
    return "".join((*tables, pieces.folded("assumptions", pieces.listed(sentences.assumptions(answer)))))
