"""A comparison as JSON says it."""

from dataclasses import asdict
from typing import Any

from sightline.explanation.comparison import Comparison
from sightline.explanation.faster import to_dict
from sightline.profile.results import stamped


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison under its result keys, in SI units and plain Python numbers."""
    sides = {
        letter: {"name": side.name, "title": side.title, "source": side.source}
        for letter, side in (("a", comparison.a), ("b", comparison.b))
    }
    rows = [asdict(row) for row in comparison.rows]
    ranked = {} if comparison.faster is None else {"faster": to_dict(comparison.faster)}
    said = {"plans": comparison.about, "requests": comparison.requests, "warnings": list(comparison.warnings)}
    return stamped({**sides, **ranked, "rows": rows, **said})
