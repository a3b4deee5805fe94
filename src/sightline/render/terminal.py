"""An outlined answer as text for a terminal of any width, with colour where there is some."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, takewhile

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from sightline.answers import outline as out
from sightline.answers.units import percent
from sightline.quantities import counted
from sightline.render.terminal_parts import (
    Bar,
    Column,
    Command,
    Listing,
    Reasons,
    Sentence,
    grid,
    left_out,
    plain_table,
)

_STYLES: Mapping[str, str] = {out.GOOD: "green", out.PERHAPS: "yellow", out.BAD: "bold red", out.FAINT: "dim"}
_COLORS = {
    key: color
    for color, keys in {
        "blue": ("forward", "prefill"),
        "cyan": ("backward", "decode", "memory"),
        "magenta": ("recompute", "transfer", "input"),
        "green": ("optimizer",),
        "red": ("communication_exposed", "communication", "network"),
        "yellow": ("reference", "queue", "pipeline_bubble", "bubble", "imbalance", "longest_sample", "transfers"),
        "bright_black": ("host", "launches"),
        "white": ("unmatched", ""),
    }.items()
    for key in keys
}
"""Of bars, by what they stand for."""
_SHORT_BAR = 14
"""Columns of the longest bar with cells behind it."""
_FEW = 5
"""Rows that share a line above them, in the mean, if wider labels can make them as many."""
_NOTHING = "-"
SCREEN_LINES = 25
"""Lines of an answer on a terminal, unless all of it is asked for."""
_ANSWER_LINES = 10
"""Of these, lines of the short answer and of the sentences below it, where not everything has room."""
_NOTE_LINES = 4
"""Of these, lines of the sentences below a table."""
_LEAST_ROWS = 3
"""Rows of figures that are worth their headings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Block:
    """What stands together, apart from what is above and below."""

    shown: RenderableType
    title: str = ""
    is_sentence: bool = False
    """Whether no empty line parts it from other sentences."""
    is_detail: bool = False
    """Whether only those see it who ask for everything."""
    said: Sequence[out.Said] = ()
    """Of the short answer, its lines."""
    rows: int = 0
    least: int = 1
    """Rows that say something alone, of those that have ``first``."""
    first: Callable[[int], RenderableType] | None = None
    """Returns only so many of its rows."""

    @property
    def name(self) -> str:
        """What it is called where it is left out."""
        title = self.title.partition(":")[0].replace(", ", " ")
        title = title[:1].lower() + title[1:] if title[1:2].islower() else title
        return title or ("notes" if self.is_sentence else "more figures")

    def forms(self, most_rows: int) -> Iterator["_Block"]:
        """Yield it whole, and then with fewer and fewer rows."""
        yield self
        for rows in range(min(self.rows - 1, most_rows), self.least - 1, -1) if self.first else ():
            yield replace(self, shown=self.first(rows), rows=rows) if self.first else self


Blocks = Iterator[_Block]
_GAP = _Block(shown=Text())


def outline_text(outline: out.Outline, *, in_full: bool = False, most_lines: int | None = None) -> RenderableType:
    """Return an answer.

    Args:
        outline: Of the answer.
        in_full: Show its details too, and the rows of its studies.
        most_lines: Of an answer with a title, show what comes first in so many lines, of which the last one names the
            rest; None for all but details.
    """
    title = [Text(outline.title, style="bold")] if outline.title else []
    head: list[RenderableType] = [*title, *(Sentence(one, "dim") for one in outline.about)]
    most_lines = None if in_full or not title else most_lines
    blocks = [one for one in _blocks(outline, in_full=in_full) if in_full or most_lines or not one.is_detail]
    if most_lines:
        return _Screen(head=head, blocks=blocks, most_lines=most_lines)
    return Group(*head, *(one.shown for one in _parted(blocks, after=bool(head))))


