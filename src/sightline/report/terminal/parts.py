"""Pieces of what the terminal shows: tables, grids of figures, parts of a whole with bars."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
