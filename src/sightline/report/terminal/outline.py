"""An outlined answer as text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from sightline.report.outline import Entries, Outline, Part, Rows, Studies
from sightline.report.pieces import BAD, GOOD, PERHAPS
from sightline.report.studies.text import study_text
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import Sentence, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES: Mapping[str, str] = {GOOD: "green", PERHAPS: "yellow", BAD: "bold red"}


def outline_text(outline: Outline, *, in_full: bool = False) -> "RenderableType":
    """Return an answer; ``in_full`` also its details, and the rows of its studies."""
    from rich.console import Group

    return Group(*_blocks(outline, in_full=in_full))


def _blocks(outline: Outline, *, in_full: bool) -> "Iterator[RenderableType]":
    yield Text(outline.title, style="bold")
    yield from (Sentence(one, "dim") for one in outline.about)
    yield from (Sentence(f"{one.asks}: {one.says}") for one in outline.said)
    yield from map(Sentence, outline.sentences)
    for part in outline.parts:
        yield from _part(part, in_full=in_full)
    if outline.legend:
        yield Text()
        yield from (Sentence(f"{one.asks}: {one.says}") for one in outline.legend)
    if outline.assumptions:
        yield Text("\nassumes", style="dim")
        yield from (Sentence(one, "dim", indent=2) for one in outline.assumptions)


def _part(part: Part, *, in_full: bool) -> "Iterator[RenderableType]":
    if isinstance(part, Rows):
        yield from _rows(part)
    elif isinstance(part, Entries):
        yield from _entries(part) if in_full or not part.is_detail else ()
    elif in_full:
        yield from _studies(part)
    else:
        yield from _rows(part.listed)


def _rows(table: Rows) -> "Iterator[RenderableType]":
    """Names and figures as a listing; words alone in columns that fold, or two of them as sentences."""
    if not table.rows:
        return
    yield Text(f"\n{table.title}", style="bold")
    if table.numbers is not False:
        yield _listing(table)
    elif len(table.headings) > 2:
        yield plain_table(table.headings, rows=table.rows)
    else:
        yield from (Sentence(f"{name}: {said}", indent=2) for name, said in table.rows)


def _listing(table: Rows) -> Listing:
    names, *columns = [_named(table), *_columns(table)]
    shown = table.figures or [one.heading for one in columns]
    return Listing(labels=[names], figures=[one for one in columns if one.heading in shown])


def _named(table: Rows) -> Column:
    """What names each row, in one column."""
    names = [" ".join(row[: table.labels]).strip() for row in table.rows]
    return Column(heading=" ".join(table.headings[: table.labels]).strip(), cells=names, is_number=False)


def _columns(table: Rows) -> Iterator[Column]:
    """The columns behind the names."""
    cells: Sequence[Sequence[str]] = list(zip(*table.rows, strict=True))
    numbers = table.numbers if isinstance(table.numbers, Sequence) else [True] * len(cells)
    for at in range(table.labels, len(cells)):
        yield Column(heading=table.headings[at], cells=cells[at], is_number=numbers[at], style=_style_by(table.kinds))


def _style_by(kinds: Mapping[str, str]) -> Callable[[str], str]:
    return lambda cell: _STYLES.get(kinds.get(cell, ""), "")


def _entries(found: Entries) -> "Iterator[RenderableType]":
    if found.entries:
        yield Text(f"\n{found.title}", style="bold")
    for one in found.entries:
        yield Text(f"\n{one.id} {one.says}")
        yield from (Sentence(line, "dim", indent=2) for line in one.lines)


def _studies(found: Studies) -> "Iterator[RenderableType]":
    for one in found.studies:
        yield Text()
        yield study_text(one.answer)
        yield Sentence(one.status, "dim")