def _parted(blocks: Iterable[_Block], *, after: bool = True) -> Blocks:
    """The blocks with empty lines between them."""
    is_sentence = False
    for block in blocks:
        if after and not (is_sentence and block.is_sentence):
            yield _GAP
        yield block
        is_sentence, after = block.is_sentence, True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Screen:
    """What of an answer comes first and fits in a few lines, of which the last one names the rest."""

    head: Sequence[RenderableType]
    blocks: Sequence[_Block]
    most_lines: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the blocks that fit, whole or with their first rows, and the last line."""

        @cache
        def height(block: _Block) -> int:
            return len(console.render_lines(block.shown, options, pad=False))

        room = self.most_lines - sum(height(_Block(shown=one)) for one in self.head)
        blocks = [one for one in self.blocks if not one.is_detail]
        rest = [one.name for one in self.blocks if one.is_detail]
        if sum(map(height, _parted(blocks))) + 2 * bool(rest) > room:
            blocks, rest = self._first(height, room - 2)
        yield from (*self.head, *(one.shown for one in _parted(blocks)))
        if rest:
            yield from (Text(), Text(_also_shown(rest, options.max_width), "dim"))

    def _first(self, height: Callable[[_Block], int], room: int) -> tuple[list[_Block], list[str]]:
        """The blocks that fit into some lines, those that matter more before others, and what is left out."""
        blocks, rest = list(self.blocks), dict[int, str]()
        answer = next((at for at, block in enumerate(blocks) if block.said), -1)
        # What can be left out comes last: not what has a color, nor speed, limit and cost.
        plain = [one for one in blocks[answer].said if not one.kind][3:] if answer >= 0 else []
        while plain and height(blocks[answer]) > _ANSWER_LINES:
            last = plain.pop()
            rest[-len(rest) - 1] = last.asks
            blocks[answer] = _said([one for one in blocks[answer].said if one is not last])
        shown: dict[int, _Block] = {}

        def fits(at: int, form: _Block, notes: int) -> bool:
            trial = {**shown, at: form}
            above = max((i for i in range(at) if not blocks[i].is_sentence), default=-1)
            is_answer = above <= answer
            beside = sum(height(one) for i, one in shown.items() if i > above or is_answer)
            most = _ANSWER_LINES if is_answer else _NOTE_LINES
            if form.is_sentence and beside + height(form) > most:
                return False
            if not (form.title or is_answer or above in shown):  # it belongs to what is above
                return False
            return sum(map(height, _parted(trial[i] for i in sorted(trial)))) + notes <= room

        for at in sorted(range(len(blocks)), key=lambda at: (at != answer, at)):
            block = blocks[at]
            below = [] if block.is_sentence else list(takewhile(lambda one: one.is_sentence, blocks[at + 1 :]))
            notes = min(sum(map(height, below)), _NOTE_LINES) + bool(below)
            forms = ((form, spare) for spare in (notes, 0) for form in block.forms(room))
            found = next((form for form, spare in forms if not form.is_detail and fits(at, form, spare)), None)
            if found is not None:
                shown[at] = found
            if found is None or found.rows < block.rows:
                of = f" of {block.name}" if block.title else ""
                rest[at] = f"{block.rows - found.rows} more{of or ' rows'}" if found else block.name
        return [shown[at] for at in sorted(shown)], [rest[at] for at in sorted(rest)]


def _also_shown(rest: Sequence[str], width: int) -> str:
    """A line that says what is left out, as far as it has room."""
    names = list(dict.fromkeys(rest))
    lines = [
        f"-v also shows {', '.join(names[:count])}" + (f" and {len(names) - count} more" if count < len(names) else "")
        for count in range(len(names), 0, -1)
    ]
    return next((line for line in lines if len(line) <= width), lines[-1])


def _blocks(outline: out.Outline, *, in_full: bool) -> Blocks:
    yield from _parts(outline.urgent, in_full=in_full)
    if outline.said or outline.legend:
        yield _said([*outline.said, *outline.legend])
    yield from (_Block(shown=Sentence(one), is_sentence=True) for one in outline.sentences)
    yield from _parts(outline.parts, in_full=in_full)
    if outline.assumptions:
        lines = Group(Text("assumes", style="dim"), *(Sentence(one, "dim", 2) for one in outline.assumptions))
        yield _Block(shown=lines, title="assumptions")


def _said(lines: Sequence[out.Said]) -> _Block:
    """The short answer."""
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for line in lines:
        style = f"bold {_STYLES.get(line.kind, '').removeprefix('bold ')}".strip()
        table.add_row(Text(line.asks, style="dim"), Sentence(line.says, style))
    return _Block(shown=table, said=lines)


def _parts(parts: Sequence[out.Part], *, in_full: bool) -> Blocks:
    """The blocks of parts; consecutive bars share their columns, and so do tables under the same headings."""
    for (kind, _), group in groupby(parts, key=lambda part: (type(part), _columns_of(part))):
        same = list(group)
        if kind is out.Bars:
            yield from _bars([part for part in same if isinstance(part, out.Bars) and part.bars])
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
        case out.Section() if not part.is_long:
            # The headings of sections are for pages: what stands below them has titles of its own.
            blocks = _parts(part.made, in_full=in_full)
            if part.is_detail:
                blocks = (replace(one, is_detail=True, title=one.title or part.title) for one in blocks)
            yield from blocks
        case out.Lines():
            lines = [Sentence(line, _STYLES.get(part.kind, "")) for line in part.lines]
            if part.title and lines:
                yield _titled(part.title, *lines)
            else:
                yield from (_Block(shown=one, is_sentence=True) for one in lines)
        case out.Steps():
            if part.steps:
                yield replace(
                    _titled(part.title, *_steps(part)),
                    rows=len(part.steps),
                    first=lambda count: _titled(part.title, *_steps(replace(part, steps=part.steps[:count]))).shown,
                )
        case out.Entries():
            if part.entries:
                yield _entries(part)
        case out.Studies():
            yield from _studies(part) if in_full else _rows([part.listed] if part.studies else [])


def _titled(title: str, *lines: RenderableType) -> _Block:
    """Lines under a title, if there is one."""
    return _Block(shown=Group(*([Text(title, style="dim")] if title else []), *lines), title=title)


def _bars(parts: Sequence[out.Bars]) -> Blocks:
    """A block for each; all have columns of one width."""
    cells = [[(bar.label, bar.value, percent(bar.share)) for bar in part.bars] for part in parts]
    widths = [max((len(row[at]) for rows in cells for row in rows), default=0) for at in range(3)]
    for part, rows in zip(parts, cells, strict=True):
        table = grid(4 + any(bar.more for one in parts for bar in one.bars), widths)
        longest = max(bar.share for bar in part.bars if bar.key != out.FAINT) or 1.0
        for bar, (label, *figures) in zip(part.bars, rows, strict=True):
            style = "dim" if bar.key == out.FAINT else ""
            color = "red" if part.kind == out.BAD else _COLORS.get(bar.key, "blue")
            drawn: RenderableType = "" if bar.key == out.FAINT else Bar(bar.share / longest, color)
            drawn = drawn.drawn(_SHORT_BAR) if bar.more and isinstance(drawn, Bar) else drawn
            texts = (Text(text, style, justify="right") for text in figures)
            named = zip(part.headings[3:4], bar.more, strict=False)
            table.add_row(Text(label, style), *texts, drawn, *(f"{n} {name}" for name, n in named if n != _NOTHING))
        yield _titled(part.title, table)


def _steps(part: out.Steps) -> Iterator[RenderableType]:
    for step in part.steps:
        if step.sentence:
            yield Sentence(step.sentence, indent=2)
        if step.command:
            yield Command(step.command)


def _entries(found: out.Entries) -> _Block:
    def first(count: int) -> RenderableType:
        lines: list[list[RenderableType]] = [
            [Text(f"\n{one.id} {one.says}"), *(Sentence(line, "dim", indent=2) for line in one.lines)]
            for one in found.entries[:count]
        ]
        return Group(Text(found.title, style="bold"), *(line for entry in lines for line in entry))

    rows = len(found.entries)
    return _Block(shown=first(rows), title=found.title, is_detail=found.is_detail, rows=rows, first=first)


def _studies(found: out.Studies) -> Blocks:
    from sightline.answers.study import study_outline

    for one in found.studies:
        yield _Block(shown=outline_text(study_outline(one.answer)))
        yield _Block(shown=Sentence(one.status, "dim"), is_sentence=True)


def _rows(tables: Sequence[out.Rows]) -> Blocks:
    """Tables: figures as one listing, words alone in columns that fold."""
    if tables and tables[0].numbers is not False and not tables[0].sentences:
        yield _table(tables, _Listed)
    else:
        yield from (_table([table], _in_words) for table in tables)


def _table(tables: Sequence[out.Rows], laid_out: Callable[[Sequence[out.Rows]], RenderableType]) -> _Block:
    """Tables under the same headings."""

    def first(count: int) -> RenderableType:
        return whole(list(_first_rows(tables, count))).shown

    def whole(tables: Sequence[out.Rows]) -> _Block:
        return _titled(tables[0].title if len(tables) == 1 else "", laid_out(tables))

    least, rows = 1 if laid_out is _in_words else _LEAST_ROWS, sum(len(table.rows) for table in tables)
    return replace(whole(tables), rows=rows, least=least, first=first)


def _first_rows(tables: Sequence[out.Rows], count: int) -> Iterator[out.Rows]:
    for table in tables:
        rows = table.rows[: max(count, 0)]
        if rows:
            yield replace(table, rows=rows, total=table.total and table.total - len(table.rows) + len(rows))
        count -= len(table.rows)


def _in_words(tables: Sequence[out.Rows]) -> RenderableType:
    [table] = tables
    shown = [[out.text_of(cell) for cell in row] for row in table.rows]
    if not table.sentences:
        return plain_table(table.headings, shown)
    numbers = table.numbers if isinstance(table.numbers, Sequence) else (False, True)
    return Reasons([(row[0], row[1], row[2]) for row in shown], (numbers[0], numbers[1]))


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
            yield Sentence(left_out(gone, options.max_width), "dim")
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
        return [[out.text_of(cell) for cell in row] for row in table.rows]

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
