"""The page of a reproduced source: its findings with the figures behind each, and its tables with their pictures."""

from sightline.report import pieces
from sightline.report.document import document
from sightline.report.pages.study import study_piece
from sightline.report.pieces import FAINT, Piece
from sightline.report.reproduced import words
from sightline.reproduction.answer import Outcome, ReproducedTable, Reproduction


def reproduced_page(answer: Reproduction, *, command: str = "") -> str:
    """Return the report of a reproduced source as one page that needs no network."""
    title = words.title_of(answer)
    return document(title, pieces.joined(pieces.headline(title), reproduced_piece(answer)), command=command)


def reproduced_piece(answer: Reproduction) -> Piece:
    """Return what stands on the page of a reproduced source, without its title."""
    lines = [words.line_of(one) for one in answer.outcomes]
    findings = pieces.table(words.HEADINGS, lines, label="findings", numbers=words.NUMBERS) if lines else ""
    return pieces.joined(
        pieces.paragraphs([answer.cited], FAINT),
        pieces.short_answer(words.short_answer(answer)),
        pieces.warned(answer.warnings),
        pieces.section("Findings", findings),
        pieces.section("One choice of every open setting", _choices(answer)),
        pieces.section("Not reproduced, and why", *(_figures(one, is_open=True) for one in words.missed(answer))),
        pieces.section("Reproduced", *(_figures(one) for one in answer.outcomes if one.reproduced)),
        pieces.section("Tables", *map(_table, answer.tables)),
        pieces.section("What it assumes", pieces.listed(answer.assumptions)),
    )


def _choices(answer: Reproduction) -> Piece | str:
    """The choices with which most findings are reproduced together."""
    if not answer.choices:
        return ""
    return pieces.table(words.CHOICE_HEADINGS, answer.choices.items(), label="choices", numbers=False)


def _figures(outcome: Outcome, *, is_open: bool = False) -> Piece:
    finding = outcome.finding
    return pieces.folded(
        f"{finding.id} {finding.finding}", pieces.paragraphs(words.details_of(outcome)), is_open=is_open
    )


def _table(one: ReproducedTable) -> Piece:
    return pieces.section(
        f"{one.id}: {one.answer.title}",
        pieces.paragraphs([one.status], FAINT),
        study_piece(one.answer, f"chart-{one.id}", is_folded=True),
        level=3,
    )
