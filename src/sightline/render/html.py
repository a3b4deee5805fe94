"""An outlined answer as HTML: fragments of a page beside the specifications of the charts in them.

A piece has no script and no style of its own: a chart is an empty element with an id, and whoever shows the piece draws
the chart's specification into it. The report embeds Vega and draws at once (`sightline.render.document`); the local
page serves Vega and draws under a strict content-security policy.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from sightline.answers import outline as out
from sightline.answers.labels import scenario_yaml
from sightline.answers.units import percent
from sightline.on_demand import named

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite specification."""


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
    return paragraphs((f"Warning: {warning}" for warning in dict.fromkeys(warnings)), out.PERHAPS)


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


def linked(link: out.Link) -> str:
    """Return the element of a link, or the button that pins its address."""
    named = f' aria-label="{escape(link.label)}"' if link.label else ""
    if link.pins:
        return f'<button type="button" data-pin="{escape(link.address)}"{named}>{escape(link.text)}</button>'
    return f'<a href="{escape(link.address)}"{named}>{escape(link.text)}</a>'


def _cell(cell: out.Cell) -> str:
    """The content of a cell."""
    if isinstance(cell, out.Chipped):
        chips = (f'<span class="chip {escape(kind)}">{escape(words)}</span>' for words, kind in cell.chips)
        return " ".join((_cell(cell.cell), *chips))
    return linked(cell) if isinstance(cell, out.Link) else escape(cell)


def buttons(links: Iterable[out.Link]) -> str:
    """Return a row of links that look like buttons."""
    found = "".join(linked(one).replace("<a ", '<a class="button" ', 1) for one in links)
    return f'<div class="tools">{found}</div>' if found else ""


def short_answer(lines: Sequence[out.Said]) -> str:
    """Return the answer that is read in five seconds: whether it fits, how fast it is, what binds it, what it costs."""
    found = "".join(
        _card(one)
        if one.value
        else f"<div><dt>{escape(one.asks)}</dt><dd{_class(one.kind)}>{escape(one.says)}</dd></div>"
        for one in lines
    )
    kinds = "answer cards" if any(one.value for one in lines) else "answer"
    return f'<div class="headline"><dl class="{kinds}">{found}</dl></div>' if found else ""


def _card(one: out.Said) -> str:
    """A line of the short answer with its value in large, its bar, its interval and its details."""
    texts = ((one.detail, "detail"), (one.change, one.change_kind))
    said = "".join(f"<dd{_class(kind)}>{escape(text)}</dd>".replace(" %", "\u00a0%") for text, kind in texts if text)
    pictures = "".join((_bar(one), _whisker(one.whisker) if one.whisker else ""))
    shown = f"<dd{_class(one.kind)}>{pictures}</dd>" if pictures else ""
    # The unit of a figure, and the share of a limit, are smaller.
    shape = r"([^ ]*\d|.*?(?= \d+ %$)) (.+)"
    large = re.sub(shape, r"\1 <small>\2</small>", escape(one.value), count=1)
    value = f'<dd class="{f"value {one.kind}".strip()}">{large}</dd>'
    named = f'<div class="{f"card {one.kind}".strip()}" data-card="{escape(one.key)}">'
    return f"{named}<dt>{escape(one.asks)}</dt>{value}{shown}{said}</div>"


def _bar(one: out.Said) -> str:
    """The parts of a whole as one bar; one with a limit has a tick there, and is as long as its parts if these are."""
    from sightline.charts.drawing import LIMIT_COLORS

    if not one.bar:
        return ""
    whole, at, found = max(1.0, sum(part.share for part in one.bar)), 0.0, ""
    for part in one.bar:
        width = part.share / whole
        color = "currentColor" if part.key == "memory_bytes" else LIMIT_COLORS.get(part.key, "#b078ad")
        color = "currentColor" if one.kind == out.FAINT else color
        label = escape(f"{part.label} {part.value}")
        found += f'<rect x="{at:.2%}" y="2" width="{width:.2%}" height="8" fill="{color}"><title>{label}</title></rect>'
        at += width
    if one.key == "fits":
        found = f'<line class="ground" x1="0" x2="100%" y1="6" y2="6"/>{found}'
        found += f'<line x1="{1 / whole:.2%}" x2="{1 / whole:.2%}" y1="0" y2="12"/>'
    return _picture("bar", ", ".join(f"{part.label} {part.value}" for part in one.bar), found)


def _whisker(one: out.Whisker) -> str:
    """An interval as a thin line with a dot, from zero on."""
    high = one.value if one.high is None else one.high
    start, dot = (end / (1.05 * high) for end in (one.low, one.value))
    end = 1.0 if one.high is None else 1 / 1.05
    ground, line = (
        f'<line class="{name}" x1="{x1:.2%}" x2="{x2:.2%}" y1="6" y2="6"/>'
        for name, x1, x2 in (("ground", 0.0, 1.0), ("ends", start, end))
    )
    return _picture("whisker", one.label, f'{ground}{line}<circle cx="{dot:.2%}" cy="6" r="4" fill="currentColor"/>')


