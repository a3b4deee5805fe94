"""One mesh of plans evaluated: priced once per row, added up in blocks that stay in a core's cache.

Rows of one number of pipeline stages are a group: its schedules are those that are valid for so many stages, so that
hardly any element of a block is no plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from sightline.planning.training.candidates import DIMENSIONS, Array, Axes
from sightline.planning.training.validity import Valid
from sightline.prediction.training.step_profile import Sums, Terms

Floats = NDArray[np.float64]
PLANS_PER_BLOCK = 1 << 14
"""128 KiB per array."""
Summands = tuple[Array, ...]
"""Arrays whose first dimension are rows; it is 1 where all rows have the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """The plans of one number of pipeline stages; arrays have rows, ZeRO stages, what is offloaded, and schedules."""

    rows: slice
    """Of the mesh."""
    schedules: Array
    """Positions on the axis of schedules."""
    step_s: Summands
    """Infinite where there is no valid plan."""
    energy_j: Summands
    peaks: tuple[Summands, ...]
    on_host: tuple[Summands, ...]

    @property
    def options(self) -> tuple[int, ...]:
        """Lengths of all dimensions but that of rows."""
        sums = (self.step_s, *self.peaks)
        return np.broadcast_shapes(*(term.shape[1:] for terms in sums for term in terms))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Some rows of a group with all their options, every plan evaluated."""

    group: Group
    start: int
    """The first of its rows."""
    step_s: Floats
    memory_bytes: Floats
    fits: NDArray[np.bool_]
    """Whether it is a valid plan that fits."""
    energy_j: Floats | None
    evaluated: int
    """Valid plans."""

    def column(self, name: str, axes: Axes) -> Array:
        """Return a field's value in each row."""
        first = self.group.rows.start + self.start
        return axes.rows[name][first : first + len(self.fits)]

    def along_axes(self, places: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Return where some places of the block lie along each axis of the mesh."""
        row, *options, schedule = np.unravel_index(places, self.fits.shape)
        return [self.group.rows.start + self.start + row, *options, self.group.schedules[schedule]]


def groups_of(valid: Valid, sums: Sums) -> Iterator[Group]:
    """Yield the plans of a mesh, whose rows are in the order of their numbers of stages, by these."""
    axes, stages = valid.axes, valid.axes.rows["pipeline_parallel"]
    borders = [0, *(np.flatnonzero(np.diff(stages)) + 1), len(stages)]
    for start, end in pairwise(borders):
        rows = slice(int(start), int(end))
        schedules = valid.schedules[rows] if len(valid.schedules) > 1 else valid.schedules
        there = np.broadcast_to(schedules.any(axis=tuple(range(schedules.ndim - 1))), axes.shape[-1:])
        (kept,) = np.nonzero(there)
        if not len(kept):
            continue

        def parts(terms: Terms, rows: slice = rows, kept: Array = kept) -> Summands:
            return tuple(_part(np.asarray(term), rows, kept) for term in terms)

        yield Group(
            rows=rows,
            schedules=kept,
            step_s=tuple(_masked(parts(sums.step_s), parts((valid.states, valid.schedules, *valid.rest)))),
            energy_j=parts(sums.energy_j),
            peaks=_fewer([parts(terms) for terms in sums.peaks]),
            on_host=_fewer([parts(terms) for terms in sums.on_host]),
        )


def _part(array: Array, rows: slice, schedules: Array) -> Array:
    """The rows and schedules of an array; where all have the same, one."""
    if array.ndim == 0:
        return array.reshape((1,) * DIMENSIONS)
    if len(array) > 1:
        array = array[rows]
    return array[..., schedules] if array.shape[-1] > 1 else array


def _masked(terms: Summands, masks: Sequence[Array]) -> Iterator[Array]:
    """Summands that are infinite where a mask says that there is no plan, each mask in a summand that it fits."""
    left = list(masks)
    for term in terms:
        fitting = [mask for mask in left if np.broadcast_shapes(mask.shape, term.shape) == term.shape]
        left = [mask for mask in left if not any(mask is one for one in fitting)]
        yield reduce(lambda array, mask: np.where(mask, array, np.inf), fitting, term)
    yield from (np.where(mask, 0.0, np.inf) for mask in left if not mask.all())


def _fewer(sums: Sequence[Summands]) -> tuple[Summands, ...]:
    """Return sums with the same largest one: all but the largest summand added up, those of one summand compared."""
    several: list[Summands] = []
    alone: list[Array] = []
    for terms in sums:
        *small, large = sorted(terms, key=np.size)
        rest = sum(small[1:], small[0]) if small else None
        if rest is None or rest.size >= large.size:
            alone.append(large if rest is None else large + rest)
        else:
            several.append((rest, large))
    return (*several, *([(reduce(np.maximum, alone),)] if alone else []))


def blocks_of(group: Group, device_bytes: float, host_bytes: float, plans: int = PLANS_PER_BLOCK) -> Iterator[Block]:
    """Yield all plans of a group, block by block.

    A plan may take ``device_bytes`` of a device, and ``host_bytes`` of a host.
    """
    options, count = group.options, group.rows.stop - group.rows.start
    step = max(1, plans // prod(options))
    hosts = group.on_host if any(_most(terms) > host_bytes for terms in group.on_host) else ()
    for start in range(0, count, step):
        here = slice(start, start + step)
        shape = (min(step, count - start), *options)
        step_s, memory = _sum(group.step_s, here, shape), _largest(group.peaks, here, shape)
        valid = np.isfinite(step_s)
        fits = memory <= device_bytes
        fits &= valid
        if hosts:
            fits &= _largest(hosts, here, shape) <= host_bytes
        yield Block(
            group=group,
            start=start,
            step_s=step_s,
            memory_bytes=memory,
            fits=fits,
            energy_j=_sum(group.energy_j, here, shape) if group.energy_j else None,
            evaluated=int(np.count_nonzero(valid)),
        )


def _most(terms: Summands) -> float:
    return sum(float(term.max()) for term in terms)


def _sum(terms: Summands, here: slice, shape: tuple[int, ...]) -> Floats:
    return _add([_of(term, here) for term in terms], np.empty(shape))


def _largest(sums: Sequence[Summands], here: slice, shape: tuple[int, ...]) -> Floats:
    out = _sum(sums[0], here, shape)
    scratch = np.empty(shape)
    for terms in sums[1:]:
        parts = [_of(term, here) for term in terms]
        np.maximum(out, parts[0] if len(parts) == 1 else _add(parts, scratch), out=out)
    return out


def _of(term: Array, here: slice) -> Array:
    return term[here] if term.shape[0] > 1 else term


def _add(parts: Sequence[Array], out: Floats) -> Floats:
    np.add(parts[0], parts[1] if len(parts) > 1 else 0.0, out=out)
    for part in parts[2:]:
        np.add(out, part, out=out)
    return out
