"""An explanation as a page: pieces that the local page shows too, and one file that needs no network."""

from collections.abc import Iterator

from sightline.explanation.answer import Explanation
from sightline.report import labels, pieces, summary, units
from sightline.report.charts.drawing import PHONE, SCREEN
from sightline.report.charts.explained import explained_chart
from sightline.report.document import document
from sightline.report.explained.answer import change, modules, percent_of, phases, short_answer, whole_name
from sightline.report.explained.drill import drill
from sightline.report.pieces import FAINT, Piece
from sightline.report.summary import Part

LIMIT_COLUMNS = ("limit", "time", "share", "if alone", "distance to limit")
"""Of the table of limits: what the whole takes more than if a limit alone held is the distance to it."""


def explained_page(explanation: Explanation, *, command: str = "") -> str:
    """Return a complete page that opens anywhere; ``command`` is what asked for it."""
    body = pieces.joined(pieces.headline(explanation.title), explained_piece(explanation, "explained"))
    return document(explanation.title, body, command=command)


def explained_piece(explanation: Explanation, identifier: str, *, level: int = 2, better: Piece | None = None) -> Piece:
    """Return everything about an explanation.

    Args:
        explanation: The answer of ``explain``.
        identifier: The id of its chart.
        level: Of headings.
        better: The changes that would help, where they are shown with more than their commands.
    """
    about = () if explanation.answer is None else labels.subtitle(explanation.answer.scenario)
    return pieces.joined(
        pieces.paragraphs(about, FAINT),
        pieces.short_answer((*short_answer(explanation), change(explanation))),
        pieces.warned(explanation.warnings),
        pieces.paragraphs(explanation.sentences),
        *(_advice(explanation, level) if better is None else (better,)),
        _chart(explanation, identifier),
        pieces.section("What limits it", _limits(explanation), level=level),
        pieces.section("Time by phase", _parts(phases(explanation), "phase"), level=level),
        drill(explanation, level=level),
        pieces.folded("Time by module", _parts(modules(explanation, 40), "module")),
    )


def _advice(explanation: Explanation, level: int) -> Iterator[Piece]:
    for number, one in enumerate(explanation.advice, start=1):
        command = pieces.text(one.command, "command")
        yield pieces.section(f"{number}. {percent_of(one)}", pieces.paragraphs([one.sentence]), command, level=level)


def _chart(explanation: Explanation, identifier: str) -> Piece:
    if not explanation.limits:
        return Piece()
    said = ", ".join(f"{one.limit} {units.seconds(one.time_s)}" for one in explanation.limits)
    label = f"what limits the {whole_name(explanation)} of {explanation.title}: {said}"
    wide, narrow = (explained_chart(explanation, room, titled=False) for room in (SCREEN, PHONE))
    return pieces.chart(identifier, wide, narrow, label=label)


def _limits(explanation: Explanation) -> str:
    rows = limit_rows(explanation)
    return pieces.table(LIMIT_COLUMNS, rows, label="limits") if rows else ""


def limit_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """Return the cells of each limit under `LIMIT_COLUMNS`.

    They are its name, seconds, share, what the whole would take if it alone held, and how far the whole is from that.
    """
    return [
        (
            one.limit,
            units.seconds(one.time_s),
            units.percent(one.share),
            summary.NOTHING if one.alone_s is None else units.seconds(one.alone_s),
            summary.NOTHING if one.alone_s is None else units.seconds(max(explanation.whole_s - one.alone_s, 0.0)),
        )
        for one in explanation.limits
    ]


def _parts(found: list[Part], name: str) -> str:
    rows = [(part.label, units.seconds(part.value), units.percent(part.share)) for part in found]
    return pieces.table((name, "time", "share"), rows, label=f"time by {name}") if rows else ""