def _picture(kind: str, label: str, content: str) -> str:
    return f'<svg class="{kind}" width="100%" height="12" role="img" aria-label="{escape(label)}">{content}</svg>'


_SENTENCE = 40
"""Characters from which a cell is a sentence."""


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[out.Cell]],
    *,
    label: str = "table",
    numbers: bool | Sequence[bool] = True,
    strong: Sequence[int] = (),
    faint: Sequence[int] = (),
) -> str:
    """Return a table of texts.

    Args:
        headings: Of the columns.
        rows: The cells of each line.
        label: Names the region that scrolls where the table is wider than the screen.
        numbers: Whether columns hold numbers, which stand to the right: all but the first, none, or of each column.
        strong: Positions of the rows that matter most.
        faint: Positions of the rows that cannot be had.
    """
    lines, count = list(rows), len(headings)
    right = [*numbers] if isinstance(numbers, Sequence) else [numbers and at > 0 for at in range(count)]

    columns = zip(*lines, strict=True) if lines else [()] * count
    kinds = [_class(_kind_of(column, is_number=is_number)) for column, is_number in zip(columns, right, strict=True)]

    def cells(tag: str, values: Sequence[out.Cell]) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        pairs = zip(kinds, values, strict=True)
        # A column without a heading is the label of its row, which needs no name.
        return "".join(
            f"<td{kind}></td>"
            if tag == "th" and not value
            else f"<{tag}{scope}{kind}{_value_of(value)}>{_cell(value)}</{tag}>"
            for kind, value in pairs
        )

    looks = {**dict.fromkeys(strong, "strong"), **dict.fromkeys(faint, out.FAINT)}
    body = "".join(f"<tr{_class(looks.get(at, ''))}>{cells('td', row)}</tr>" for at, row in enumerate(lines))
    head = f"<thead><tr>{cells('th', headings)}</tr></thead>"
    return scrolled(f"<table>{head}<tbody>{body}</tbody></table>", label)


def _value_of(cell: out.Cell) -> str:
    """The attribute by which the page sorts."""
    if isinstance(cell, out.Chipped | out.Link):
        return _value_of(cell.cell if isinstance(cell, out.Chipped) else cell.text)
    return f' data-value="{cell.value!r}"' if isinstance(cell, out.Valued) else ""


def _kind_of(column: Sequence[out.Cell], *, is_number: bool) -> str:
    """The class of a column's cells: numbers, or sentences, which are not folded to a word a line."""
    if is_number:
        return "n"
    return "sentence" if any(len(out.text_of(one)) > _SENTENCE for one in column) else ""


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


MOST_ROWS = 400
"""Rows of a table on a page; more are in the CSV and JSON of the command."""


