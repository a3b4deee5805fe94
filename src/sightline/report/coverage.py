"""What predictions of each combination rest on, in every form: a line per choice of a few names, counts of many."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from sightline.profile.results import stamped
from sightline.report import pieces
from sightline.report.csv_lines import csv_text
from sightline.report.document import document
from sightline.report.markdown.text import Answer, Rows, markdown
from sightline.report.pieces import FAINT, Piece, Said
from sightline.report.terminal.parts import plain_table
from sightline.validation.coverage.cell import STATUSES, TABLES, Cell

TITLE = "What predictions rest on"
MEANINGS: Mapping[str, str] = {
    "calibrated": "constants are fitted to measurements of this case",
    "extrapolated": "constants are those of a relative, of other sizes or formats, or of too few measurements",
    "datasheet-only": "nobody measured it: datasheet figures and means over devices",
    "unsupported": "a scenario with it is refused",
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


def coverage_to_dict(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return every cell under the documented keys."""
    return stamped({"coverage": [_flat(cell) | {"scenario": cell.question} for cell in cells]})


def coverage_to_csv(cells: Sequence[Cell]) -> str:
    """Return a line per cell."""
    return csv_text([_flat(cell) for cell in cells])


def _flat(cell: Cell) -> dict[str, Any]:
    keys = ("table", "of", "what", "dtype", "status", "evidence", "why")
    published = cell.published
    counts = (None, None) if published is None else (published.cases, published.sources)
    return {key: getattr(cell, key) for key in keys} | dict(zip(("cases", "sources"), counts, strict=True))


def coverage_tables(cells: Sequence[Cell]) -> Iterator[Table | str]:
    """Yield a table of each kind for the terminal, and what the words mean."""
    for title, headings, rows in listed(cells):
        yield plain_table(headings, rows=rows, title=title)
        yield "\n"
    yield "\n".join(f"{status}: {meaning}" for status, meaning in MEANINGS.items()) + "\n"


def coverage_page(cells: Sequence[Cell], *, command: str = "") -> str:
    """Return the report as one page."""
    return document(TITLE, pieces.joined(pieces.headline(TITLE), coverage_piece(cells)), command=command)


def coverage_piece(cells: Sequence[Cell]) -> Piece:
    """Return what stands on a page about cells: what the words mean, and the tables."""
    tables = (
        pieces.section(title, pieces.table(headings, rows, label=title)) for title, headings, rows in listed(cells)
    )
    said = [Said(asks=status, says=meaning) for status, meaning in MEANINGS.items()]
    return pieces.joined(pieces.short_answer(said), *tables, pieces.paragraphs([_ASKED], FAINT))


def coverage_markdown(cells: Sequence[Cell], *, command: str = "") -> str:
    """Return the same as Markdown."""
    return markdown(
        Answer(
            title=TITLE,
            said=[Said(asks=status, says=meaning) for status, meaning in MEANINGS.items()],
            tables=[Rows(title=title, headings=head, rows=rows, most=500) for title, head, rows in listed(cells)],
            sentences=[_ASKED],
            command=command,
        )
    )


_ASKED = (
    "Every cell is the answer to a small scenario, which the JSON has. Other sizes and plans may rest on less: every "
    "prediction states its own evidence."
)


def listed(cells: Sequence[Cell]) -> Iterator[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Yield title, headings and rows of each table: every choice of a few names, or counts of many."""
    for table in TABLES:
        title, of, what = NAMES[table]
        by_name: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.table == table:
                by_name.setdefault(cell.of, []).append(cell)
        if len(by_name) > _FEW:
            yield title, (of, *STATUSES), [(name, *_counts(own)) for name, own in by_name.items()]
            continue
        for name, own in by_name.items():
            if table == "operators":
                yield f"{name}: {what}s", (what, "status", "formats"), list(_by_format(own))
            else:
                yield f"{name}: {what}s", (what, "status", "published cases (sources)", "why"), list(map(_choice, own))


def _counts(cells: Sequence[Cell]) -> Iterator[str]:
    """How many cells have each status."""
    found = [cell.status for cell in cells]
    return (str(found.count(status)) for status in STATUSES)


def _by_format(cells: Sequence[Cell]) -> Iterator[Sequence[str]]:
    """The formats of each operator by status; the name of an operator once."""
    for what in dict.fromkeys(cell.what for cell in cells):
        name = what
        for status in STATUSES:
            formats = [cell.dtype for cell in cells if (cell.what, cell.status) == (what, status)]
            if formats:
                yield name, status, ", ".join(formats)
                name = ""


def _choice(cell: Cell) -> Sequence[str]:
    return cell.what, cell.status, published_cases(cell), cell.why


def published_cases(cell: Cell) -> str:
    """Return how many published cases use a technique or feature, and of how many sources; a dash for none."""
    of = cell.published
    return f"{of.cases:,} ({of.sources})" if of is not None and of.cases else "-"
