"""Pieces of what the terminal shows: tables, grids of figures, parts of a whole with bars."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sightline.report import units
from sightline.report.summary import Part

BAR_WIDTH = 24


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
    """Return an empty grid of ``columns`` that are never folded."""
    found = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(columns):
        found.add_column(no_wrap=True)
    return found


def add_part(grid: Table, part: Part, value: str, length: float, color: str) -> None:
    """Add a part's name, value, share and bar."""
    share = Text(units.percent(part.share), justify="right")
    grid.add_row(part.label, Text(value, justify="right"), share, bar(length, color))


def bar(share: float, color: str) -> RenderableType:
    """Return a bar of eighth blocks, so that one per cent can still be told from two."""
    eighths = max(round(max(share, 0.0) * BAR_WIDTH * 8), 1)
    full, rest = divmod(eighths, 8)
    return Text("█" * full + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1]), style=color)
