"""What predictions of each combination rest on, in every form: a line per choice of a few names, counts of many."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from sightline.answers.outline import Outline, Rows, Said
from sightline.validation.coverage_cells import STATUSES, TABLES, Cell

TITLE = "Evidence behind predictions"
MEANINGS: Mapping[str, str] = {
    "calibrated": "constants fitted to measurements of this case",
    "extrapolated": "constants of a related case: another device, other sizes or formats, or too few measurements",
    "datasheet-only": "no measurement: datasheet values and averages over devices",
    "unsupported": "not supported",
}
"""Of each status."""
NAMES: Mapping[str, tuple[str, str, str]] = {
    "operators": ("Devices and operators", "device", "operator"),
    "techniques": ("Frameworks and techniques", "framework", "technique"),
    "features": ("Engines and features", "engine", "feature"),
}
"""Of each table: its title, and what its rows are of."""
_FEW = 4
"""Devices, frameworks and engines up to which every choice is listed."""
_MOST_ROWS = 500
"""Rows of a table in Markdown."""


def coverage_outline(cells: Sequence[Cell]) -> Outline:
    """Return what the words mean, and the tables."""
    tables = list(_tables(cells))
    shown = {heading for table in tables for heading in table.headings}
    numbers = [Said(asks=what, says=meaning) for heading, (what, meaning) in NUMBERS.items() if heading in shown]
    return Outline(
        title=TITLE,
        legend=[*(Said(asks=status, says=meaning) for status, meaning in MEANINGS.items()), *numbers],
        parts=tables,
        footnotes=[_ASKED],
    )


_ASKED = (
    "Every cell is the result of one small scenario (see the JSON). Other sizes and plans may have weaker "
    "evidence; every prediction reports its own."
)


def _tables(cells: Sequence[Cell]) -> Iterator[Rows]:
    """A table of each kind: every choice of a few names, or counts of many."""
    for table in TABLES:
        title, of, what = NAMES[table]
        by_name: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.table == table:
                by_name.setdefault(cell.of, []).append(cell)
        if len(by_name) > _FEW:
            counts = [(name, *_counts(own)) for name, own in by_name.items()]
            yield Rows(title=title, headings=(of, *STATUSES), rows=counts, most=_MOST_ROWS)
            continue
        for name, own in by_name.items():
            is_of_operators = table == "operators"
            headings = _OF_OPERATORS if is_of_operators else _OF_CHOICES
            rows = list(_by_format(own)) if is_of_operators else list(map(_choice, own))
            named = f"{name}: {what}s"
            yield Rows(title=named, headings=(what, *headings), rows=rows, numbers=False, most=_MOST_ROWS)


_PUBLISHED = "published cases (sources)"
_OF_OPERATORS = ("status", "formats", "why")
_OF_CHOICES = ("status", _PUBLISHED, "why")


NUMBERS: Mapping[str, tuple[str, str]] = {
    _PUBLISHED: (_PUBLISHED, "978 (9) means 978 published cases from 9 sources; a dash means none"),
    STATUSES[0]: ("numbers", "operators per format, techniques or features with this status"),
}
"""By a heading of a table: what its numbers are called, and what they are."""


def _counts(cells: Sequence[Cell]) -> Iterator[str]:
    """How many cells have each status."""
    found = [cell.status for cell in cells]
    return (str(found.count(status)) for status in STATUSES)


def _by_format(cells: Sequence[Cell]) -> Iterator[Sequence[str]]:
    """The formats of each operator by status and what keeps them from a better one; the operator's name once."""
    for what, of_operator in groupby(cells, key=lambda cell: cell.what):
        formats: dict[tuple[str, str], list[str]] = {}
        for cell in of_operator:
            formats.setdefault((cell.status, cell.why), []).append(cell.dtype)
        name = what
        for status, why in sorted(formats, key=lambda one: STATUSES.index(one[0])):
            yield name, status, ", ".join(formats[status, why]), why
            name = ""


def _choice(cell: Cell) -> Sequence[str]:
    return cell.what, cell.status, _published_cases(cell), cell.why


def _published_cases(cell: Cell) -> str:
    """How many published cases use a technique or feature, and of how many sources; a dash for none."""
    of = cell.published
    return f"{of.cases:,} ({of.sources})" if of is not None and of.cases else "-"
