"""An explanation as text: the short answer, limits with their distance, phases, modules, and what to change."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.explanation.answer import Advice, Explanation
from sightline.report import labels, units
from sightline.report.explained.answer import MOST_MODULES, change, modules, phases, short_answer, whole_name
from sightline.report.pieces import BAD, GOOD, PERHAPS
from sightline.report.summary import Part
from sightline.report.terminal import parts
from sightline.report.terminal.profile import COLORS

LIMIT_COLORS = {
    "compute": "blue",
    "memory": "cyan",
    "network": "red",
    "host": "bright_black",
    "bubble": "yellow",
    "input": "magenta",
    "launches": "bright_black",
    "imbalance": "yellow",
    "transfers": "yellow",
    "unmatched": "white",
}
_STYLES = {GOOD: "bold green", PERHAPS: "bold yellow", BAD: "bold red"}
_BAR = 14
"""Columns of the longest bar of a limit, which leaves room for the distance to it."""


_FEWER = {2: 6, 3: 4}
"""Modules that are shown next to several changes, so that a screen holds both."""


_SEEN = 5e-4
"""Share of the time from which on a limit has a line."""


def explained(explanation: Explanation) -> RenderableType:
    """Return an explanation for a terminal of 80 columns or more."""
    about = [] if explanation.answer is None else labels.subtitle(explanation.answer.scenario)
    return Group(
        Text(explanation.title, style="bold"),
        *(Text(line, style="dim") for line in about),
        Text(),
        _answer(explanation),
        *_limits(explanation),
        *_parts(explanation),
        *_sentences(explanation),
        *_advice(explanation.advice),
    )


def _answer(explanation: Explanation) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for line in (*short_answer(explanation), change(explanation)):
        table.add_row(Text(line.asks, style="dim"), parts.Sentence(line.says, style=_STYLES.get(line.kind, "bold")))
    return table


def _limits(explanation: Explanation) -> Iterator[RenderableType]:
    if not explanation.limits:
        return
    longest = max(one.share for one in explanation.limits) or 1.0
    table = parts.grid(5)
    # The title is no cell, so that it does not widen the names' column.
    title = Text(f"what limits the {whole_name(explanation)}", style="dim")
    for one in (each for each in explanation.limits if each.share >= _SEEN):
        bar = parts.Bar(one.share / longest, LIMIT_COLORS.get(one.limit, "white")).drawn(_BAR)
        alone = "" if one.alone_s is None else f"{units.seconds(one.alone_s)} if nothing else limited it"
        share = Text(units.percent(one.share), justify="right")
        table.add_row(one.limit, Text(units.seconds(one.time_s), justify="right"), share, bar, alone)
    yield Text()
    yield title
    yield table


def _parts(explanation: Explanation) -> Iterator[RenderableType]:
    """Phases and modules in one grid, so that their columns line up."""
    table = parts.grid(4)
    for title, found in (
        (f"{whole_name(explanation)} by phase", phases(explanation)),
        ("longest modules", modules(explanation, _FEWER.get(len(explanation.advice), MOST_MODULES))),
    ):
        if found:
            if table.row_count:
                table.add_row()
            table.add_row(Text(title, style="dim"))
            _add(table, found)
    if table.row_count:
        yield Text()
        yield table


def _add(table: Table, found: Sequence[Part]) -> None:
    longest = max(part.share for part in found)
    for part in found:
        parts.add_part(table, part, units.seconds(part.value), part.share / longest, COLORS.get(part.key, "blue"))


def _sentences(explanation: Explanation) -> Iterator[RenderableType]:
    """The reading, without its first sentence, which the short answer says."""
    if explanation.sentences[1:]:
        yield Text()
    for sentence in explanation.sentences[1:]:
        yield parts.Sentence(sentence)


def _advice(advice: Sequence[Advice]) -> Iterator[RenderableType]:
    if advice:
        yield Text()
    for number, one in enumerate(advice, start=1):
        yield parts.Sentence(f"{number}. {one.sentence}")
        if one.command:
            yield parts.Command(one.command)
