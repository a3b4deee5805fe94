"""Pieces of what a terminal shows: listings, grids, bars, sentences and commands, none of which a narrow one cuts."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_GAPS = (2, 1)
"""Columns between two figures: usual, and where the terminal is narrow."""
_SHORTEST_LABEL = 16
"""Columns that a label is folded to at least; where there are fewer, labels have lines of their own."""
_INDENT = 2


def _plain(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """One column: its heading and a cell for every line."""

    heading: str
    cells: Sequence[str]
    is_number: bool = True
    """Whether cells are aligned on the right."""
    style: Callable[[str], str] = _plain
    """The style of a cell by its text."""

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes; the heading is broken between words."""
        words = (cell_len(word) for word in self.heading.split())
        return max((*map(cell_len, self.cells), *words), default=0)

    def headings(self) -> list[str]:
        """Return the lines of the heading."""
        return wrap(self.heading, max(self.width, 1), break_on_hyphens=False) or [""]

    def padded(self, text: str, width: int) -> str:
        """Return a cell filled up with spaces."""
        space = " " * (width - cell_len(text))
        return space + text if self.is_number else text + space


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listing:
    """Lines of labels and figures.

    Lines are as wide as they need to be. Where the terminal is narrower, columns move together, then a long label is
    folded, then labels get lines of their own, and at last the least important figures are left out, which is said.
    """

    labels: Sequence[Column]
    """What tells lines apart; a single one may be folded."""
    figures: Sequence[Column]
    styles: Sequence[str] = ()
    """A style for every line."""
    groups: Sequence[str] = ()
    """The group of every line, named above its first one."""
    group_style: str = "dim"
    group_gap: bool = False
    """Whether an empty line parts groups."""
    least: Sequence[str] = ()
    """Headings of figures that are left out first where there is no room."""

    @property
    def narrowest(self) -> int:
        """Columns of the terminal that it needs for one line each, with no label folded."""
        return _width([*self.labels, *self.figures], _GAPS[-1])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the first form that is no wider than the terminal."""
        yield Text("\n").join(self.lines(options.max_width))

    def lines(self, width: int) -> list[Text]:
        """Return the lines for a terminal of some width."""
        every = [*self.labels, *self.figures]
        for gap in _GAPS:
            if _width(every, gap) <= width:
                return list(self._side_by_side(every, gap, width))
        for gap in _GAPS:
            room = width - _width(self.figures, gap) - gap
            if len(self.labels) == 1 and room >= _SHORTEST_LABEL:
                return list(self._side_by_side(every, gap, width, room))
        kept = list(self.figures)
        for heading in ("", *self.least):
            kept = [column for column in kept if column.heading != heading]
            for gap in _GAPS:
                if _INDENT + _width(kept, gap) <= width:
                    return [*self._stacked(kept, gap, width), *self._left_out(kept, width)]
        while len(kept) > 1 and _INDENT + _width(kept, 1) > width:
            kept.pop()
        return [*self._stacked(kept, 1, width), *self._left_out(kept, width)]

    def _side_by_side(self, columns: Sequence[Column], gap: int, width: int, fold_to: int = 0) -> Iterator[Text]:
        """One line for each, or as many as the first column needs where it is folded."""
        widths = [column.width for column in columns]
        widths[0] = min(widths[0], fold_to) if fold_to else widths[0]
        yield from _headings(columns, widths, gap)
        for position, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
            yield from self._group(position, width)
            first, *more = _folded(cells[0], widths[0]) if fold_to else [cells[0]]
            yield self._line(columns, (first, *cells[1:]), widths, gap, position)
            yield from (Text(rest, self._style(position)) for rest in more)

    def _stacked(self, figures: Sequence[Column], gap: int, width: int) -> Iterator[Text]:
        """The label on a line of its own, the figures below it."""
        widths, indent = [column.width for column in figures], Text(" " * _INDENT)
        for heading in _headings(figures, widths, gap):
            yield indent + heading
        for position, cells in enumerate(zip(*(column.cells for column in figures), strict=True)):
            yield from self._group(position, width)
            for part in _folded(self._named(position), width):
                yield Text(part, self._style(position))
            yield indent + self._line(figures, cells, widths, gap, position)

    def _named(self, position: int) -> str:
        """A line's labels in one text, each after its heading where there are several."""
        if len(self.labels) == 1:
            return self.labels[0].cells[position]
        return ", ".join(f"{column.heading} {column.cells[position]}" for column in self.labels)

    def _line(self, columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], gap: int, at: int) -> Text:
        texts = (
            Text(column.padded(cell, width), column.style(cell))
            for column, cell, width in zip(columns, cells, widths, strict=True)
        )
        line = Text(" " * gap).join(texts)
        line.stylize_before(self._style(at))
        return line

    def _group(self, position: int, width: int) -> Iterator[Text]:
        if self.groups and (position == 0 or self.groups[position] != self.groups[position - 1]):
            if self.group_gap and position:
                yield Text()
            yield from (Text(line, style=self.group_style) for line in _folded(self.groups[position], width))

    def _style(self, position: int) -> str:
        return self.styles[position] if self.styles else ""

    def _left_out(self, kept: Iterable[Column], width: int) -> Iterator[Text]:
        missing = [column.heading for column in self.figures if column not in kept]
        if missing:
            yield from (Text(line, style="dim") for line in wrap(left_out(missing, width), width))


