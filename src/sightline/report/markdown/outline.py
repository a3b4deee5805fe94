"""An outlined answer as GitHub-flavored Markdown."""

from collections.abc import Sequence

from sightline.report.markdown.text import MARKS, code, escaped, fenced, folded, table
from sightline.report.outline import Entries, Outline, Part, Rows
from sightline.report.pieces import Said


def outline_markdown(outline: Outline, *, blocks: Sequence[str] = (), command: str = "") -> str:
    """Return the text of an answer; whatever it names is shown as it is written.

    Args:
        outline: What the answer says.
        blocks: Markdown that stands as it is, below the tables.
        command: What asked for it.
    """
    found = [
        f"### {escaped(outline.title)}",
        "\n".join(map(_said, (*outline.said, *outline.legend))),
        *map(escaped, (*outline.about, *outline.sentences, *outline.footnotes)),
        *map(_part, outline.parts),
        _rows(Rows(title="Assumptions", headings=("assumption",), rows=_alone(outline.assumptions), is_folded=True)),
        "\n>\n".join(f"> ⚠️ {escaped(one)}" for one in dict.fromkeys(outline.warnings)),
        *(block.strip() for block in blocks),
        folded("Resolved scenario", fenced(outline.scenario, "yaml")) if outline.scenario else "",
        code(command) if command else "",
    ]
    return "\n\n".join(block for block in found if block) + "\n"


def _said(one: Said) -> str:
    return f"- {MARKS.get(one.kind, '')}**{escaped(one.asks)}**: {escaped(one.says)}"


def _alone(sentences: Sequence[str]) -> list[tuple[str]]:
    return [(one,) for one in sentences]


def _part(part: Part) -> str:
    if isinstance(part, Rows):
        return _rows(part)
    if isinstance(part, Entries):
        return "" if part.is_detail else _entries(part)
    return _rows(part.listed)


def _entries(found: Entries) -> str:
    rows = [(one.id, " ".join(one.lines)) for one in found.entries]
    return _rows(Rows(title=found.title, headings=found.headings, rows=rows, most=_MOST_ENTRIES))


_MOST_ENTRIES = 60


def _rows(one: Rows) -> str:
    if not one.rows:
        return ""
    left = len(one.rows) - one.most
    more = f"\n\nand {left:,} more" if left > 0 else ""
    body = table(one.headings, one.rows[: one.most]) + more
    if one.is_folded:
        return folded(one.title, body)
    return f"**{escaped(one.title)}**\n\n{body}" if one.title else body