def outline_piece(
    outline: out.Outline,
    *,
    level: int = 2,
    title_level: int | None = None,
    in_notebook: bool = False,
) -> Piece:
    """Return what stands on the page of an answer.

    Args:
        outline: The answer.
        level: Of the headings of its parts.
        title_level: Of the heading with its title; without one the title is left out.
        in_notebook: Whether it stands in a notebook, which has its charts below it and details folded.
    """
    layout = _Layout(level=level, in_notebook=in_notebook)
    return joined(
        headline(outline.title, title_level) if title_level else "",
        paragraphs(outline.about, out.FAINT),
        *map(layout.part, outline.urgent),
        short_answer([*outline.said, *outline.legend]),
        warned(outline.warnings),
        paragraphs(outline.sentences),
        *map(layout.part, outline.parts),
        layout.holding("Assumptions", listed(outline.assumptions), is_folded=in_notebook),
        paragraphs(outline.footnotes, out.FAINT),
        folded("Resolved scenario", text(scenario_yaml(outline.scenario), "scenario")) if outline.scenario else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How parts are laid out: below headings of a level, on a page or in a notebook."""

    level: int
    in_notebook: bool

    def holding(self, title: str, *parts: "Piece | str", is_folded: bool) -> Piece:
        """Return pieces under a heading, or folded; as they are without a title."""
        if not title:
            return joined(*parts)
        return folded(title, *parts) if is_folded else section(title, *parts, level=self.level)

    def part(self, part: out.Part) -> Piece:  # noqa: C901, PLR0911 - a case for each kind of part
        """Return one part of an answer."""
        match part:
            case out.Section():
                return self._section(part)
            case out.Outline():
                return outline_piece(part, level=self.level, in_notebook=self.in_notebook)
            case out.Lines():
                return self.holding(part.title, paragraphs(part.lines, part.kind), is_folded=False)
            case out.Bars():
                return joined() if part.is_charted else self._bars(part)
            case out.Rows():
                return self._rows(part)
            case out.Steps():
                return self.holding(part.title, _steps(part), is_folded=False)
            case out.Charts():
                return joined() if self.in_notebook else charts_piece(part)
            case out.Text():
                return folded(part.title, text(part.text, part.title, part.file), is_open=part.is_open)
            case out.Links():
                return joined(buttons(part.links))
            case out.Entries():
                opened = not (part.is_detail or self.in_notebook)
                entries = (
                    folded(f"{one.id} {one.says}", paragraphs(one.lines), is_open=opened) for one in part.entries
                )
                return self.holding(part.title, *entries, is_folded=False)
            case out.Studies():
                return self._studies(part)

    def _section(self, part: out.Section) -> Piece:
        if part.is_long and self.in_notebook:
            return joined()
        inner = _Layout(level=self.level + bool(part.title and not part.is_folded), in_notebook=self.in_notebook)
        inside = map(inner.part, part.made)
        found = self.holding(part.title, *inside, is_folded=part.is_folded or (self.in_notebook and part.is_detail))
        return joined(f'<div class="block {part.kind}">', found, "</div>") if part.kind and found else found

    def _bars(self, part: out.Bars) -> Piece:
        rows = [(bar.label, bar.value, percent(bar.share), *bar.more) for bar in part.bars]
        shown = table(part.headings, rows, label=part.title) if rows else ""
        return self.holding(part.title, shown, is_folded=part.is_folded or self.in_notebook)

    def _rows(self, part: out.Rows) -> Piece:
        if not part.rows:
            return joined()
        rows = part.rows[: MOST_ROWS // 2 if self.in_notebook else MOST_ROWS]
        left = (part.total or len(part.rows)) - len(rows)
        more = paragraphs([f"{left:,} more; use --csv or --json"] if left > 0 else [], out.FAINT)
        shown = table(
            part.headings,
            rows,
            label=part.title or " and ".join(filter(None, part.headings[:2])) or "figures",
            numbers=part.numbers,
            strong=part.strong,
            faint=part.faint,
        )
        return self.holding(part.title, shown, more, is_folded=part.is_folded)

    def _studies(self, part: out.Studies) -> Piece:
        from sightline.answers.study import study_outline

        if self.in_notebook and len(part.studies) > 1:
            return self._rows(part.listed)
        studies = (
            section(
                f"{one.id}: {one.answer.title}",
                paragraphs([one.status], out.FAINT),
                outline_piece(study_outline(one.answer, one.id), level=self.level + 2, in_notebook=self.in_notebook),
                level=self.level + 1,
            )
            for one in part.studies
        )
        return section(part.title, *studies, level=self.level)


def _steps(part: out.Steps) -> str:
    """Sentences with what to type; those that lead to a page as a list of links."""
    if any(step.link for step in part.steps):
        lines = (
            " ".join(filter(None, (escape(step.sentence), linked(step.link) if step.link else "")))
            for step in part.steps
        )
        return f'<ol class="advice">{"".join(f"<li>{line}</li>" for line in lines)}</ol>'
    return "".join(paragraphs([step.sentence]) + text(step.command, step.sentence) for step in part.steps)


def drawn(part: out.Charts, room: Any = None, most: int | None = None) -> Iterator[tuple[str, str, Spec]]:
    """Yield name, title and specification of the charts of an answer, in a room of some size."""
    from sightline.charts.drawing import SCREEN
    from sightline.charts.index import KINDS

    room = room or SCREEN
    if part.function:
        if (spec := named(part.function)(part.answer, room)) is not None:
            yield "", "", spec if part.titled else _untitled(spec)
        return
    left = part.most if most is None else most
    for name in (name for name in part.names or KINDS if name not in part.but):
        spec = KINDS[name].draws(part.answer, room) if left > 0 else None
        if spec is not None:
            left -= 1
            yield name, KINDS[name].title, _titled(spec, KINDS[name].title) if part.titled else _untitled(spec)


def _untitled(spec: Spec) -> Spec:
    """A chart whose page says what it is of."""
    return {key: value for key, value in spec.items() if key != "title"}


def charts_piece(part: out.Charts) -> Piece:
    """Return the charts of an answer, each with its title."""
    from sightline.charts.drawing import PHONE

    narrow = {name: spec for name, _, spec in drawn(part, PHONE)} if part.is_narrow else {}
    found = (
        chart(
            f"{part.start}-{name}".rstrip("-"),
            wide,
            narrow.get(name),
            label=f"{title}: {part.label}" if title else part.label,
        )
        for name, title, wide in drawn(part)
    )
    return joined(*found)


def _titled(spec: Spec, title: str) -> Spec:
    """A chart that says what it shows: the page has the name of the scenario, the lines below the title say it too."""
    told = spec.get("title")
    own = told if isinstance(told, dict) else {"anchor": "start", "offset": 12}
    return {**spec, "title": {**own, "text": title, "fontSize": 15}}
