"""What jobs do, one module per kind: ``work(mapping, options, progress)`` returns ``found(document, piece)``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, nearest

if TYPE_CHECKING:
    from sightline.render.html import Piece


def found(document: Any, piece: "Piece") -> Mapping[str, Any]:
    """Return a result: the command line's JSON, and what the page shows."""
    charts = {name: [one.wide, one.narrow, one.label] for name, one in piece.charts.items()}
    return {"document": document, "piece": {"html": piece.html, "charts": charts}}


def piece_of(result: Mapping[str, Any]) -> "Piece":
    """Return what the page shows of a result."""
    from sightline.render.html import Drawing, Piece

    stored = result["piece"]
    charts = {
        name: Drawing(wide=wide, narrow=narrow, label=label) for name, (wide, narrow, label) in stored["charts"].items()
    }
    return Piece(html=stored["html"], charts=charts)


def partial_piece_of(result: Mapping[str, Any]) -> "Piece":
    """Return what the page shows of work that was stopped, which begins with how far it was."""
    from sightline.answers.outline import PERHAPS
    from sightline.render import html

    what, done, total = (result["stopped"][key] for key in ("what", "done", "total"))
    far = f", at {done:,} of {total:,}" if total else ""
    when = f"after {what}" if done == total else f"while {what}{far}"
    said = f"A part of the answer: stopped {when if what else 'at the start'}. It shows what was found until then."
    return html.joined(html.paragraphs([said], PERHAPS), piece_of(result))


def checked(kind: str, options: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    """Return the options that say anything; raise `InputError` for those that a kind of work does not have."""
    unknown = [name for name in options if name not in allowed]
    if unknown:
        known = ", ".join(allowed)
        raise InputError(
            [f"{name} is no option of {kind}; allowed: {known}{nearest(name, allowed)}" for name in unknown]
        )
    return {name: value for name, value in options.items() if value not in (None, "", [], {})}
