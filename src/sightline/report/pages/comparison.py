"""The report of a comparison of two profiles: the verdict, the chart, and the rows level by level."""

from collections.abc import Iterator

from sightline.explanation.compared import LEVELS
from sightline.explanation.comparison import Comparison
from sightline.report import comparison as words
from sightline.report import pieces
from sightline.report.document import document
from sightline.report.pages.charts import charts_piece
from sightline.report.pieces import FAINT, Piece, Said

COLUMNS = ("", "A", "B", "B / A", "80 % interval", "B is")
_MOST_ROWS = 400
"""Rows of one level; more are in the JSON and CSV of the command."""


def comparison_page(comparison: Comparison, *, command: str = "") -> str:
    """Return the report of a comparison as one page; ``command`` asked for it."""
    return document(title_of(comparison), comparison_piece(comparison), command=command)


def title_of(comparison: Comparison) -> str:
    """Return the title of a page on a comparison."""
    return f"{comparison.a.name} vs {comparison.b.name}"


def comparison_piece(comparison: Comparison, *, level: int = 1) -> Piece:
    """Return what stands on the page of a comparison; ``level`` is that of its title."""
    lines = list(short_answer(comparison))
    said = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    return pieces.joined(
        pieces.headline(title_of(comparison), level),
        pieces.short_answer(lines),
        pieces.paragraphs(filter(None, (comparison.about, comparison.requests))),
        pieces.warned(comparison.warnings),
        charts_piece(comparison, said),
        *(
            pieces.section(words.LEVEL_TITLES[level].capitalize(), _rows(comparison, level))
            for level in LEVELS
            if any(row.level == level for row in comparison.rows)
        ),
        pieces.paragraphs([words.footnote(comparison)], FAINT),
        _scenarios(comparison),
    )


def short_answer(comparison: Comparison) -> Iterator[Said]:
    """Yield both sides, which is faster, and how far the key figures are apart."""
    yield Said(asks="A", says=words.side_line(comparison.a))
    yield Said(asks="B", says=words.side_line(comparison.b))
    if comparison.faster is not None:
        yield Said(asks="faster", says=comparison.faster.sentence)
    for row in [row for row in comparison.rows if row.level == "step"][:3]:
        a, b, ratio, _ = words.figures(row)
        apart = f"{a} vs {b}" + (f", B / A {ratio}" if ratio else "")
        yield Said(asks=words.label(row), says=f"{apart}: {words.verdict(row)}")


def rows_of(comparison: Comparison, level: str) -> list[tuple[str, ...]]:
    """Return the cells of a level's rows under `COLUMNS`."""
    rows = (row for row in comparison.rows if row.level == level)
    return [(words.label(row), *words.figures(row), words.verdict(row)) for row in rows]


def _rows(comparison: Comparison, level: str) -> str:
    cells = rows_of(comparison, level)
    right = (False, True, True, True, True, False)
    found = pieces.table(COLUMNS, cells[:_MOST_ROWS], label=words.LEVEL_TITLES[level], numbers=right)
    more = [f"{len(cells) - _MOST_ROWS:,} more; use --csv"] if len(cells) > _MOST_ROWS else []
    return found + pieces.paragraphs(more, FAINT)


def _scenarios(comparison: Comparison) -> Piece:
    import yaml

    def shown(letter: str, mapping: object) -> Piece:
        text = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True, width=100)
        return pieces.folded(f"The scenario of {letter}", pieces.text(text, f"scenario of {letter}"))

    sides = (("A", comparison.a), ("B", comparison.b))
    return pieces.joined(*(shown(letter, dict(side.scenario)) for letter, side in sides if side.scenario))
