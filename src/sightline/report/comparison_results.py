"""A comparison under the documented result keys, and as CSV."""

import csv
import io
from dataclasses import asdict, fields
from typing import Any

from sightline.explanation.comparison import Comparison, Difference
from sightline.explanation.side import Side
from sightline.profile.results import plain


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison under its result keys, in SI units and plain Python numbers."""
    result: dict[str, Any] = plain(
        {
            "a": _side(comparison.a),
            "b": _side(comparison.b),
            "rows": [asdict(row) for row in comparison.rows],
            "plans": comparison.about,
            "warnings": list(comparison.warnings),
        }
    )
    return result


def comparison_to_csv(comparison: Comparison) -> str:
    """Return a comparison as CSV text, a line per row; the interval's ends are the columns low and high."""
    names = [f.name for f in fields(Difference) if f.name != "interval"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*names, "low", "high"])
    for row in comparison.rows:
        writer.writerow([*(getattr(row, name) for name in names), *(row.interval or (None, None))])
    return buffer.getvalue()


def _side(side: Side) -> dict[str, Any]:
    return {"name": side.name, "title": side.title, "source": side.source}
