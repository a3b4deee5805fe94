"""Pieces of what the terminal shows: grids of figures, parts of a whole with bars, tables with a line per scenario."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sightline.report import units
from sightline.report.summary import Part

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

BAR_WIDTH = 24
_VERDICTS = {"yes": "green", "no": "red"}


def grid(columns: int) -> "Table":
    """Return an empty grid of ``columns`` that are never folded."""
    from rich.table import Table

    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(columns):
        table.add_column(no_wrap=True)
    return table


def headline(rows: Sequence[tuple[str, str, str, str]], *, fits: bool) -> "Table":
    """Return labelled figures, two to a line; the memory's is red where it is not enough."""
    from rich.text import Text

    table = grid(4)
    for left, left_value, right, right_value in rows:
        style = "bold" if fits or right != "memory" else "bold red"
        table.add_row(
            Text(left, style="dim"), Text(left_value, style="bold"), Text(right, style="dim"), Text(right_value, style)
        )
    return table


def breakdown(
    title: str,
    parts: Sequence[Part],
    colours: Mapping[str, str],
    held: Sequence[Part],
    *,
    fits: bool,
    detail: tuple[str, Sequence[Part]] = ("", ()),
) -> "Table":
    """Return parts of a time and parts of the fullest device's memory in one grid, so that columns line up.

    ``detail`` is a finer view of the time: its title and its parts.
    """
    from rich.text import Text

    table = grid(4)
    for name, times in ((title, parts), detail):
        if times:
            table.add_row(Text(name, style="dim"))
            add_parts(table, times, colours)
            table.add_row()
    largest = max((part.share for part in held), default=1.0)
    table.add_row(Text("memory of the fullest device", style="dim"))
    for part in held:
        add_part(table, part, units.gib(part.value), part.share / largest, "blue" if fits else "red")
    return table


def add_parts(table: "Table", parts: Sequence[Part], colours: Mapping[str, str]) -> None:
    """Add a line per part of a time; the longest has the longest bar."""
    longest = max((part.share for part in parts), default=1.0)
    for part in parts:
        add_part(table, part, units.seconds(part.value), part.share / longest, colours.get(part.key, "blue"))


def add_part(table: "Table", part: Part, value: str, length: float, colour: str) -> None:
    """Add a part's name, value, share and bar."""
    from rich.text import Text

    share = Text(units.percent(part.share), justify="right")
    table.add_row(part.label, Text(value, justify="right"), share, bar(length, colour))


def bar(share: float, colour: str) -> "RenderableType":
    """Return a bar of eighth blocks, so that one per cent can still be told from two."""
    from rich.text import Text

    eighths = max(round(max(share, 0.0) * BAR_WIDTH * 8), 1)
    full, rest = divmod(eighths, 8)
    return Text("█" * full + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1]), style=colour)


def comparison(
    labels: Sequence[str], headings: Sequence[str], rows: Sequence[Sequence[str]], best: Sequence[bool]
) -> "Table":
    """Return a line per scenario under ``headings``, the best in bold; numbers, then whether it fits and by what bound."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("scenario", overflow="fold", ratio=1)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("fits", "bound by") else "right", no_wrap=True)
    for label, row, is_best in zip(labels, rows, best, strict=True):
        cells = [Text(cell, style=_VERDICTS.get(cell, "")) for cell in row]
        table.add_row(Text(label), *cells, style="bold" if is_best else "")
    return table
