"""Pieces of what the terminal shows: tables, grids of figures, parts of a whole with bars."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sightline.report import units
from sightline.report.summary import Part

BAR_WIDTH = 24
"""Columns of the longest bar."""
_WIDEST = 1000
"""Columns in which every form has its own width."""


def plain_table(
    words: Sequence[str],
    numbers: Sequence[str] = (),
    rows: Iterable[Sequence[RenderableType]] = (),
    *,
    title: str = "",
    gap: int = 2,
) -> Table:
    """Return a table without lines: columns of words, which fold, then columns of numbers."""
    found = Table(box=None, pad_edge=False, header_style="dim", padding=(0, gap, 0, 0))
    if title:
        found.title, found.title_justify = title, "left"
    for heading in words:
        found.add_column(heading, overflow="fold", no_wrap=heading in ("name", "kind", "run"))
    for heading in numbers:
        found.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        found.add_row(*row)
    return found


def grid(columns: int) -> Table:
    """Return an empty grid of ``columns``, of which the last alone gives way where the terminal is narrow."""
    found = Table.grid(padding=(0, 3, 0, 0))
    for column in range(1, columns + 1):
        found.add_column(no_wrap=column < columns)
    return found


@dataclass(frozen=True, slots=True)
class FirstThatFits:
    """The first of several forms that is no wider than the terminal, else the last."""

    forms: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield that form."""
        anywhere = options.update(max_width=_WIDEST)
        widths = [Measurement.get(console, anywhere, form).maximum for form in self.forms]
        fitting = [form for form, width in zip(self.forms, widths, strict=True) if width <= options.max_width]
        yield [*fitting, self.forms[-1]][0]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that folds between words, but never between a number and its unit."""

    text: str
    style: str = ""
    indent: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the sentence's lines."""
        margin = " " * self.indent
        yield Text("\n".join(_folded(self.text, options.max_width, margin, margin)), style=self.style)


@dataclass(frozen=True, slots=True)
class Entries:
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
                lines = _folded(sentence, options.max_width, front + "  ", " " * (len(front) + 2))
            else:
                lines = [front.rstrip(), *_folded(sentence, options.max_width, " " * 6, " " * 6)]
            yield Text("\n".join(line.rstrip() for line in lines or [front]))


_LEAST_ROOM = 24
"""Columns that a sentence needs to fold next to the words before it."""
_UNIT = re.compile(r"(\d) (%|GiB|ms|s\b|min|h\b|days)")
"""A number and its unit."""


def _folded(text: str, width: int, first: str, others: str) -> list[str]:
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


def add_part(grid: Table, part: Part, value: str, length: float, color: str) -> None:
    """Add a part's name, value, share and bar."""
    share = Text(units.percent(part.share), justify="right")
    grid.add_row(part.label, Text(value, justify="right"), share, Bar(length, color))
