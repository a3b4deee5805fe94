"""A reproduced source as text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from sightline.report.reproduced import words
from sightline.report.studies.text import study_text
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import Sentence
from sightline.reproduction.answer import Reproduction

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {words.YES: "green", words.NO: "bold red"}


def reproduced_text(answer: Reproduction, *, in_full: bool) -> "RenderableType":
    """Return a source's findings and tables; ``in_full`` every finding's figures and every table's rows."""
    from rich.console import Group

    return Group(*_blocks(answer, in_full=in_full))


def _blocks(answer: Reproduction, *, in_full: bool) -> "Iterator[RenderableType]":
    yield Text(words.title_of(answer), style="bold")
    yield Sentence(answer.cited, "dim")
    for one in words.short_answer(answer):
        yield Sentence(f"{one.asks}: {one.says}")
    if answer.outcomes:
        yield Text()
        yield _findings(answer)
        yield from _figures(answer, in_full=in_full)
        yield from _choices(answer)
    yield from _tables(answer, in_full=in_full)
    if answer.assumptions:
        yield Text("\nassumes", style="dim")
        yield from (Sentence(one, "dim", indent=2) for one in answer.assumptions)


def _findings(answer: Reproduction) -> Listing:
    cells = dict(zip(words.HEADINGS, zip(*map(words.line_of, answer.outcomes), strict=True), strict=True))
    names = [f"{id_} {finding}" for id_, finding in zip(cells[""], cells["finding"], strict=True)]
    columns = [
        Column(heading=heading, cells=cells[heading], is_number=is_number, style=lambda cell: _STYLES.get(cell, ""))
        for heading, is_number in zip(words.HEADINGS, words.NUMBERS, strict=True)
        if heading in ("ours", "criterion", "reproduced")
    ]
    return Listing(labels=[Column(heading="finding", cells=names, is_number=False)], figures=columns)


def _figures(answer: Reproduction, *, in_full: bool) -> "Iterator[RenderableType]":
    """The figures behind findings; of those that are reproduced only where all is asked for."""
    shown = answer.outcomes if in_full else words.missed(answer)
    if shown and not in_full:
        yield Text("\nnot reproduced", style="bold")
    for outcome in shown:
        yield Text(f"\n{outcome.finding.id} {outcome.finding.finding}")
        yield from (Sentence(line, "dim", indent=2) for line in words.details_of(outcome))


def _choices(answer: Reproduction) -> "Iterator[RenderableType]":
    """The choices with which most findings are reproduced together."""
    if answer.choices:
        yield Text("\none choice of every open setting", style="bold")
        yield from (Sentence(f"{setting}: {choice}", indent=2) for setting, choice in answer.choices.items())


def _tables(answer: Reproduction, *, in_full: bool) -> "Iterator[RenderableType]":
    if not answer.tables:
        return
    if in_full:
        for one in answer.tables:
            yield Text()
            yield study_text(one.answer)
            yield Sentence(one.status, "dim")
        return
    yield Text("\ntables", style="bold")
    cells = list(zip(*map(words.table_line, answer.tables), strict=True))
    names, titles, statuses, rows = cells
    yield Listing(
        labels=[Column(heading="table", cells=names, is_number=False)],
        figures=[
            Column(heading="shows", cells=titles, is_number=False),
            Column(heading="status", cells=statuses, is_number=False),
            Column(heading="rows", cells=rows),
        ],
        least=["status"],
    )
