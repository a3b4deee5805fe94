"""What Markdown answers are made of: a title, the short answer, short tables, and what is folded."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sightline.report.pieces import BAD, GOOD, PERHAPS, Said

MARKS = {GOOD: "✅ ", PERHAPS: "⚠️ ", BAD: "❌ "}
"""Before what has a class of text."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
_MOST_ROWS = 20
"""Rows of a table; more is not read in a pull request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    most: int = _MOST_ROWS
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the Markdown of an answer says, in this order."""

    title: str
    said: Sequence[Said] = ()
    sentences: Sequence[str] = ()
    tables: Sequence[Rows] = ()
    warnings: Sequence[str] = ()
    blocks: Sequence[str] = ()
    """Markdown that stands as it is."""
    scenario: str = ""
    """As YAML; it is folded."""
    command: str = ""


def markdown(answer: Answer) -> str:
    """Return the text of an answer in GitHub-flavored Markdown; whatever it names is shown as it is written."""
    blocks = [
        f"### {escaped(answer.title)}",
        "\n".join(f"- {MARKS.get(one.kind, '')}**{escaped(one.asks)}**: {escaped(one.says)}" for one in answer.said),
        *map(escaped, answer.sentences),
        *map(_table, answer.tables),
        "\n>\n".join(f"> ⚠️ {escaped(one)}" for one in dict.fromkeys(answer.warnings)),
        *(block.strip() for block in answer.blocks),
        folded("The scenario, fully resolved", fenced(answer.scenario, "yaml")) if answer.scenario else "",
        code(answer.command) if answer.command else "",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


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


def _table(one: Rows) -> str:
    if not one.rows:
        return ""
    left = len(one.rows) - one.most
    more = f"\n\nand {left:,} more" if left > 0 else ""
    body = table(one.headings, one.rows[: one.most]) + more
    if one.is_folded:
        return folded(one.title, body)
    return f"**{escaped(one.title)}**\n\n{body}" if one.title else body
