"""Answers that are outlined: what was required, what is reproduced, what predictions rest on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.notebook import pieces, studies
from sightline.notebook.view import View
from sightline.report.coverage import coverage_outline
from sightline.report.outline import Entries, Entry, Outline, Part, Rows, Studies
from sightline.report.pieces import FAINT, text
from sightline.report.reproduced import reproduced_outline
from sightline.report.requirements import requirements_outline
from sightline.report.terminal.outline import outline_text
from sightline.report.terminal.parts import Sentence
from sightline.reproduction.answer import Reproduction
from sightline.requirements.check import Checked
from sightline.validation.coverage import Cell

if TYPE_CHECKING:
    from rich.console import RenderableType


def required(found: Checked) -> View:
    """Return what was required of one scenario, and what is met."""
    return required_of_all([found])


def required_of_all(found: Sequence[Checked]) -> View:
    """Return the same of several scenarios, a line for each."""
    return outlined(requirements_outline(found))


def reproduced(answer: Reproduction) -> View:
    """Return the findings of a source, what is behind each, and which tables there are; of a single table all of it."""
    return outlined(reproduced_outline(answer))


def covered(cells: Sequence[Cell]) -> View:
    """Return what predictions of each combination rest on."""
    return outlined(coverage_outline(cells))


def outlined(outline: Outline) -> View:
    """Return an outline: tables open, unless it says otherwise; what is behind lines, and the scenario, folded."""
    said = [(one.asks, one.says, one.kind) for one in (*outline.said, *outline.legend)]
    html = "".join(
        (
            pieces.title(outline.title),
            pieces.paragraphs(outline.about, FAINT),
            pieces.rows_of(said),
            pieces.warned(outline.warnings),
            pieces.paragraphs(outline.sentences),
            *map(_part, outline.parts),
            pieces.folded("what it assumes", pieces.listed(outline.assumptions)),
            pieces.paragraphs(outline.footnotes, FAINT),
            pieces.folded("the scenario, fully resolved", text(outline.scenario, "scenario")),
        )
    )
    alone = [one for one in map(_alone, outline.parts) if one]
    charts = [chart for one in alone for chart in one.charts]
    return View(html=html, text=_text(outline), charts=charts)


def _text(outline: Outline) -> "RenderableType":
    """What a terminal shows on stdout and stderr, and what readers of a kept answer are told."""
    from rich.console import Group

    warnings = (Sentence(f"warning: {one}") for one in dict.fromkeys(outline.warnings))
    return Group(outline_text(outline), *warnings, *map(Sentence, outline.footnotes))


def _part(part: Part) -> str:
    if isinstance(part, Rows):
        return _rows(part)
    if isinstance(part, Entries):
        return pieces.section(part.title, "".join(map(_entry, part.entries)))
    alone = _alone(part)
    return _rows(part.listed) if alone is None else alone.html


def _rows(table: Rows) -> str:
    if not table.rows:
        return ""
    holds = pieces.folded if table.is_folded else pieces.section
    return holds(table.title, pieces.table(table.headings, table.rows, numbers=table.numbers))


def _entry(entry: Entry) -> str:
    return pieces.folded(f"{entry.id} {entry.says}", pieces.paragraphs(entry.lines))


def _alone(part: Part) -> View | None:
    """The view of a study that is the only one."""
    if isinstance(part, Studies) and len(part.studies) == 1:
        return studies.study(part.studies[0].answer)
    return None
