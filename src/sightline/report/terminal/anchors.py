"""Saved anchors as text: all of them as a table, and one with its measurements and what they taught."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.report import units
from sightline.report.terminal.parts import plain_table

_COLUMNS = {"models": "model", "clusters": "cluster", "frameworks": "framework", "created": "saved"}


def listing_table(anchors: Sequence[Mapping[str, Any]]) -> Table:
    """Return a line for each anchor."""
    table = plain_table(("anchor", *_COLUMNS.values()))
    for one in anchors:
        table.add_row(str(one["name"]), *(_said(one.get(key)) for key in _COLUMNS))
    return table


def anchor_table(anchor: Mapping[str, Any]) -> RenderableType:
    """Return one anchor: what it was measured on, what was measured, and what that taught."""
    blocks: list[RenderableType] = [Text(str(anchor["name"]), style="bold")]
    blocks += [Text(f"{label}: {_said(anchor.get(key))}", style="dim") for key, label in _COLUMNS.items()]
    for one in anchor.get("measurements", ()):
        blocks += [Text(f"measured {key}: {units.seconds(value)}") for key, value in one["measured"].items()]
    for entry in anchor.get("taught", ()):
        blocks += [Text(), Text(str(entry["sentence"]))]
        table = plain_table(("constant", "assumed", "your value", "80 %"))
        for lesson in entry["learned"]:
            ends = " to ".join(units.digits(float(end)) for end in lesson["interval"])
            values = (units.digits(float(lesson[key])) for key in ("assumed", "value"))
            table.add_row(str(lesson["constant"]), *values, ends)
        blocks += [table] if entry["learned"] else []
    return Group(*blocks)


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "-")
