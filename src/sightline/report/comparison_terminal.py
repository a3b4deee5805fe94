"""A comparison as compact text: a block per level, a line per row."""

from typing import TYPE_CHECKING

from sightline.explanation.comparison import Comparison
from sightline.explanation.side import LEVELS
from sightline.report import comparison_words as words
from sightline.report import units

if TYPE_CHECKING:
    from rich.console import RenderableType

_NAMES, _VERDICT = 16, 13
_COLOURS = {"faster": "green", "less": "green", "slower": "red", "more": "red", "no difference found": "dim"}


def comparison_table(comparison: Comparison) -> "RenderableType":
    """Return both sides' names, how the plans differ, and the rows level by level."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold", min_width=_NAMES)
    for heading in ("A", "B", "B / A"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("B is", no_wrap=True, min_width=_VERDICT)
    for level in LEVELS:
        rows = [row for row in comparison.rows if row.level == level]
        if not rows:
            continue
        if table.row_count:
            table.add_row()
        table.add_row(Text(words.LEVEL_TITLES[level], style="bold"))
        for row in rows:
            ratio = "" if row.ratio is None else units.digits(row.ratio)
            verdict = Text(words.verdict(row), style=_COLOURS.get(row.verdict, ""))
            cells = (words.label(row), words.value(row, row.a), words.value(row, row.b), ratio, words.interval(row))
            table.add_row(*(Text(cell) for cell in cells), verdict)
    sides = [Text(f"{letter}  {words.side_line(s)}") for letter, s in (("A", comparison.a), ("B", comparison.b))]
    about = [Text(comparison.about, style="dim")] if comparison.about else []
    return Group(*sides, *about, Text(), table, Text(), Text(words.footnote(comparison), style="dim"))
