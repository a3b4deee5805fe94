"""The report of a search of plans: its table, its pictures, the reasons and the best plans in full."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.report import pieces
from sightline.report.charts.plan import row_of
from sightline.report.document import document
from sightline.report.explained.answer import COSTS
from sightline.report.pages.charts import charts_piece
from sightline.report.pages.launch import launch_piece
from sightline.report.pages.profile import profile_piece
from sightline.report.pages.profile import short_answer as of_profile
from sightline.report.pieces import FAINT, Piece, Said
from sightline.report.plans import columns, sentences
from sightline.report.plans.whole_run import whole_run

_STYLE = """
main { max-width: 1120px; } td:first-child { white-space: nowrap; }
@media (max-width: 560px) { td:first-child { white-space: normal; } }
"""
_MOST_DETAILS = 3
"""Plans shown in full; with more the page would load slowly."""
Commands = Sequence[tuple[str, str]]


def plan_page(answer: PlanAnswer, commands: Commands = (), *, command: str = "") -> str:
    """Return the report.

    Args:
        answer: Of a search.
        commands: What to try next: what each is for, and what to type.
        command: The command that asked, for the footer.
    """
    body = pieces.joined(pieces.headline(sentences.title(answer)), plan_piece(answer, commands))
    return document(sentences.title(answer), body, command=command, style=_STYLE)


def plan_piece(
    answer: PlanAnswer,
    commands: Commands = (),
    *,
    addresses: Mapping[int, str] | None = None,
    tries: Sequence[str] = (),
    tools: Piece | str = "",
) -> Piece:
    """Return what stands on the page of a search, without its title.

    Args:
        answer: Of a search.
        commands: What to try next: what each is for, and what to type.
        addresses: Of the prediction of each plan, by rank, where there are such pages.
        tries: Addresses of the searches in which each of the nearest plans is found, in place of their commands.
        tools: What stands below the short answer.
    """
    marks = [*sentences.obstacles(answer), *sentences.perhaps_too_large(answer)]
    return pieces.joined(
        pieces.paragraphs(sentences.subtitle(answer), FAINT),
        pieces.short_answer(short_answer(answer)),
        tools,
        _nearest(answer, tries),
        _table(answer, addresses or {}) if answer.plans else "",
        pieces.paragraphs((*whole_run(answer), *sentences.standing(answer), *sentences.binding(answer), *marks)),
        _chart(answer) if answer.plans else "",
        launch_piece(answer),
        *_reasons(answer),
        _searched(answer),
        pieces.section("Evidence", pieces.paragraphs(sentences.assumptions(answer))),
        pieces.warned(answer.warnings),
        pieces.section("Try next", pieces.commands(commands)),
        pieces.section("The best plans", *(_detail(answer, one) for one in answer.plans[:_MOST_DETAILS])),
    )


def short_answer(answer: PlanAnswer) -> Iterator[Said]:
    """Yield the best plan and its short answer; where nothing fits, that."""
    if not answer.plans:
        none = "none found before the search was stopped" if answer.stopped else "none meets the request"
        yield Said(asks="best plan", says=none, kind=pieces.BAD)
        return
    best = answer.plans[0]
    yield Said(asks="best plan", says=sentences.best_in_words(answer))
    rent = sentences.rent(answer)
    lines = of_profile(best.profile)
    yield from (replace(line, says=rent) if rent and line.asks == COSTS else line for line in lines)
    if reasons := sentences.why_it_wins(answer):
        yield Said(asks="rationale", says=reasons)


def table_of(answer: PlanAnswer) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the headings and the rows of the table of the best plans."""
    if not answer.plans:
        return [], []
    figures = columns.figures(answer)
    told = {column.key for column in figures}
    shown = [*(column for column in columns.choices(answer) if column.key not in told), *figures]
    marks = [sentences.marked(answer, position) for position in range(len(answer.plans))]
    rows = zip(marks, *(column.cells for column in shown), strict=True)
    return ["plan", *(column.heading for column in shown)], list(rows)


def _chart(answer: PlanAnswer) -> Piece:
    said = "; ".join(f"plan {row_of(answer, one)}" for one in answer.plans[:5])
    return charts_piece(answer, f"plans found: {said}", names=("plans",), titled=False)


def _table(answer: PlanAnswer, addresses: Mapping[int, str]) -> str:
    """The best plans, each with a way to its prediction where there is one."""
    headings, rows = table_of(answer)
    linked: list[Sequence[pieces.Cell]] = [
        (pieces.Link(row[0], addresses[one.rank], f"plan {one.rank} in full"), *row[1:])
        if one.rank in addresses
        else row
        for one, row in zip(answer.plans, rows, strict=True)
    ]
    hint = pieces.paragraphs(["Select a plan number to see its details."] if addresses else [], FAINT)
    return pieces.table(headings, linked, label="the best plans") + hint


def _searched(answer: PlanAnswer) -> Piece:
    """What was searched, and what of it was left out and why."""
    return pieces.section(
        "Search space",
        pieces.paragraphs([sentences.searched(answer), *sentences.left_out(answer)]),
        _rows(("exceed", "limit", ""), sentences.beyond_limits(answer)),
        _rows(("not valid", "rule", ""), sentences.rejections(answer)),
    )


def _nearest(answer: PlanAnswer, tries: Sequence[str]) -> Piece:
    """Changes under which something fits; as links where there are pages of searches."""
    found = sentences.nearest(answer)
    if not answer.nearest or len(tries) < len(found):
        return pieces.section("Nearest plans that fit", pieces.commands(found))
    links = [pieces.Link(said, address).html for (said, _), address in zip(found, tries, strict=False)]
    return pieces.section("Nearest plans that fit", f"<ul>{''.join(f'<li>{link}</li>' for link in links)}</ul>")


def _reasons(answer: PlanAnswer) -> Iterator[Piece]:
    """Why the best plan is the best, and what would be better."""
    compared = sentences.compared_by(answer)
    for title, first, rows in (
        ("Best plan for each other value", "instead", sentences.alternatives(answer)),
        ("Alternatives", "instead", sentences.neighbours(answer)),
        ("Better, but excluded", "instead", sentences.gains(answer)),
        ("Better hardware", "part", sentences.hardware(answer)),
    ):
        yield pieces.section(title, _rows((first, compared, ""), rows))


def _rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    unbroken = [tuple(cell.replace(" %", "\u00a0%") for cell in row) for row in rows]
    return pieces.table(headings, unbroken, label=f"{headings[0]} and {headings[1]}", numbers=False) if rows else ""


def _detail(answer: PlanAnswer, plan: RankedPlan) -> Piece:
    everything = profile_piece(plan.profile, f"plan{plan.rank}", charts=2, narrow=False, level=3)
    return pieces.folded(f"Plan {row_of(answer, plan)}", everything)
