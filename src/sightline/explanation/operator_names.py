"""Operators of a prediction and of a measurement under common names, as far as they can be told.

A prediction has an operator for what PyTorch does by several kernels: a norm is one row against a mean, a root and products.
"""

from collections.abc import Sequence
from dataclasses import replace

from sightline.explanation.side import Cell, Side

HOST = "host"
"""A measured module's time outside of its kernels."""


def under_common_names(a: Side, b: Side) -> tuple[Side, Side]:
    """Return both sides; where one is predicted and one measured, the measured one's kernels are named as predicted."""
    if a.is_measured == b.is_measured:
        return a, b
    if a.is_measured:
        return replace(a, cells=named_as(a.cells, b.cells)), b
    return a, replace(b, cells=named_as(b.cells, a.cells))


def named_as(measured: Sequence[Cell], predicted: Sequence[Cell]) -> list[Cell]:
    """Return ``measured`` with each module's kernels that the prediction does not name as what alone they can be.

    That is the one operator of the module that was predicted and that no measured row is called. Where it is the module's
    only one, what the host does around its kernels is part of it, as in its prediction.
    """
    known, called = _names(predicted), _names(measured)

    def renamed(cell: Cell) -> Cell:
        where = (cell.phase, cell.module)
        theirs = known.get(where, frozenset())
        missing = theirs - called[where]
        if cell.operator in theirs or len(missing) != 1 or (cell.operator == HOST and len(theirs) > 1):
            return cell
        return cell._replace(operator=next(iter(missing)))

    return [renamed(cell) for cell in measured]


def _names(cells: Sequence[Cell]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], frozenset[str]] = {}
    for cell in cells:
        where = (cell.phase, cell.module)
        found[where] = found.get(where, frozenset()) | {cell.operator}
    return found
