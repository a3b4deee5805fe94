"""What jobs do, one module per kind: ``work(mapping, options, progress)`` returns ``found(document, piece)``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.report.pieces import Piece


def found(document: Any, piece: "Piece") -> Mapping[str, Any]:
    """Return a result: the command line's JSON, and what the page shows."""
    charts = {name: [one.wide, one.narrow, one.label] for name, one in piece.charts.items()}
    return {"document": document, "piece": {"html": piece.html, "charts": charts}}


def piece_of(result: Mapping[str, Any]) -> "Piece":
    """Return what the page shows of a result."""
    from sightline.report.pieces import Drawing, Piece

    stored = result["piece"]
    charts = {
        name: Drawing(wide=wide, narrow=narrow, label=label) for name, (wide, narrow, label) in stored["charts"].items()
    }
    return Piece(html=stored["html"], charts=charts)
