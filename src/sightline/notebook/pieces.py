"""Pieces of HTML that several views share."""

from collections.abc import Iterable, Sequence
from html import escape

from sightline.report.pieces import listed, paragraphs, table, warned

__all__ = ["folded", "listed", "paragraphs", "rows_of", "section", "table", "title", "warned"]


def title(text: str) -> str:
    """Return the first line of a view."""
    return f'<p class="title">{escape(text)}</p>'


def section(heading: str, body: str) -> str:
    """Return HTML under a heading; nothing where it is empty."""
    return f"<p><b>{escape(heading)}</b></p>{body}" if body else ""


def folded(heading: str, *bodies: str) -> str:
    """Return HTML that a reader unfolds; nothing where it is empty."""
    body = "".join(bodies)
    return f"<details><summary>{escape(heading)}</summary>{body}</details>" if body else ""


def rows_of(rows: Iterable[Sequence[str]]) -> str:
    """Return names and texts, some with a class of text, as a table without a heading; no line for an empty text."""
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td{_class(kinds)}>{escape(said)}</td></tr>" for name, said, *kinds in rows if said
    )
    return f'<div class="scroll"><table>{lines}</table></div>' if lines else ""


def _class(kinds: Sequence[str]) -> str:
    return f' class="{kinds[0]}"' if kinds and kinds[0] else ""
