"""Text in GitHub-flavored Markdown: escaped, folded, as code, as a table."""

import re
from collections.abc import Iterable, Sequence

from sightline.report.pieces import BAD, GOOD, PERHAPS

MARKS = {GOOD: "✅ ", PERHAPS: "⚠️ ", BAD: "❌ "}
"""Before what has a class of text."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def escaped(text: str) -> str:
    """Return text on one line in which no character means anything to Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def folded(title: str, content: str) -> str:
    """Return Markdown that a reader unfolds."""
    return f"<details><summary>{escaped(title)}</summary>\n\n{content}\n\n</details>"


def fenced(text: str, language: str = "") -> str:
    """Return text in a block of code that nothing in it can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def code(text: str) -> str:
    """Return a line of code that nothing in it can end, such as a name with backticks in a command."""
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _longest_run(text: str) -> int:
    """Of backticks in a row."""
    return max(map(len, re.findall("`+", text)), default=0)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts, of which all columns but the first stand to the right."""
    lines = [_line(headings), _line(["---", *("--:" for _ in headings[1:])], plain=True)]
    return "\n".join([*lines, *map(_line, rows)])


def _line(cells: Sequence[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cells if plain else map(escaped, cells))} |"
