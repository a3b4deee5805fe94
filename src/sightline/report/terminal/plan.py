"""The answer of a search of plans as text: the best plans, what was searched, why others lose, what to try next."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from sightline.planning.answer import PlanAnswer
from sightline.report.plans import columns, sentences
from sightline.report.plans.whole_run import whole_run
from sightline.report.terminal import parts
from sightline.report.terminal.listing import Column, Listing


def plan_text(answer: PlanAnswer, commands: Sequence[tuple[str, str]] = ()) -> RenderableType:
    """Return the answer, with ``commands`` to try next: what each is for, and what to type."""
    blocks: list[RenderableType] = [
        Text(sentences.title(answer), style="bold" if answer.plans else "bold red"),
        *(parts.Sentence(line, "dim") for line in sentences.subtitle(answer)),
        Text(),
    ]
    if answer.plans:
        blocks += [BestPlans(answer), Text(), *map(parts.Sentence, whole_run(answer))]
        blocks += map(parts.Sentence, (*sentences.standing(answer), *sentences.binding(answer), *_marks(answer)))
        blocks += [Text()]
    blocks += _searched(answer)
    blocks += _listing("nearest plans that fit", sentences.nearest(answer))
    compared = sentences.compared_by(answer)
    blocks += _section(f"best plan for each other value: {compared}", sentences.alternatives(answer))
    blocks += _section(f"alternatives: {compared}", sentences.neighbours(answer))
    blocks += _section(f"better, but excluded: {compared}", sentences.gains(answer))
    blocks += _section(f"better hardware: {compared}", sentences.hardware(answer))
    blocks += (
        [Text(), *(parts.Sentence(line, "dim") for line in sentences.assumptions(answer))] if answer.assumptions else []
    )
    blocks += _listing("try next", commands)
    return Group(*blocks)


@dataclass(frozen=True, slots=True)
class BestPlans:
    """The plans in the columns that the terminal has room for; if there is little, a plan's choices on its own line."""

    answer: PlanAnswer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the first form that fits."""
        answer = self.answer
        figures = columns.figures(answer)
        chosen = [c for c in columns.choices(answer) if c.key not in {figure.key for figure in figures}]
        dropped = [key for key in columns.least_needed(answer) if key in {c.key for c in (*chosen, *figures)}]
        minor = {column.key: column.heading for column in chosen if column.key in columns.MINOR}
        forms = ((_listing_of(answer, chosen, figures, dropped[:n]), dropped[:n]) for n in range(len(dropped) + 1))
        fitting, gone = next(((f, gone) for f, gone in forms if f.narrowest <= options.max_width), (None, []))
        # Plans in blocks have room for most figures.
        headings = {figure.key: figure.heading for figure in figures}
        least = [headings[key] for key in dropped if key in headings]
        yield fitting or replace(_listing_of(answer, chosen, figures, columns.DERIVED), least=least)
        if missing := [minor[key] for key in gone if key in minor]:
            yield parts.Sentence(f"hidden columns: {', '.join(missing)}; widen the terminal to show them", "dim")


def _listing_of(
    answer: PlanAnswer, chosen: Sequence[columns.Column], figures: Sequence[columns.Column], dropped: Sequence[str]
) -> Listing:
    ranks = [sentences.marked(answer, position) for position in range(len(answer.plans))]
    return Listing(
        labels=[
            Column(heading="plan", cells=ranks, is_number=False),
            *(_column(c) for c in chosen if c.key not in dropped),
        ],
        figures=[_column(column) for column in figures if column.key not in dropped],
        styles=["bold" if one.rank == 1 else "" for one in answer.plans],
    )


def _column(column: columns.Column) -> Column:
    return Column(heading=column.heading, cells=column.cells, is_number=column.is_number)


def _marks(answer: PlanAnswer) -> list[str]:
    """What the marks behind ranks mean."""
    found = [*sentences.obstacles(answer), *sentences.perhaps_too_large(answer)]
    is_said = answer.pareto_axes is not None or len(answer.pareto) < len(answer.plans)
    if not (answer.pareto and is_said):
        return found
    where = "*" if len(answer.pareto) < len(answer.plans) else "all plans are"
    return [f"{where} on the Pareto front: no other plan is better in both", *found]


def _searched(answer: PlanAnswer) -> list[RenderableType]:
    """How many plans there were and were left out, how many exceed a limit, how many candidates each rule rejected."""
    limits, rules = sentences.beyond_limits(answer), sentences.rejections(answer)
    counted = (sentences.searched(answer), *sentences.left_out(answer))
    said: list[RenderableType] = [parts.Sentence(line) for line in counted]
    said += [parts.Entries(limits, (True, False))] if limits else []
    return [*said, Text("invalid, by rule", style="dim"), parts.Entries(rules, (True, False))] if rules else said


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
