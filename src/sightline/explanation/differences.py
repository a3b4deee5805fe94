"""What two sides have in common: operators under common names, and how their scenarios differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

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


_LEFT_OUT = {"plan": ("data_parallel", "replicas")}
"""Degrees that follow from others."""


def unfair(a: Side, b: Side) -> Iterator[str]:
    """Yield a sentence for models, workloads or clusters that differ, and what is not known of a side."""
    for key in ("model", "cluster"):
        first, second = a.scenario.get(key), b.scenario.get(key)
        if first and second and _name(first) != _name(second):
            yield f"the {key}s differ: {_name(first)} and {_name(second)}"
        elif key == "model" and (found := differing(a.scenario, b.scenario, key)):
            yield f"the models differ: {_listed(found)}"
    if found := differing(a.scenario, b.scenario, "workload"):
        yield f"the workloads differ: {_listed(found)}"


def about(a: Side, b: Side) -> str:
    """Return how the plans differ; empty where they do not."""
    found = differing(a.scenario, b.scenario, "plan")
    return f"the plans differ: {_listed(found)}" if found else ""


def differing(a: Mapping[str, Any], b: Mapping[str, Any], part: str) -> dict[str, tuple[Any, Any]]:
    """Return the keys of a part of two scenarios that say different things; one that is left out says none."""
    first, second = a.get(part), b.get(part)
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return {}
    pairs = dict(_pairs(first, second))
    return {key: (x, y) for key, (x, y) in pairs.items() if x != y and key not in _LEFT_OUT.get(part, ())}


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Both sides' values by key; of a key under which both have a mapping those of its keys."""
    for key in dict.fromkeys([*first, *second]):
        x, y = first.get(key, "none"), second.get(key, "none")
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            yield from ((f"{key}.{inner}", pair) for inner, pair in _pairs(x, y))
        else:
            yield key, (x, y)


def _name(part: object) -> str:
    return str(part.get("name", "unnamed")) if isinstance(part, Mapping) else str(part)


def _listed(found: Mapping[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key} {_word(first)} and {_word(second)}" for key, (first, second) in found.items())


def _word(value: object) -> str:
    """A value in words; of a mapping its kind or first value, with the others behind it."""
    if isinstance(value, Mapping):
        name, *others = (f"{_word(said)}" if key == "kind" else f"{key} {_word(said)}" for key, said in value.items())
        return f"{name} ({', '.join(others)})" if others else name
    return " + ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
