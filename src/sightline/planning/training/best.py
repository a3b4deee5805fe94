"""The best of many plans while they are evaluated: the first by one figure, or the Pareto-optimal ones of two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sightline.planning.ranking import Floats, dominated, front_of
from sightline.planning.training.candidates import Axes, Choice
from sightline.planning.training.mesh import Block

Places = NDArray[np.intp]


class Candidate(NamedTuple):
    """A plan that was evaluated: its fields, and the figures by which it was chosen."""

    fields: Mapping[str, Any]
    keys: tuple[float, ...]
    memory_bytes: float = np.nan
    """Of its fullest device."""


class Keeper(Protocol):
    """Takes blocks of plans and keeps the good ones."""

    @property
    def limit(self) -> float:
        """What a plan's only figure has to be below to be kept; infinite where there are several."""

    def take(self, block: Block, axes: Axes, choice: Choice) -> None:
        """Look at the plans of a block that fit."""

    def kept(self) -> list[Candidate]:
        """Return the plans that are kept, the best first."""


class Figures(Protocol):
    """Makes the figures of a block's plans that are to be small."""

    def __call__(self, block: Block, axes: Axes) -> tuple[Floats, ...]:
        """Return the figures."""


def leading(keys: Floats, memory: Floats, sure_bytes: float, count: int) -> Places:
    """Where the first plans are, those within ``sure_bytes`` before tight ones; the smallest key is among them.

    Of equal ones the earliest, so that a search in parts keeps the same.
    """
    order: Places = np.lexsort((keys, memory > sure_bytes))
    smallest = int(np.argmin(keys))
    return order[:count] if smallest in order[:count] else np.append(order[: count - 1], smallest)


@dataclass(slots=True, kw_only=True, eq=False)
class First:
    """The plans with the smallest figure that surely fit, then tight ones; the smallest of all is among them."""

    figure: Figures
    count: int
    sure_bytes: float = np.inf
    """Bytes of a device beyond which a plan is tight."""
    _found: list[tuple[Floats, Floats, list[Mapping[str, Any]]]] = field(default_factory=list)
    """Figures, bytes and fields of plans, some at a time."""
    limit: float = np.inf
    """What a plan's figure has to be below to be kept; infinite while there is room, or tight plans take it."""

    def take(self, block: Block, axes: Axes, choice: Choice) -> None:
        """Keep a block's plans that are among the first so far."""
        (keys,) = self.figure(block, axes)
        places = np.flatnonzero(block.fits & (keys < self.limit))
        if not len(places):
            return
        found = np.broadcast_to(keys, block.fits.shape).ravel()[places]
        memory = np.broadcast_to(block.memory_bytes, block.fits.shape)[np.unravel_index(places, block.fits.shape)]
        if len(places) > self.count:
            first = leading(found, memory, self.sure_bytes, self.count)
            places, found, memory = places[first], found[first], memory[first]
        self._found.append((found, memory, fields_at(axes, choice, block.along_axes(places))))
        self._cut()

    def _cut(self) -> None:
        """Keep the first alone once there are several times as many."""
        if sum(len(keys) for keys, *_ in self._found) < 2 * self.count and np.isfinite(self.limit):
            return
        first = self.kept()
        self.limit = min(self.limit, self.limit_of(first))
        keys, memory = (np.array([one.keys[0] for one in first]), np.array([one.memory_bytes for one in first]))
        self._found = [(keys, memory, [one.fields for one in first])]

    def limit_of(self, kept: Sequence[Candidate]) -> float:
        """Return what a figure has to be below to be among those that are kept."""
        sure = [one.keys[0] for one in kept if not one.memory_bytes > self.sure_bytes]
        is_full = len(kept) == self.count and len(sure) >= self.count - 1
        return float(np.nextafter(max(sure), np.inf)) if is_full and sure else np.inf

    def kept(self) -> list[Candidate]:
        """Return the first plans in order."""
        if not self._found:
            return []
        keys, memory = (np.concatenate([found[i] for found in self._found]) for i in range(2))
        plans = [fields for *_, several in self._found for fields in several]
        order = leading(keys, memory, self.sure_bytes, self.count)
        return [Candidate(plans[i], (float(keys[i]),), float(memory[i])) for i in order]


SAMPLED = 4
"""Plans of a block of which a front keeps the figures, so that a chart shows what lies behind it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Front:
    """The Pareto-optimal plans of two figures."""

    figure: Figures
    limit: float = np.inf
    sampled: list[tuple[float, float]] = field(default_factory=list)
    """The figures of some plans of each block."""
    _keys: Floats = field(default_factory=lambda: np.empty((2, 0)))
    _plans: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, block: Block, axes: Axes, choice: Choice) -> None:
        """Keep what of a block lies on the front."""
        places = np.flatnonzero(block.fits)
        keys = np.array(
            [np.broadcast_to(figure, block.fits.shape).ravel()[places] for figure in self.figure(block, axes)]
        )
        self.sampled += map(tuple, keys[:, :: max(1, keys.shape[1] // SAMPLED)].T.tolist())
        ahead = ~dominated(keys, self._keys)
        places, keys = places[ahead], keys[:, ahead]
        on_front = front_of(keys)
        places, keys = places[on_front], keys[:, on_front]
        if not len(places):
            return
        stays = ~dominated(self._keys, keys)
        plans = [plan for plan, is_left in zip(self._plans, stays, strict=True) if is_left]
        self._plans = [*plans, *fields_at(axes, choice, block.along_axes(places))]
        self._keys = np.concatenate([self._keys[:, stays], keys], axis=1)

    def kept(self) -> list[Candidate]:
        """Return the front in the order of the first figure."""
        order = np.argsort(self._keys[0], kind="stable")
        return [Candidate(self._plans[i], tuple(map(float, self._keys[:, i]))) for i in order]


def fields_at(axes: Axes, choice: Choice, places: Sequence[Places]) -> list[Mapping[str, Any]]:
    """Return the plan fields at some places of a mesh, by their positions along each axis."""
    row, zero, *offload, schedule = places
    columns = {name: column[row] for name, column in axes.rows.items()}
    parts = list(axes.offload.items())
    found: list[Mapping[str, Any]] = []
    for i in range(len(row)):
        name, virtual = axes.schedules[schedule[i]]
        found.append(
            {
                **{field: int(column[i]) for field, column in columns.items()},
                "sequence_parallel": bool(columns["sequence_parallel"][i]),
                "zero_stage": int(axes.zero_stage[zero[i]]),
                "offload": frozenset(
                    part for (part, there), place in zip(parts, offload, strict=True) if there[place[i]]
                ),
                "schedule": name,
                "virtual_stages": virtual,
                **{field: getattr(choice, field) for field in ("recompute", "attention", "compile")},
            }
        )
    return found