def left_out(headings: Iterable[str], width: int) -> str:
    """Return which columns a terminal has no room for, and where they are."""
    return f"left out at {width} columns: {', '.join(headings)}; widen the terminal or use --json"


def _folded(text: str, width: int) -> list[str]:
    """The lines of a text; a name in one word is broken at its hyphens."""
    return wrap(text, width, break_on_hyphens=" " not in text) or [""]


def _width(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _headings(columns: Sequence[Column], widths: Sequence[int], gap: int) -> Iterator[Text]:
    """The lines of the headings, which end together."""
    headings = [column.headings() for column in columns]
    height = max(map(len, headings))
    for line in range(height):
        cells = (h[line - height + len(h)] if line >= height - len(h) else "" for h in headings)
        padded = (column.padded(c, w) for column, c, w in zip(columns, cells, widths, strict=True))
        yield Text((" " * gap).join(padded), style="dim")


BAR_WIDTH = 24
"""Columns of the longest bar."""


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Return a table without lines, of columns of words, which fold."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_header=any(headings))
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in ("name", "kind", "run"))
    for row in rows:
        table.add_row(*row)
    return table


def grid(columns: int, widths: Sequence[int] = ()) -> Table:
    """Return an empty grid of ``columns``, of which the last alone gives way where the terminal is narrow.

    The first of them have at least the ``widths``.
    """
    found = Table.grid(padding=(0, 3, 0, 0))
    for column, width in zip_longest(range(1, columns + 1), widths):
        found.add_column(no_wrap=column < columns, min_width=width)
    return found


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that folds between words, but never between a number and its unit."""

    text: str
    style: str = ""
    indent: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the sentence's lines."""
        margin = " " * self.indent
        yield Text("\n".join(_folded_sentence(self.text, options.max_width, margin, margin)), style=self.style)


@dataclass(frozen=True, slots=True)
class Reasons:
    """Lines of short words in columns with a sentence behind them, which folds next to them or, if narrow, below."""

    rows: Sequence[tuple[str, str, str]]
    numbers: tuple[bool, bool]
    """Which of the two columns of words hold numbers, to the right."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        widths = [max(len(row[column]) for row in self.rows) for column in (0, 1)]
        for *words, sentence in self.rows:
            pairs = zip(words, widths, self.numbers, strict=True)
            front = "  " + "  ".join(word.rjust(wide) if right else word.ljust(wide) for word, wide, right in pairs)
            room = options.max_width - len(front) - 2
            if room >= _LEAST_ROOM:
                lines = _folded_sentence(sentence, options.max_width, front + "  ", " " * (len(front) + 2))
            else:
                lines = [front.rstrip(), *_folded_sentence(sentence, options.max_width, " " * 6, " " * 6)]
            yield Text("\n".join(line.rstrip() for line in lines or [front]))


_LEAST_ROOM = 24
"""Columns that a sentence needs to fold next to the words before it."""
_UNIT = re.compile(r"(\d) (%|GiB|ms|s\b|min|h\b|days)")
"""A number and its unit."""


def _folded_sentence(text: str, width: int, first: str, others: str) -> list[str]:
    """The lines of a text, which begin with ``first`` and ``others``; units stay with their numbers."""
    glued = _UNIT.sub("\\1\u00a0\\2", text)
    lines = wrap(glued, max(width, 20), initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines or [first]]


@dataclass(frozen=True, slots=True)
class Command:
    """A command to copy: lines that end in a backslash where the terminal is narrow, so that a shell reads one."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the command's lines, which are not folded again."""
        yield Text("\n".join(folded(self.text, options.max_width)), no_wrap=True, overflow="ignore")


def folded(command: str, width: int) -> list[str]:
    """Return a command in lines of at most ``width`` columns where its words allow, options with their values."""
    lines: list[str] = []
    room = width - 2
    for word in _typed(command):
        if lines and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}" if not lines else f"      {word}")
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


def _typed(command: str) -> list[str]:
    """The words of a command, an option with its value as one."""
    joined: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        if joined and joined[-1].startswith("--") and " " not in joined[-1] and not word.startswith("-"):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of eighth blocks, so that one per cent can still be told from two; shorter where the terminal is narrow."""

    share: float
    color: str

    def drawn(self, width: int = BAR_WIDTH) -> Text:
        """Return the bar where a share of 1 has ``width`` columns."""
        eighths = max(round(max(self.share, 0.0) * width * 8), 1)
        full, rest = divmod(eighths, 8)
        return Text("█" * full + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1]), style=self.color)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the bar in the columns that it is given."""
        yield self.drawn(min(BAR_WIDTH, options.max_width))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the fewest columns and the most that bars take."""
        return Measurement(1, BAR_WIDTH)
