"""What an answer says, part by part in the order in which it is read; a renderer for each medium lays it out.

Markdown: `sightline.report.markdown.outline`. A page: `sightline.report.pages.outline`. A terminal:
`sightline.report.terminal.outline`. A notebook: `sightline.notebook.outlines`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sightline.exploration.answer import StudyAnswer
from sightline.report.pieces import Said

MOST_ROWS = 20
"""Rows of a table in Markdown; more is not read in a pull request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: bool | Sequence[bool] = True
    """Which columns hold figures: all but the first, none, or of each column."""
    most: int = MOST_ROWS
    """Rows that Markdown shows."""
    is_folded: bool = False
    """Whether Markdown and notebooks fold it."""
    labels: int = 1
    """How many of the first columns name a row."""
    figures: Sequence[str] = ()
    """Headings of the columns that a terminal has room for beside the names; empty for all of them."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """A class of text for each word that is colored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Sentences under a name."""

    id: str
    says: str
    """Follows the id, where there is room."""
    lines: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """What is behind each of several lines."""

    title: str
    headings: tuple[str, str]
    """Of id and sentences, where they stand in a table."""
    entries: Sequence[Entry]
    is_detail: bool = False
    """Whether only those see it who ask for everything: it is folded on a page, and absent in what is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A study's answer that is a part of another answer."""

    id: str
    status: str
    answer: StudyAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Studies:
    """Tables with their pictures; where there is no room for them, which there are."""

    title: str
    studies: Sequence[Shown]

    @property
    def listed(self) -> Rows:
        """The table of what there is."""
        rows = [(one.id, one.answer.title, one.status, str(len(one.answer))) for one in self.studies]
        headings = ("table", "shows", "status", "rows")
        return Rows(title=self.title, headings=headings, rows=rows, numbers=(False, False, False, True), is_folded=True)


Part: TypeAlias = Rows | Entries | Studies


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """An answer without a layout."""

    title: str
    about: Sequence[str] = ()
    """What it is about, such as where a source is to be found."""
    said: Sequence[Said] = ()
    """The short answer."""
    legend: Sequence[Said] = ()
    """What its words mean."""
    sentences: Sequence[str] = ()
    parts: Sequence[Part] = ()
    assumptions: Sequence[str] = ()
    footnotes: Sequence[str] = ()
    """What readers of a kept answer are told: on pages and in Markdown."""
    warnings: Sequence[str] = ()
    scenario: str = ""
    """As YAML; it is folded."""
