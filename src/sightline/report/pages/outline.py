"""An outlined answer as a page."""

from collections.abc import Iterator

from sightline.report import pieces
from sightline.report.document import document
from sightline.report.outline import Entries, Entry, Outline, Part, Rows, Shown
from sightline.report.pages.study import study_piece
from sightline.report.pieces import FAINT, Piece


def outline_page(outline: Outline, *, command: str = "") -> str:
    """Return the answer as one page that needs no network; ``command`` asked for it."""
    body = pieces.joined(pieces.headline(outline.title), outline_piece(outline))
    return document(outline.title, body, command=command)


def outline_piece(outline: Outline) -> Piece:
    """Return what stands on the page of an answer, without its title."""
    return pieces.joined(
        pieces.paragraphs(outline.about, FAINT),
        pieces.short_answer([*outline.said, *outline.legend]),
        pieces.warned(outline.warnings),
        pieces.paragraphs(outline.sentences),
        *map(_part, outline.parts),
        pieces.section("Assumptions", pieces.listed(outline.assumptions)),
        pieces.paragraphs(outline.footnotes, FAINT),
        pieces.folded("Resolved scenario", pieces.text(outline.scenario, "scenario")),
    )


def _part(part: Part) -> Piece:
    return pieces.section(part.title, *_content(part))


def _content(part: Part) -> Iterator[Piece | str]:
    if isinstance(part, Rows):
        if part.rows:
            yield pieces.table(part.headings, part.rows, label=part.title, numbers=part.numbers)
    elif isinstance(part, Entries):
        yield from (_entry(one, is_open=not part.is_detail) for one in part.entries)
    else:
        yield from map(_study, part.studies)


def _entry(entry: Entry, *, is_open: bool) -> Piece:
    return pieces.folded(f"{entry.id} {entry.says}", pieces.paragraphs(entry.lines), is_open=is_open)


def _study(one: Shown) -> Piece:
    return pieces.section(
        f"{one.id}: {one.answer.title}",
        pieces.paragraphs([one.status], FAINT),
        study_piece(one.answer, f"chart-{one.id}", is_folded=True),
        level=3,
    )
