"""The scenarios of a study that are read one by one: every combination of what is no number."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

from sightline.errors import InputError
from sightline.exploration.own.asked.axes import Axis
from sightline.loading.checks import Complaints, with_value
from sightline.loading.loader import Asked, is_impossible
from sightline.scenario.space import Space


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One combination."""

    values: Mapping[str, Any]
    """Of each axis that is no number, mappings by their names."""
    mapping: Mapping[str, Any]
    """The scenario's."""


@dataclass(slots=True, kw_only=True, eq=False)
class Reasons:
    """Why points are not there, counted."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, sentence: str, count: int = 1) -> None:
        """Count points for a sentence."""
        self.counts[sentence] += count


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """No scenario: why a cell cannot be."""

    reason: str


NO_PLAN: Final = "search finds no plan that the rules allow; `sightline plan` of the base says why"
"""The reason of points for which a search has none, whatever their device."""
Open: TypeAlias = "Asked | Space[Any]"
"""A scenario, or what is searched of one."""
Read: TypeAlias = "Open | Impossible"
"""What a cell asks for, or why there is nothing."""


def cells(base: Mapping[str, Any], axes: Sequence[Axis]) -> Iterator[Cell]:
    """Yield the base with every combination of the axes' values, the last axis fastest."""
    keys, names = [axis.key for axis in axes], [axis.named for axis in axes]
    for places in product(*(range(len(axis.values)) for axis in axes)):
        mapping = dict(base)
        # Shorter keys first: a device's name before one of its numbers.
        for axis, place in sorted(zip(axes, places, strict=True), key=lambda one: one[0].key.count(".")):
            mapping = with_value(mapping, axis.key, axis.values[place])
        values = [of[place] for of, place in zip(names, places, strict=True)]
        yield Cell(values=dict(zip(keys, values, strict=True)), mapping=mapping)


def loaded(cell: Cell, numbers: Sequence[Axis], folder: Path, complaints: Complaints, *, free: bool) -> "Read | None":
    """Return the scenario of a cell, or why it cannot be; mistakes are noted, and None returned.

    Plans and workloads that are arrays are read with their first values that are possible together: degrees that are
    stated with them need fit no other. ``free`` leaves the search's fields open.
    """
    reason = ""
    for mapping in _with_first(cell.mapping, numbers):
        try:
            return _read(mapping, folder, free=free)
        except InputError as error:
            if not is_impossible(error):
                complaints.add(*error.problems)
                return None
            reason = reason or error.problems[0]
    return Impossible(reason=reason)


_MOST_TRIED = 256
"""Combinations of plans among which a possible one is looked for."""


def _with_first(mapping: Mapping[str, Any], numbers: Sequence[Axis]) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping with values of the axes of plan and workload, which a loader has to find possible."""
    below = [axis for axis in numbers if not axis.key.startswith("cluster.") and not axis.is_multiple]
    for tried, values in enumerate(product(*(axis.values for axis in below))):
        if tried >= _MOST_TRIED:
            return
        one = dict(mapping)
        for axis, value in zip(below, values, strict=True):
            one = with_value(one, axis.key, value)
        yield one


def _read(mapping: Mapping[str, Any], folder: Path, *, free: bool) -> Open:
    if free:
        from sightline.loading.spaces import spaces_of

        spaces = spaces_of(mapping, folder)
        if len(spaces) > 1:
            raise InputError("base restricts a field to several values outside the search; allowed: axes, or search")
        return spaces[0]
    from sightline.loading.loader import read_scenario

    return read_scenario(mapping, folder)
