"""The answer of a search of plans as text: the best plans, what was searched, why others lose, what to try next."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.planning.answer import PlanAnswer
from sightline.report.plans import columns, sentences
from sightline.report.terminal import parts


def plan_text(answer: PlanAnswer, commands: Sequence[tuple[str, str]] = ()) -> RenderableType:
    """Return the answer, with ``commands`` to try next: what each is for, and what to type."""
    blocks: list[RenderableType] = [
        Text(sentences.title(answer), style="bold" if answer.plans else "bold red"),
        *(parts.Sentence(line, "dim") for line in sentences.subtitle(answer)),
        Text(),
    ]
    if answer.plans:
        blocks += [best_plans(answer), Text()]
        blocks += map(parts.Sentence, (*sentences.standing(answer), *sentences.binding(answer), *_marks(answer)))
        blocks += [Text()]
    blocks += _searched(answer)
    blocks += _listing("nearest that fit", sentences.nearest(answer))
    blocks += _section("why not", sentences.neighbours(answer))
    blocks += _section("better hardware", sentences.hardware(answer))
    blocks += (
        [Text(), *(parts.Sentence(line, "dim") for line in sentences.assumptions(answer))] if answer.assumptions else []
    )
    blocks += _listing("try next", commands)
    return Group(*blocks)


def best_plans(answer: PlanAnswer) -> parts.FirstThatFits:
    """Return the plans as a table of the columns that the terminal has room for, else with a plan in words."""
    chosen, figures = columns.choices(answer), columns.figures(answer)
    known = {column.key for column in figures}
    chosen = [column for column in chosen if column.key not in known]
    dropped = [key for key in columns.in_order_of_need(answer) if key in {c.key for c in (*chosen, *figures)}]
    forms: list[RenderableType] = []
    for count in range(len(dropped) + 1):
        left_out = dropped[:count]
        forms.append(_table(answer, [c for c in (*chosen, *figures) if c.key not in left_out]))
    return parts.FirstThatFits([*forms, _in_words(answer, [c for c in figures if c.key not in dropped])])


def _table(answer: PlanAnswer, shown: Sequence[columns.Column]) -> Table:
    table = parts.plain_table(("",))
    table.columns[0].no_wrap = True
    for column in shown:
        table.add_column(column.heading, justify="right" if column.is_number else "left", no_wrap=True)
    for position, one in enumerate(answer.plans):
        cells = [column.cells[position] for column in shown]
        table.add_row(_rank(answer, position), *map(Text, cells), style="" if one.rank > 1 else "bold")
    return table


def _in_words(answer: PlanAnswer, figures: Sequence[columns.Column]) -> Table:
    table = parts.plain_table(("", "plan"))
    table.columns[0].no_wrap, table.columns[1].ratio = True, 1
    for column in figures:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for position, one in enumerate(answer.plans):
        cells = [column.cells[position] for column in figures]
        own = columns.own(answer, one) or "the same"
        table.add_row(_rank(answer, position), Text(own), *map(Text, cells), style="" if one.rank > 1 else "bold")
    return table


def _rank(answer: PlanAnswer, position: int) -> str:
    """The rank with its marks: tied with the first, on the front, not launchable."""
    one = answer.plans[position]
    tied = any(other.tied for other in answer.plans) and (one.tied or position == 0)
    marks = (
        sentences.TIED if tied else "",
        "*" if position in answer.pareto else "",
        "!" if not one.launchable else "",
    )
    return f"{one.rank} {''.join(marks)}".rstrip()


def _marks(answer: PlanAnswer) -> list[str]:
    found = [
        f"! {one.rank}: {'; '.join(one.obstacles) or 'no framework offers it'}"
        for one in answer.plans
        if not one.launchable
    ]
    front = ["* on the Pareto front: no other plan is better in both"] if answer.pareto else []
    return [*front, *found]


def _searched(answer: PlanAnswer) -> list[RenderableType]:
    """How many plans there were, and how many candidates each rule or limit rejected."""
    counted = sentences.rejections(answer)
    said: list[RenderableType] = [parts.Sentence(sentences.searched(answer))]
    return [*said, Text("rejected", style="dim"), parts.Entries(counted, (True, False))] if counted else said


def _section(heading: str, rows: Sequence[tuple[str, str, str]]) -> list[RenderableType]:
    """A heading with lines below it: a name, a figure, a sentence."""
    return [Text(), Text(heading, style="dim"), parts.Entries(rows, (False, True))] if rows else []


def _listing(heading: str, commands: Iterable[tuple[str, str]]) -> list[RenderableType]:
    """A heading with sentences below it, each with the command that it names on lines of its own."""
    found = list(commands)
    lines: list[RenderableType] = [Text(), Text(heading, style="dim")] if found else []
    for sentence, command in found:
        lines += [parts.Sentence(sentence, indent=2)] if sentence else []
        lines += [parts.Command(command)] if command else []
    return lines
