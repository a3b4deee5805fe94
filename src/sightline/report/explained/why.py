"""An explanation next to the answer that it explains: the changes that would help, as links, and the limits."""

from collections.abc import Callable, Sequence
from html import escape

from sightline.explanation.answer import Advice, Explanation
from sightline.report import pieces
from sightline.report.explained.page import LIMIT_COLUMNS, limit_rows
from sightline.report.pieces import Piece

BETTER = "Recommended changes"


def better_piece(explanation: Explanation, link: Callable[[Advice], str], *, level: int = 2) -> Piece:
    """Return the changes that would help.

    Args:
        explanation: The answer of ``explain``.
        link: Returns the address that shows a change; empty for one that no address shows.
        level: Of the heading.
    """
    return pieces.section(BETTER, _advice(explanation, link), level=level)


def changes_piece(changes: Sequence[Advice], *, level: int = 2) -> Piece:
    """Return the changes that would help for pages without addresses: of each its sentence and its command."""
    return pieces.section(BETTER, pieces.commands((one.sentence, one.command) for one in changes), level=level)


def limits_piece(explanation: Explanation, *, level: int = 2) -> Piece:
    """Return what limits the answer: in sentences, and each limit with its share."""
    rows = limit_rows(explanation)
    limits = pieces.table(LIMIT_COLUMNS, rows, label="limits") if rows else ""
    return pieces.section("What limits it", pieces.listed(explanation.sentences), limits, level=level)


def _advice(explanation: Explanation, link: Callable[[Advice], str]) -> str:
    found = "".join(f"<li>{_one(advice, link(advice))}</li>" for advice in explanation.advice)
    none = "No candidate change gains more than its uncertainty."
    return f'<ol class="advice">{found}</ol>' if found else pieces.paragraphs([none])


def _one(advice: Advice, address: str) -> str:
    if not address:
        return escape(advice.sentence)
    named = ", ".join(f"{key.rpartition('.')[2]}: {value}" for key, value in advice.set.items())
    return f'{escape(advice.sentence)} <a href="{escape(address)}">Show it with {escape(named)}</a>'


def traces_piece() -> Piece:
    """Return what explains the traces of a whole job, for pages that take one."""
    said = "For traces of several ranks, and traces too large to upload, use the command line:"
    return pieces.folded(
        "Explain the traces of several ranks", pieces.commands([(said, "sightline explain rank*.json")])
    )
