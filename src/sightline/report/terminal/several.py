"""Several profiles of one task as a table: a column for each key that was swept, what all share in a line above."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from sightline.profile import Profile
from sightline.report import labels, summary, units
from sightline.report.swept import NAMED, told_apart
from sightline.report.terminal.listing import Column, Listing

_WORDS = ("fits", "bottleneck", "evidence")
"""Columns of words."""
_SHARED = (*_WORDS, "usd_per_hour")
"""Columns that become a phrase above the table where all lines say the same."""
_OF_SERVING = (r"kv_use\.mean", "interval", "output_tokens_per_s", "cost_usd_per_million_tokens", r"latency_s\.p[\d.]+")
_LEAST = ("mfu", "bottleneck", "bytes_per_s", "latency_s", "tokens_per_s", *_OF_SERVING)
"""Columns that a narrow terminal loses first, as regular expressions of their keys."""
_GREEN_OR_RED = {"yes": "green", "no": "red"}


def several(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = (), of: int = 0) -> RenderableType:
    """Return profiles of one task, a line each; the best in bold.

    Args:
        profiles: What was predicted or measured, in the order in which it is shown.
        cells: Of each the values of the keys that were swept, as they were typed.
        of: How many there are, where only the first of them are shown.
    """
    columns = {one.key: one for one in summary.compared(profiles)}
    shared = [
        columns[key] for key in _SHARED if key in columns and len(profiles) > 1 and len({*columns[key].cells}) == 1
    ]
    found = told_apart(profiles, cells)
    lines = Listing(
        labels=[Column(heading=one.heading, cells=one.cells, is_number=one.is_number) for one in found],
        figures=[_column(one) for one in columns.values() if one not in shared],
        styles=["bold" if is_best else "" for is_best in summary.best(profiles)],
        least=[one.heading for key in _LEAST for one in columns.values() if re.fullmatch(key, one.key)],
    )
    blocks: list[RenderableType] = []
    if any(cells):
        varied = [column.heading for column in lines.labels if column.heading not in NAMED]
        blocks.append(Text(labels.title_of_sweep([p.scenario for p in profiles], varied), style="bold"))
    if shared:
        blocks.append(Text(_in_words(profiles, shared), style="dim"))
    if of > len(profiles):
        blocks.append(Text(f"first {len(profiles):,} of {of:,}", style="dim"))
    return Group(*blocks, *([Text()] if blocks else []), lines)


def _column(one: summary.Compared) -> Column:
    return Column(
        heading=one.heading,
        cells=one.cells,
        is_number=one.key not in _WORDS,
        style=lambda cell: _GREEN_OR_RED.get(cell.partition(",")[0], ""),
    )


def _in_words(profiles: Sequence[Profile], shared: Sequence[summary.Compared]) -> str:
    """What holds for every line."""
    return " · ".join(_phrase(profiles, column) for column in shared)


def _phrase(profiles: Sequence[Profile], column: summary.Compared) -> str:
    """What all cells of a column say."""
    said = column.cells[0]
    if column.key == "usd_per_hour":
        return f"{said} per hour"
    if column.key != "fits":
        return f"{column.heading} {said}" if column.key == "bottleneck" else f"{column.heading}: {said}"
    usable = {units.gib(float(profile.usable_bytes)) for profile in profiles}
    where = f" in {usable.pop()}" if len(usable) == 1 else ""
    return {"yes": "all fit", "no": "none fits"}.get(said, "all fit, tight") + where
