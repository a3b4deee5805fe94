"""An outlined answer as text for a terminal of any width, with colour where there is some."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from sightline.answers import outline as out
from sightline.answers.units import percent
from sightline.quantities import counted
from sightline.render.terminal_parts import Bar, Column, Command, Listing, Reasons, Sentence, grid, plain_table

_STYLES: Mapping[str, str] = {out.GOOD: "green", out.PERHAPS: "yellow", out.BAD: "bold red", out.FAINT: "dim"}
_COLORS = {
    "forward": "blue",
    "reference": "yellow",
    "queue": "yellow",
    "prefill": "blue",
    "backward": "cyan",
    "decode": "cyan",
    "recompute": "magenta",
    "transfer": "magenta",
    "optimizer": "green",
    "communication_exposed": "red",
    "communication": "red",
    "pipeline_bubble": "yellow",
    "host": "bright_black",
    "memory": "cyan",
    "network": "red",
    "bubble": "yellow",
    "input": "magenta",
    "launches": "bright_black",
    "imbalance": "yellow",
    "longest_sample": "yellow",
    "transfers": "yellow",
    "unmatched": "white",
    "": "white",
}
"""Of bars, by what they stand for."""
_SHORT_BAR = 14
"""Columns of the longest bar with cells behind it."""
_FEW = 5
"""Rows that share a line above them, in the mean, if wider labels can make them as many."""
_NOTHING = "-"
Blocks = Iterator[tuple[bool, RenderableType]]
"""What stands one below the other, each with whether an empty line parts it from other blocks."""


def outline_text(outline: out.Outline, *, in_full: bool = False) -> RenderableType:
    """Return an answer; ``in_full`` also its details, and the rows of its studies."""
    title = [Text(outline.title, style="bold")] if outline.title else []
    about = [Sentence(one, "dim") for one in outline.about]
    return Group(*title, *about, *_parted(_blocks(outline, in_full=in_full), after=bool(title or about)))


def _parted(blocks: Blocks, *, after: bool) -> Iterator[RenderableType]:
    """The blocks with empty lines between them; sentences stand together."""
    is_parted = None if after else False
    for parts, block in blocks:
        if (parts or is_parted or is_parted is None) and (after or is_parted is not False):
            yield Text()
        yield block
        is_parted, after = parts, True


def _blocks(outline: out.Outline, *, in_full: bool) -> Blocks:
    yield from _parts(outline.urgent, in_full=in_full)
    if outline.said or outline.legend:
        yield True, _short_answer([*outline.said, *outline.legend])
    yield from ((False, Sentence(one)) for one in outline.sentences)
    yield from _parts(outline.parts, in_full=in_full)
    if outline.assumptions:
        yield True, Group(Text("assumes", style="dim"), *(Sentence(one, "dim", 2) for one in outline.assumptions))


def _short_answer(lines: Sequence[out.Said]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for line in lines:
        style = f"bold {_STYLES.get(line.kind, '').removeprefix('bold ')}".strip()
        table.add_row(Text(line.asks, style="dim"), Sentence(line.says, style))
    return table


def _parts(parts: Sequence[out.Part], *, in_full: bool) -> Blocks:
    """The blocks of parts; consecutive bars share their columns, and so do tables under the same headings."""
    for (kind, _), group in groupby(parts, key=lambda part: (type(part), _columns_of(part))):
        same = list(group)
        if kind is out.Bars:
            yield from _bars([part for part in same if isinstance(part, out.Bars)])
        elif kind is out.Rows:
            yield from _rows([part for part in same if isinstance(part, out.Rows) and part.rows])
        else:
            for part in same:
                yield from _part(part, in_full=in_full)


def _columns_of(part: out.Part) -> tuple[str, ...]:
    if isinstance(part, out.Rows) and (part.grouped or part.sentences):
        return (*part.headings, part.title)
    if isinstance(part, out.Bars):
        return ("",) * len(part.headings)
    return tuple(part.headings) if isinstance(part, out.Rows) else ()


def _part(part: out.Part, *, in_full: bool) -> Blocks:
    match part:
        case out.Section():
            yield from _section(part, in_full=in_full)
        case out.Lines():
            lines = [Sentence(line, _STYLES.get(part.kind, "")) for line in part.lines]
            if part.title and lines:
                yield True, Group(Text(part.title, style="dim"), *lines)
            else:
                yield from ((False, line) for line in lines)
        case out.Steps():
            if part.steps:
                yield True, Group(*_steps(part))
        case out.Entries():
            if part.entries and (in_full or not part.is_detail):
                yield True, Group(*_entries(part))
        case out.Studies():
            yield from _studies(part) if in_full else _rows([part.listed] if part.studies else [])


def _section(part: out.Section, *, in_full: bool) -> Blocks:
    if (part.is_detail or part.is_long) and not in_full:
        return
    # The headings of sections are for pages: what stands below them has titles of its own.
    yield from _parts(part.made, in_full=in_full)


def _bars(parts: Sequence[out.Bars]) -> Blocks:
    shown = [part for part in parts if part.bars]
    if not shown:
        return
    table = grid(4 + any(bar.more for part in shown for bar in part.bars))
    for position, part in enumerate(shown):
        if position:
            table.add_row()
        # The only title is no cell, so that it does not widen the names' column.
        if len(shown) > 1:
            table.add_row(Text(part.title, style="dim"))
        longest = max(bar.share for bar in part.bars if bar.key != out.FAINT) or 1.0
        for key, label, value, share, more in part.bars:
            style = "dim" if key == out.FAINT else ""
            color = "red" if part.kind == out.BAD else _COLORS.get(key, "blue")
            bar: RenderableType = "" if key == out.FAINT else Bar(share / longest, color)
            bar = bar.drawn(_SHORT_BAR) if more and isinstance(bar, Bar) else bar
            figures = (Text(text, style, justify="right") for text in (value, percent(share)))
            notes = (f"{note} {name}" for name, note in zip(part.headings[3:4], more, strict=False) if note != _NOTHING)
            table.add_row(Text(label, style), *figures, bar, *notes)
    yield True, Group(Text(shown[0].title, style="dim"), table) if len(shown) == 1 else table


def _steps(part: out.Steps) -> Iterator[RenderableType]:
    if part.title:
        yield Text(part.title, style="dim")
    for rank, step in enumerate(part.steps, start=1):
        number = f"{rank}. " if part.is_ranked else ""
        if step.sentence:
            yield Sentence(number + step.sentence, indent=0 if part.is_ranked else 2)
        if step.command:
            yield Command(step.command)


def _entries(found: out.Entries) -> Iterator[RenderableType]:
    yield Text(found.title, style="bold")
    for one in found.entries:
        yield Text(f"\n{one.id} {one.says}")
        yield from (Sentence(line, "dim", indent=2) for line in one.lines)


def _studies(found: out.Studies) -> Blocks:
    from sightline.answers.study import study_outline

    for one in found.studies:
        yield True, outline_text(study_outline(one.answer))
        yield False, Sentence(one.status, "dim")


def _rows(tables: Sequence[out.Rows]) -> Blocks:
    """Tables: figures as one listing, words alone in columns that fold."""
    if not tables:
        return
    first = tables[0]
    if first.numbers is not False and not first.sentences:
        yield True, Group(*_titled(first if len(tables) == 1 else None), _Listed(tables))
        return
    for table in tables:
        shown = [[out.text_of(cell) for cell in row] for row in table.rows]
        body: RenderableType = plain_table(table.headings, shown)
        if table.sentences:
            numbers = table.numbers if isinstance(table.numbers, Sequence) else (False, True)
            body = Reasons([(row[0], row[1], row[2]) for row in shown], (numbers[0], numbers[1]))
        yield True, Group(*_titled(table), body)


def _titled(table: out.Rows | None) -> list[Text]:
    return [Text(table.title, style="dim")] if table is not None and table.title else []


@dataclass(frozen=True, slots=True)
class _Listed:
    """Rows as a listing in the first form that fits the terminal."""

    tables: Sequence[out.Rows]
    """Under the same headings."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the listing, and what is left out of it.

        Where it is too wide, the first labels go above the rows that share them if the table allows that, then columns
        are left out that it can do without, and at last a row takes several lines.
        """
        table = self.tables[0]
        forms = self._forms()
        gone: Sequence[str] = ()
        for count in range(len(table.drops) + 1):
            kept = [_without(form, table.drops[:count]) for form in forms]
            fitting = next((form for form in kept if form.narrowest <= options.max_width), None)
            if fitting is not None:
                headings = {column.heading for column in (*forms[0].labels, *forms[0].figures)}
                gone = [heading for heading in table.drops[:count] if heading in headings]
                yield fitting
                break
        else:
            yield replace(forms[-1], least=[*table.drops, *table.least])
        if gone:
            yield Sentence(f"hidden columns: {', '.join(gone)}; widen the terminal to show them", "dim")
        yield from (Sentence(line, "dim") for line in self._left_out())

    def _forms(self) -> list[Listing]:
        tables = self.tables
        table, lines = tables[0], [row for one in tables for row in self._lines(one)]
        cells: list[Sequence[str]] = list(zip(*lines, strict=True))
        numbers = table.numbers if isinstance(table.numbers, Sequence) else [at > 0 for at in range(len(cells))]
        kinds = {key: kind for one in tables for key, kind in one.kinds.items()}
        columns = [
            Column(
                heading=heading,
                cells=cells[at],
                is_number=numbers[at] and (at >= table.labels or at > 0),
                style=_style_by(kinds),
            )
            for at, heading in enumerate(table.headings)
        ]
        columns = [column for column in columns if {*column.cells} != {_NOTHING}] if table.regroups else columns
        styles = [
            "bold" if at in one.strong else "dim" if at in one.faint else ""
            for one in tables
            for at in range(len(self._lines(one)))
        ]
        labels, figures = columns[table.grouped : table.labels], columns[table.labels :]
        if table.figures:
            labels = [_joined(labels, " ")]
            figures = [column for column in figures if column.heading in table.figures]
        groups = [", ".join(filter(None, row[: table.grouped])) for row in lines] if table.grouped else []
        style = "dim"
        if len(tables) > 1:
            groups, style = [one.title for one in tables for _ in self._lines(one)], "bold"
        whole = Listing(
            labels=labels,
            figures=figures,
            styles=styles,
            groups=groups,
            group_style=style,
            group_gap=len(tables) > 1,
            least=table.least,
        )
        return [whole, *(_regrouped(labels, figures) if table.regroups else [])]

    def _lines(self, table: out.Rows) -> list[list[str]]:
        return [[*map(out.text_of, row)] for row in table.rows[: table.most_lines]]

    def _left_out(self) -> Iterator[str]:
        for table in self.tables:
            rows, columns = (table.total or len(table.rows)) - len(self._lines(table)), table.more_columns
            said = [counted(rows, "more row")] * (rows > 0) + [counted(columns, "more column")] * (columns > 0)
            if said:
                yield f"{' and '.join(said)}; use --csv for all"


def _without(form: Listing, headings: Sequence[str]) -> Listing:
    if not headings:
        return form
    kept = [[column for column in columns if column.heading not in headings] for columns in (form.labels, form.figures)]
    return replace(form, labels=kept[0], figures=kept[1])


def _regrouped(labels: Sequence[Column], figures: Sequence[Column]) -> Iterator[Listing]:
    """The forms that name what rows share above them, those first in which many rows share a line."""
    grouped = []
    for count in range(_of_a_row(labels), len(labels)):
        groups = [", ".join(cells) for cells in zip(*map(_named, labels[:-count]), strict=True)]
        runs = len(list(groupby(groups)))
        if runs == len({*groups}):
            form = Listing(labels=[_joined(labels[-count:])], figures=figures, groups=groups)
            grouped.append((len(groups) >= _FEW * runs, form))
    yield from (form for is_enough, form in grouped if is_enough)
    yield from (form for _, form in grouped[:1])


def _of_a_row(labels: Sequence[Column]) -> int:
    """How many of the last labels it takes to name each row: one, or more where rows lack the last."""
    for count in range(1, len(labels)):
        if all({*cells} != {_NOTHING} for cells in zip(*(one.cells for one in labels[-count:]), strict=True)):
            return count
    return len(labels)


def _joined(labels: Sequence[Column], between: str = ", ") -> Column:
    """Labels as one column; of several, each number with its name and without those that a row lacks."""
    if len(labels) == 1:
        return replace(labels[0], is_number=False)
    rows = zip(*(zip(_named(one), one.cells, strict=True) for one in labels), strict=True)
    cells = [between.join(said for said, cell in row if cell not in (_NOTHING, "")) for row in rows]
    return Column(heading="", cells=cells, is_number=False)


def _named(column: Column) -> list[str]:
    """The cells of a column as they stand above rows: a number after what it is."""
    return [f"{column.heading} {cell}" if column.is_number else cell for cell in column.cells]


def _style_by(kinds: Mapping[str, str]) -> Callable[[str], str]:
    def style(cell: str) -> str:
        kind = kinds.get(cell, kinds.get(cell.partition(" ")[0].rstrip(","), ""))
        return _STYLES.get(kind, "").removeprefix("bold ")

    return style
