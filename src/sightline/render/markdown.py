"""An outlined answer as GitHub-flavored Markdown, for pull requests."""

import re
from collections.abc import Iterable, Sequence

from sightline.answers import outline as out
from sightline.answers.labels import scenario_yaml
from sightline.answers.units import percent
from sightline.quantities import counted

MARKS = {out.GOOD: "✅ ", out.PERHAPS: "⚠️ ", out.BAD: "❌ "}
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


def outline_markdown(outline: out.Outline, *, command: str = "") -> str:
    """Return the text of an answer; whatever it names is shown as it is written. ``command`` asked for it."""
    assumed = out.Rows(
        title="Assumptions", headings=("assumption",), rows=[(one,) for one in outline.assumptions], is_folded=True
    )
    found = [
        f"### {escaped(outline.title)}",
        *map(_part, outline.urgent),
        "\n".join(map(_said, (*outline.said, *outline.legend))),
        *map(escaped, (*outline.about, *outline.sentences, *outline.footnotes)),
        *map(_part, outline.parts),
        _rows(assumed),
        "\n>\n".join(f"> ⚠️ {escaped(one)}" for one in list(dict.fromkeys(outline.warnings))[:_MOST_WARNINGS]),
        folded("Resolved scenario", fenced(scenario_yaml(outline.scenario), "yaml")) if outline.scenario else "",
        code(command) if command else "",
    ]
    return "\n\n".join(block for block in found if block) + "\n"


_MOST_ENTRIES, _MOST_COLUMNS, _MOST_WARNINGS = 60, 10, 5
"""Of a table: more columns have no room next to a diff."""


def _said(one: out.Said) -> str:
    return f"- {MARKS.get(one.kind, '')}**{escaped(one.asks)}**: {escaped(one.says)}"


def _part(part: out.Part) -> str:  # noqa: PLR0911 - a case for each kind of part
    match part:
        case out.Section():
            is_hidden = part.is_long or (part.is_detail and not part.is_folded)
            inside = [] if is_hidden else list(filter(None, map(_part, part.made)))
            if part.is_detail and inside:
                return folded(part.title, "\n\n".join(inside))
            return "\n\n".join([*([f"**{escaped(part.title)}**"] if part.title and inside else []), *inside])
        case out.Lines():
            return "\n\n".join(map(escaped, part.lines))
        case out.Bars():
            return _bars(part)
        case out.Rows():
            return _rows(part)
        case out.Steps():
            return "\n\n".join(map(_step, part.steps))
        case out.Entries():
            return "" if part.is_detail else _entries(part)
        case out.Studies():
            return _rows(part.listed)
        case _:
            return ""


def _bars(part: out.Bars) -> str:
    first, *others = part.headings
    headings = (first, *others) if part.is_folded else (part.title, "", *others[1:])
    rows = [(bar.label, bar.value, percent(bar.share), *bar.more) for bar in part.bars]
    title = part.title if part.is_folded else ""
    return _rows(out.Rows(title=title, headings=headings, rows=rows, is_folded=part.is_folded))


def _step(step: out.Step) -> str:
    """Why to make a change, and what to type."""
    return "\n".join(
        [escaped(step.sentence)] * bool(step.sentence) + [fenced(step.command, "bash")] * bool(step.command)
    )


def _entries(found: out.Entries) -> str:
    rows = [(one.id, " ".join(one.lines)) for one in found.entries]
    return _rows(out.Rows(title=found.title, headings=found.headings, rows=rows, most=_MOST_ENTRIES))


def _rows(one: out.Rows) -> str:
    if not one.rows:
        return ""
    shown = [[out.text_of(cell) for cell in row[:_MOST_COLUMNS]] for row in one.rows[: one.most]]
    rows, columns = (one.total or len(one.rows)) - len(shown), len(one.headings) - _MOST_COLUMNS
    left = [counted(rows, "more row")] * (rows > 0) + [counted(columns, "more column")] * (columns > 0)
    body = table(one.headings[:_MOST_COLUMNS], shown) + (f"\n\nand {' and '.join(left)}" if left else "")
    if one.is_folded:
        return folded(one.title, body)
    return f"**{escaped(one.title)}**\n\n{body}" if one.title else body
