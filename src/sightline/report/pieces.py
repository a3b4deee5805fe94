"""The pieces that pages are made of: fragments of HTML beside the specifications of the charts in them.

A piece has no script and no style of its own: a chart is an empty element with an id, and whoever shows the piece draws
the chart's specification into it. The report embeds Vega and draws at once (`sightline.report.document`); the local
page serves Vega and draws under a strict content-security policy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple, TypeAlias

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite specification."""

GOOD, PERHAPS, BAD, FAINT = "good", "perhaps", "bad", "faint"
"""Classes of text: a good verdict, a doubtful one, a bad one, and what matters less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A chart of a piece."""

    wide: Spec
    narrow: Spec | None = None
    """What narrow screens show instead, if it differs."""
    label: str
    """What the chart shows with its main figures, for readers who do not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A fragment of a page."""

    html: str = ""
    charts: Mapping[str, Drawing] = field(default_factory=dict)
    """By the id of the element in ``html`` into which it is drawn."""

    def __bool__(self) -> bool:
        return bool(self.html)

    def __add__(self, other: "Piece | str") -> "Piece":
        return joined(self, other)


def joined(*parts: "Piece | str") -> Piece:
    """Return the pieces one below the other; texts are HTML."""
    found = [part if isinstance(part, Piece) else Piece(html=part) for part in parts]
    charts = {identifier: drawing for part in found for identifier, drawing in part.charts.items()}
    return Piece(html="".join(part.html for part in found), charts=charts)


def section(title: str, *parts: "Piece | str", level: int = 2) -> Piece:
    """Return pieces under a heading; nothing where they are empty."""
    body = joined(*parts)
    return joined(f"<h{level}>{escape(title)}</h{level}>", body) if body else body


def folded(title: str, *parts: "Piece | str", is_open: bool = False) -> Piece:
    """Return pieces that a reader unfolds; nothing where they are empty."""
    body = joined(*parts)
    opened = " open" if is_open else ""
    return joined(f"<details{opened}><summary>{escape(title)}</summary>", body, "</details>") if body else body


def paragraphs(lines: Iterable[str], kind: str = "") -> str:
    """Return a paragraph for each line; ``kind`` is one of the classes of text."""
    return "".join(f"<p{_class(kind)}>{escape(line)}</p>" for line in lines)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def warned(warnings: Iterable[str]) -> str:
    """Return a paragraph for each warning, once."""
    return paragraphs((f"Warning: {warning}" for warning in dict.fromkeys(warnings)), PERHAPS)


def listed(lines: Iterable[str]) -> str:
    """Return a list of sentences."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def text(content: str, label: str, file: str = "") -> str:
    """Return preformatted text, such as a scenario; nothing where there is none.

    Args:
        content: The text.
        label: Names the region that scrolls.
        file: Under which a page that can save it does.
    """
    if not content:
        return ""
    named = f' data-file="{escape(file)}"' if file else ""
    return f'<pre tabindex="0" role="region" aria-label="{escape(label)}"{named}>{escape(content)}</pre>'


class Link(NamedTuple):
    """A text that leads somewhere, as a cell of a table."""

    text: str
    address: str
    label: str = ""
    """What it leads to, where the text alone does not say it."""

    @property
    def html(self) -> str:
        """The element."""
        named = f' aria-label="{escape(self.label)}"' if self.label else ""
        return f'<a href="{escape(self.address)}"{named}>{escape(self.text)}</a>'


Cell: TypeAlias = str | Link


def buttons(links: Iterable[Link]) -> str:
    """Return a row of links that look like buttons."""
    found = "".join(one.html.replace("<a ", '<a class="button" ', 1) for one in links)
    return f'<div class="tools">{found}</div>' if found else ""


def commands(found: Iterable[tuple[str, str]]) -> str:
    """Return what to type next: what each command is for, and the command."""
    return "".join(f"<p>{escape(said)}</p>{text(command, said)}" for said, command in found)


def cards(figures: Iterable[tuple[str, str]]) -> str:
    """Return figures as cards: label and value of each."""
    found = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for label, value in figures)
    return f'<dl class="figures">{found}</dl>' if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One line of the short answer: what was asked, and what is so."""

    asks: str
    says: str
    kind: str = ""
    """One of the classes of text."""


def short_answer(lines: Iterable[Said]) -> str:
    """Return the answer that is read in five seconds: whether it fits, how fast it is, what binds it, what it costs."""
    found = "".join(
        f"<div><dt>{escape(one.asks)}</dt><dd{_class(one.kind)}>{escape(one.says)}</dd></div>" for one in lines
    )
    return f'<dl class="answer">{found}</dl>' if found else ""


_SENTENCE = 40
"""Characters from which a cell is a sentence."""


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    label: str = "table",
    numbers: bool | Sequence[bool] = True,
) -> str:
    """Return a table of texts.

    Args:
        headings: Of the columns.
        rows: The cells of each line.
        label: Names the region that scrolls where the table is wider than the screen.
        numbers: Whether columns hold numbers, which stand to the right: all but the first, none, or of each column.
    """
    lines, count = list(rows), len(headings)
    right = [*numbers] if isinstance(numbers, Sequence) else [numbers and at > 0 for at in range(count)]

    columns = zip(*lines, strict=True) if lines else [()] * count
    kinds = [_class(_kind_of(column, is_number=is_number)) for column, is_number in zip(columns, right, strict=True)]

    def cells(tag: str, values: Sequence[Cell]) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        pairs = zip(kinds, values, strict=True)
        # A column without a heading is the label of its row, which needs no name.
        return "".join(
            f"<td{kind}></td>"
            if tag == "th" and not value
            else f"<{tag}{scope}{kind}>{value.html if isinstance(value, Link) else escape(value)}</{tag}>"
            for kind, value in pairs
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in lines)
    head = f"<thead><tr>{cells('th', headings)}</tr></thead>"
    return scrolled(f"<table>{head}<tbody>{body}</tbody></table>", label)


def _kind_of(column: Sequence[Cell], *, is_number: bool) -> str:
    """The class of a column's cells: numbers, or sentences, which are not folded to a word a line."""
    if is_number:
        return "n"
    return "sentence" if any(len(one.text if isinstance(one, Link) else one) > _SENTENCE for one in column) else ""


def scrolled(html: str, label: str) -> str:
    """Return HTML that may be wider than the screen, in a region that scrolls with the keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{html}</div>'


def chart(identifier: str, wide: Spec, narrow: Spec | None = None, *, label: str) -> Piece:
    """Return the place of a chart.

    Args:
        identifier: Of its element; no two charts of a page share one.
        wide: Its specification.
        narrow: The one for narrow screens.
        label: What it shows with its main figures, for readers who do not see it.
    """
    drawing = Drawing(wide=wide, narrow=narrow, label=label)
    return Piece(html=place_of(identifier, drawing), charts={identifier: drawing})


def place_of(identifier: str, drawing: Drawing) -> str:
    """Return the element of a chart, as it stands in a piece."""
    label = escape(drawing.label)
    return (
        f'<figure class="chart"><div class="scroll" tabindex="0" role="region" aria-label="chart: {label}">'
        f'<div id="{escape(identifier)}" class="drawn" role="img" aria-label="{label}"></div></div></figure>'
    )


def headline(title: str, level: int = 1) -> str:
    """Return the heading of a page, or of what a page shows below its own."""
    return f"<h{level}>{escape(title)}</h{level}>"
