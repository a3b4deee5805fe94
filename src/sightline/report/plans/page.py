"""The report of a search of plans: one page with its table, its pictures, the reasons and every plan in full."""

from collections.abc import Mapping, Sequence
from html import escape

from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.report.charts.drawing import PHONE, chart_element, html_document
from sightline.report.charts.plan import plan_chart, row_of
from sightline.report.page import STYLE, detail, table
from sightline.report.plans import columns, sentences
from sightline.report.plans.whole_run import whole_run

_STYLE = """
main { max-width: 1120px; } td:first-child { white-space: nowrap; } pre { white-space: pre-wrap; }
table { width: auto; margin: 6px 0 14px; }
@media (max-width: 560px) { td:first-child { white-space: normal; } }
"""
_MOST_DETAILS = 3
"""Plans shown in full; with more the page would load slowly."""


def plan_page(
    answer: PlanAnswer, limits: Mapping[str, float] | None = None, commands: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the report.

    Args:
        answer: Of a search.
        limits: The most that was allowed of figures, by result key.
        commands: What to try next: what each is for, and what to type.
    """
    title, compared = sentences.title(answer), sentences.compared_by(answer)
    sections = [
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="faint">{escape(line)}</p>' for line in sentences.subtitle(answer)),
        _plans(answer),
        _listed((*whole_run(answer), *sentences.standing(answer), *sentences.binding(answer), *_marks(answer))),
        _chart(answer, limits) if answer.plans else "",
        f"<h2>What was searched</h2><p>{escape(sentences.searched(answer))}</p>",
        _listed(sentences.left_out(answer)),
        _rows(("exceed", "limit", ""), sentences.beyond_limits(answer)),
        _rows(("not valid", "rule", ""), sentences.rejections(answer)),
        _commands("Nearest that fit", sentences.nearest(answer)),
        _reasons("Best with each other value", ("instead", compared, ""), sentences.alternatives(answer)),
        _reasons("Why not", ("instead", compared, ""), sentences.neighbours(answer)),
        _reasons("Better, and why not", ("instead", compared, ""), sentences.gains(answer)),
        _reasons("Better hardware", ("part", compared, ""), sentences.hardware(answer)),
        _listed(sentences.assumptions(answer)),
        _commands("Try next", commands),
        _details(answer),
    ]
    return html_document(title, f"<main>{''.join(sections)}</main>", STYLE + _STYLE)


def _marks(answer: PlanAnswer) -> list[str]:
    """What the marks behind ranks mean."""
    return [*sentences.obstacles(answer), *sentences.perhaps_too_large(answer)]


def _plans(answer: PlanAnswer) -> str:
    """The table of the best plans."""
    if not answer.plans:
        return ""
    figures = columns.figures(answer)
    told = {column.key for column in figures}
    shown = [*(column for column in columns.choices(answer) if column.key not in told), *figures]
    marks = [sentences.marked(answer, position) for position in range(len(answer.plans))]
    rows = zip(marks, *(column.cells for column in shown), strict=True)
    return table(("plan", *(column.heading for column in shown)), rows)


def _chart(answer: PlanAnswer, limits: Mapping[str, float] | None) -> str:
    wide, narrow = plan_chart(answer, limits, titled=False), plan_chart(answer, limits, PHONE, titled=False)
    return f'<div class="scroll">{chart_element(wide, "chart", narrow)}</div>'


def _listed(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table(headings, rows, numbers=False) if rows else ""


def _reasons(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"<h2>{title}</h2>{_rows(headings, rows)}" if rows else ""


def _commands(title: str, commands: Sequence[tuple[str, str]]) -> str:
    found = "".join(f"<p>{escape(said)}</p><pre>{escape(command)}</pre>" for said, command in commands)
    return f"<h2>{title}</h2>{found}" if found else ""


def _details(answer: PlanAnswer) -> str:
    """Everything about the best plans, folded."""
    found = [_detail(answer, one) for one in answer.plans[:_MOST_DETAILS]]
    return f"<h2>The best plans</h2>{''.join(found)}" if found else ""


def _detail(answer: PlanAnswer, plan: RankedPlan) -> str:
    everything = detail(plan.profile, f"plan{plan.rank}", narrow=False)
    return f"<details><summary>Plan {escape(row_of(answer, plan))}</summary>{everything}</details>"
