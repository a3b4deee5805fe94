"""The report of a validation: how far to trust predictions, suite by suite and case by case."""

from collections.abc import Iterator, Sequence

from sightline.report import pieces
from sightline.report.document import document
from sightline.report.pages.charts import charts_piece
from sightline.report.pieces import FAINT, Piece, Said
from sightline.report.terminal import accuracy
from sightline.validation import Result

COLUMNS = ("suite", "quantity", "part", "cases", "mean error", "median", "p90", "max", "bias", "inside", "half-width")
TITLE = "Predicted and measured"
_MOST_CASES = 300
"""Cases of one part of a suite; more are in the JSON of the command."""


def validation_page(results: Sequence[Result], *, cases: bool = False, command: str = "") -> str:
    """Return the report of a validation as one page.

    Args:
        results: A result for each part of each suite.
        cases: Whether every case is shown, folded.
        command: The command that asked for it.
    """
    return document(TITLE, validation_piece(results, cases=cases), command=command)


def validation_piece(results: Sequence[Result], *, cases: bool = False, level: int = 1) -> Piece:
    """Return what stands on the page of a validation, under a heading of some ``level``."""
    lines = list(short_answer(results))
    said = "; ".join(f"{line.asks}: {line.says}" for line in lines)
    return pieces.joined(
        pieces.headline(TITLE, level),
        pieces.short_answer(lines),
        charts_piece(results, said),
        *(
            pieces.section(
                f"Suites of {kind}", pieces.table(COLUMNS, rows_of(found), label=f"suites of {kind}", numbers=_RIGHT)
            )
            for kind, found in _by_kind(results)
        ),
        pieces.paragraphs([FOOTNOTE], FAINT),
        pieces.section("Cases", *map(_cases, results)) if cases else "",
    )


_RIGHT = [False, False, False, *(True for _ in COLUMNS[3:])]
FOOTNOTE = (
    "Errors are relative to the measured value. A bias above 0 means that predictions are too high. `inside` is "
    "the share of 80 % intervals that contain the measured value, `half-width` their median half-width. Constants were "
    "fitted to part `fit`; part `test` was held out."
)


def short_answer(results: Sequence[Result]) -> Iterator[Said]:
    """Yield, for each kind of suite, how many cases there are and the mean and largest error of its suites."""
    for kind, found in _by_kind(results):
        errors = [one.mape for one in found if one.mape is not None]
        if errors:
            cases = sum(one.cases for one in found)
            mean = f"mean error {100 * min(errors):.1f} to {100 * max(errors):.1f} % by suite"
            yield Said(asks=kind, says=f"{cases:,} cases in {len(found)} parts of suites: {mean}")


def rows_of(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return the cells of each result under `COLUMNS`."""
    return [(one.suite, accuracy.quantity_name(one.quantity), *accuracy.error_cells(one)) for one in results]


def _by_kind(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for kind, suites in accuracy.by_kind(results).items():
        yield kind, [result for parts in suites.values() for result in parts]


def _cases(result: Result) -> Piece:
    rows = [accuracy.case_cells(answer) for answer in result.answers[:_MOST_CASES]]
    title = f"{result.suite}, {result.split}: {accuracy.quantity_name(result.quantity)}"
    return pieces.folded(title, pieces.table(("case", "measured", "predicted", "error"), rows, label=title))
