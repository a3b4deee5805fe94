"""What an answer says, part by part in the order in which it is read; `sightline.render` lays it out in each medium.

An outline holds texts and figures that are already formatted. Media differ in how much they show: pages and notebooks
show charts in place of bars and have room for details; terminals and Markdown show bars and leave details out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

if TYPE_CHECKING:
    from sightline.exploration.study_answer import StudyAnswer

GOOD, PERHAPS, BAD, FAINT = "good", "perhaps", "bad", "faint"
"""Classes of text: a good verdict, a doubtful one, a bad one, and what matters less."""
MOST_ROWS = 20
"""Rows of a table in Markdown; more is not read in a pull request."""


class Link(NamedTuple):
    """A text that leads somewhere on a page; other media show the text alone."""

    text: str
    address: str
    label: str = ""
    """What it leads to, where the text alone does not say it."""
    pins: bool = False
    """Whether it keeps the scenario of the address as the baseline, in place of leading there."""


class Chipped(NamedTuple):
    """A text or link, and words about it, each with its class of text; pages show these as chips."""

    cell: str | Link
    chips: Sequence[tuple[str, str]]


class Valued(str):
    """The text of a figure that knows its value, by which a page sorts the rows of a table."""

    __slots__ = ("value",)

    value: float

    def __new__(cls, text: str, value: float) -> Self:
        """Return the text with its value."""
        made = super().__new__(cls, text)
        made.value = value
        return made


Cell: TypeAlias = str | Link | Chipped


def text_of(cell: Cell) -> str:
    """Return what a cell says where there are neither links nor chips."""
    if isinstance(cell, Chipped):
        return f"{text_of(cell.cell)} {', '.join(words for words, _ in cell.chips)}".rstrip()
    return cell.text if isinstance(cell, Link) else cell


class Bar(NamedTuple):
    """One part of a whole: its key, which has a color, its name, value and share, and further cells.

    The key ``faint`` is of what is no part of the whole; it has no bar.
    """

    key: str
    label: str
    value: str
    share: float
    more: Sequence[str] = ()


class Whisker(NamedTuple):
    """An 80 % interval around a figure; without an upper end it is a bound."""

    low: float
    value: float
    high: float | None
    label: str
    """The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One line of the short answer: what was asked, and what is so. With a ``value`` it is a card on pages."""

    asks: str
    says: str = ""
    """In full; of a card its value, details and change."""
    kind: str = ""
    """One of the classes of text."""
    key: str = ""
    """Of a card: fits, speed, bound or cost; other lines that are looked for have one too."""
    value: str = ""
    """What is read first."""
    detail: str = ""
    """What is read second."""
    bar: Sequence[Bar] = ()
    """Parts of a whole; those of a card that says whether it fits may be more than that."""
    whisker: Whisker | None = None
    change: str = ""
    """How the value differs from that of a baseline."""
    change_kind: str = ""

    def __post_init__(self) -> None:
        if self.value:
            object.__setattr__(self, "says", " · ".join(filter(None, (self.value, self.detail, self.change))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Sentences, a paragraph each."""

    lines: Sequence[str]
    title: str = ""
    kind: str = ""
    """One of the classes of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Parts of a whole with their shares: bars on a terminal, else a table."""

    title: str
    bars: Sequence[Bar]
    headings: Sequence[str] = ("part", "time", "share")
    """Of label, value, share and what each bar has more."""
    kind: str = ""
    """One of the classes of text; without one the bars have the colors of their keys."""
    is_charted: bool = False
    """Whether a chart of the answer shows the same, so that media with charts need no table."""
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """A column of a table: a cell for each row."""

    key: str = ""
    """Of what it shows, where somebody asks for it."""
    heading: str
    cells: Sequence[Any]
    """Texts or links."""
    is_number: bool = True
    tells_apart: bool = False
    """Whether it says which row this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table. Consecutive tables under the same headings are one listing on a terminal."""

    title: str = ""
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: bool | Sequence[bool] = True
    """Which columns hold figures: all but the first, none, or of each column."""
    total: int | None = None
    """How many rows there are, where these are only the first of them."""
    more_columns: int = 0
    """How many columns there are beside these."""
    most: int = MOST_ROWS
    """Rows that Markdown shows."""
    is_folded: bool = False
    """Whether Markdown, notebooks and pages fold it."""
    labels: int = 1
    """How many of the first columns name a row."""
    grouped: int = 0
    """How many of these name several rows: on a terminal they stand once, above their rows."""
    regroups: bool = False
    """Whether a terminal may put the first labels above the rows that share them, where it is narrow."""
    figures: Sequence[str] = ()
    """Headings of the columns that a terminal has room for beside the names; empty for all of them."""
    drops: Sequence[str] = ()
    """Headings of columns that a narrow terminal leaves out first, so that a row keeps to its line."""
    least: Sequence[str] = ()
    """Headings of columns that a narrow terminal leaves out at last, when rows have several lines already."""
    sentences: bool = False
    """Whether the last of three columns is a sentence, which folds beside the others."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """A class of text for each word that is colored; of a cell of several words the first one counts."""
    strong: Sequence[int] = ()
    """Positions of the rows that matter most."""
    faint: Sequence[int] = ()
    """Positions of the rows that cannot be had, such as plans that do not fit."""

    @classmethod
    def of_columns(cls, columns: Sequence[Column], **more: Any) -> "Rows":
        """Return the table of these columns; ``more`` are its other fields."""
        return cls(
            headings=[one.heading for one in columns],
            rows=list(zip(*(one.cells for one in columns), strict=True)),
            numbers=[one.is_number for one in columns],
            **more,
        )

    @classmethod
    def of_pairs(cls, pairs: Sequence[Sequence[Cell]], title: str = "", **more: Any) -> "Rows":
        """Return a table of names and values without headings; ``more`` are its other fields."""
        return cls(title=title, headings=("", ""), rows=pairs, numbers=False, **more)


class Step(NamedTuple):
    """A change to make or a command to try: a sentence, and what to type or where it leads."""

    sentence: str
    command: str = ""
    link: Link | None = None
    """The page that shows it, in place of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What to change or to try next."""

    title: str = ""
    steps: Sequence[Step]


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
class Charts:
    """The charts of an answer, on pages and in notebooks."""

    answer: Any
    """What they are drawn of; `sightline.charts.index` knows which charts it has."""
    label: str
    """The main figures, for readers who do not see the charts."""
    start: str = "chart"
    """Of the ids of the charts."""
    most: int = 8
    """How many of them a page shows, the ones that say most."""
    names: Sequence[str] = ()
    """The kinds that are shown if the answer has them; all where none is named."""
    but: Sequence[str] = ()
    """Kinds that are not shown."""
    function: str = ""
    """``module:name`` of a function from the answer and a room to a chart that is not in the index."""
    titled: bool = True
    """Whether they have titles of their own, which say what the answer is of."""
    is_narrow: bool = True
    """Whether they have a form for narrow screens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text as it is, such as a file; it is folded, and only pages and notebooks show it."""

    title: str
    text: str
    file: str = ""
    """Its name, under which a page that can save it does."""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where a page leads on to."""

    links: Sequence[Link]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A study's answer that is a part of another answer."""

    id: str
    status: str
    answer: "StudyAnswer"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts under a heading. Those of a detail are made when a medium shows details, which terminals do not."""

    title: str = ""
    parts: "Sequence[Part] | Callable[[], Sequence[Part]]"
    is_detail: bool = False
    is_long: bool = False
    """Whether only pages have room for it."""
    is_folded: bool = False
    kind: str = ""
    """One of the classes of text."""

    @property
    def made(self) -> "Sequence[Part]":
        """The parts."""
        return self.parts() if callable(self.parts) else self.parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """An answer without a layout."""

    title: str = ""
    about: Sequence[str] = ()
    """What it is about, such as where a source is to be found."""
    urgent: "Sequence[Part]" = ()
    """What comes before the short answer, as where nothing fits."""
    said: Sequence[Said] = ()
    """The short answer."""
    legend: Sequence[Said] = ()
    """What its words mean."""
    sentences: Sequence[str] = ()
    parts: "Sequence[Part]" = ()
    assumptions: Sequence[str] = ()
    footnotes: Sequence[str] = ()
    """What readers of a kept answer are told: on pages and in Markdown."""
    warnings: Sequence[str] = ()
    scenario: Any = None
    """What was asked, as a scenario or the mapping of one; it is shown folded, as YAML."""


Part: TypeAlias = Lines | Bars | Rows | Steps | Entries | Charts | Text | Links | Studies | Section | Outline
