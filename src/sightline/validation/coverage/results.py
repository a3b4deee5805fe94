"""The coverage as JSON says it."""

from collections.abc import Sequence
from typing import Any

from sightline.profile.results import stamped
from sightline.validation.coverage.cell import Cell


def coverage_to_dict(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return every cell under the documented keys."""
    return stamped({"coverage": [cell_to_dict(cell) | {"scenario": cell.question} for cell in cells]})


def cell_to_dict(cell: Cell) -> dict[str, Any]:
    """Return a cell without its scenario."""
    keys = ("table", "of", "what", "dtype", "status", "evidence", "why")
    published = cell.published
    counts = (None, None) if published is None else (published.cases, published.sources)
    return {key: getattr(cell, key) for key in keys} | dict(zip(("cases", "sources"), counts, strict=True))
