"""Where the time goes, to unfold: each phase, in it its modules, in these their operators."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from sightline.explanation.answer import Explanation
from sightline.profile import Row
from sightline.report import pieces, summary, units
from sightline.report.pieces import Piece

_MOST_MODULES, _MOST_OPERATORS = 24, 40
"""Of a phase and of a module; what is left out takes the least, and is in the CSV of the command."""


def drill(explanation: Explanation, *, level: int = 2) -> Piece:
    """Return the exposed time by phase, module and operator; ``level`` is that of the heading."""
    whole = explanation.whole_s or 1.0
    found = _grouped(explanation.rows, lambda row: row.phase)
    return pieces.section(
        "Time by phase, module and operator",
        *(_folded(_named(phase), rows, whole, _modules(rows, whole)) for phase, rows in found),
        level=level,
    )


def _modules(rows: Sequence[Row], whole_s: float) -> Iterator[Piece]:
    for module, own in _grouped(rows, lambda row: row.module)[:_MOST_MODULES]:
        yield _folded(module, own, whole_s, [pieces.joined(_operators(own, module, whole_s))])


def _operators(rows: Sequence[Row], module: str, whole_s: float) -> str:
    found = _grouped(rows, lambda row: row.operator)[:_MOST_OPERATORS]
    cells = [
        (operator, units.seconds(took := seconds(own)), units.percent(took / whole_s), own[0].bound or summary.NOTHING)
        for operator, own in found
    ]
    right = (False, True, True, False)
    return pieces.table(("operator", "time", "share", "bound by"), cells, label=f"operators of {module}", numbers=right)


def seconds(rows: Iterable[Row]) -> float:
    """Return what rows add to the whole."""
    return sum(float(row.exposed_s) for row in rows)


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> list[tuple[str, list[Row]]]:
    """Rows that take time by what they share, longest first."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        if float(row.exposed_s) > 0:
            by.setdefault(key(row), []).append(row)
    return sorted(by.items(), key=lambda item: -seconds(item[1]))


def _folded(name: str, rows: Sequence[Row], whole_s: float, parts: Iterable[Piece]) -> Piece:
    took = seconds(rows)
    return pieces.folded(f"{name}: {units.seconds(took)}, {units.percent(took / whole_s)}", *parts)


def _named(phase: str) -> str:
    return summary.LABELS.get(phase, phase)
