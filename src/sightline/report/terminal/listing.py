"""Many things in lines: labels, then figures in columns, in a form that a narrow terminal cuts nothing of."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
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
            said = f"hidden columns: {', '.join(missing)}; widen the terminal to show them"
            yield from (Text(line, style="dim") for line in wrap(said, width))


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
