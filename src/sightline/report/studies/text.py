"""What the terminal shows of a study: what it found in sentences, the head of its table, what it assumes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult

from sightline.exploration.answer import StudyAnswer
from sightline.quantities import counted
from sightline.report.studies.quantities import NOTHING
from sightline.report.studies.table import StudyColumn, columns_of
from sightline.report.terminal.listing import Column, Listing
from sightline.report.terminal.parts import Sentence

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_ROWS = 40
"""Rows of a table that is shown in full."""
_HEAD = 24
"""Rows that are shown of a longer one."""
_FEW = 5
"""Rows that share a line above them, in the mean, if wider labels can make them as many."""

_LEAST = ("carbon", "energy")
"""Headings of figures that follow from others, so that a narrow terminal can do without them."""


def study_text(answer: StudyAnswer) -> "RenderableType":
    """Return a study's title, reading, table and assumptions for a terminal of any width."""
    from rich.console import Group
    from rich.text import Text

    blocks: list[RenderableType] = [Text(answer.title, style="bold")]
    blocks += [Sentence(sentence) for sentence in answer.reading]
    if len(answer):
        blocks += [Text(), _table(answer)]
        blocks += [Sentence(line, "dim") for line in _left_out(answer)]
    if answer.assumptions:
        blocks += [Text(), Text("assumes", style="dim")]
        blocks += [Sentence(sentence, "dim", indent=2) for sentence in answer.assumptions]
    return Group(*blocks)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that names what rows share above them, where the terminal has no room for it in each."""

    forms: Sequence[Listing]
    """Of which the first that fits is shown, else the last: that with the shortest labels."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the first form that fits, if need be without figures that follow from others, which is said."""
        for count in range(len(_LEAST) + 1):
            gone = _LEAST[:count]
            for form in self.forms:
                kept = [figure for figure in form.figures if figure.heading not in gone]
                shorter = replace(form, figures=kept)
                if shorter.narrowest <= options.max_width:
                    yield shorter
                    missing = [figure.heading for figure in form.figures if figure.heading in gone]
                    if missing:
                        said = f"hidden columns: {', '.join(missing)}; widen the terminal to show them"
                        yield Sentence(said, "dim")
                    return
        yield self.forms[-1]


def _table(answer: StudyAnswer) -> _Table:
    columns = [one for one in columns_of(answer, _head(answer)) if {*one.cells} != {NOTHING}]
    labels = [column for column in columns if column.tells_apart] or columns[:1]
    found = {
        one.key: Column(heading=one.heading, cells=one.cells, is_number=one.is_number and one not in labels)
        for one in columns
    }
    figures = [found[one.key] for one in columns if one not in labels]
    whole = Listing(labels=[found[one.key] for one in labels], figures=figures)
    least, grouped = _of_a_row(labels), []
    for count in range(least, len(labels)):
        groups = [", ".join(cells) for cells in zip(*map(_named, labels[:-count]), strict=True)]
        runs = len(list(groupby(groups)))
        if runs == len({*groups}):
            form = Listing(labels=[_joined(labels[-count:])], figures=figures, groups=groups)
            grouped.append((len(groups) >= _FEW * runs, form))
    enough = [form for is_enough, form in grouped if is_enough]
    return _Table([whole, *enough, *(form for _, form in grouped[:1])])


def _of_a_row(labels: Sequence[StudyColumn]) -> int:
    """How many of the last labels it takes to name each row: one, or more where rows lack the last."""
    for count in range(1, len(labels)):
        if all({*cells} != {NOTHING} for cells in zip(*(one.cells for one in labels[-count:]), strict=True)):
            return count
    return len(labels)


def _joined(labels: Sequence[StudyColumn]) -> Column:
    """Labels as one column; of several, each with its name and without those that a row lacks."""
    if len(labels) == 1:
        return Column(heading=labels[0].heading, cells=labels[0].cells, is_number=False)
    rows = zip(*(zip(_named(one), one.cells, strict=True) for one in labels), strict=True)
    cells = [", ".join(named for named, cell in row if cell != NOTHING) for row in rows]
    return Column(heading="", cells=cells, is_number=False)


def _named(column: StudyColumn) -> list[str]:
    """The cells of a column as they stand above rows: a number after what it is."""
    return [f"{column.heading} {cell}" if column.is_number else cell for cell in column.cells]


def _head(answer: StudyAnswer) -> int:
    return len(answer) if len(answer) <= MOST_ROWS else _HEAD


def _left_out(answer: StudyAnswer) -> list[str]:
    """How many rows and columns are not in the table."""
    rows = len(answer) - _head(answer)
    columns = len(answer.columns) - len([key for key in answer.shown or answer.columns if key in answer.columns])
    said = [counted(rows, "more row")] * (rows > 0) + [counted(columns, "more column")] * (columns > 0)
    return [f"{' and '.join(said)}; use --csv for all"] if said else []
