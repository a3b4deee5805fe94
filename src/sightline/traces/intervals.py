"""Sets of instants as arrays of starts and ends, in nanoseconds, so that sums are exact."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sightline.traces.events import Flags, Integers


class Intervals(NamedTuple):
    """Starts and ends, of shape ``[intervals]``."""

    start: Integers
    end: Integers

    @property
    def total(self) -> int:
        """Nanoseconds of all of them together."""
        return int((self.end - self.start).sum())

    def where(self, flags: Flags) -> "Intervals":
        """Return those at which a mask is true."""
        return Intervals(self.start[flags], self.end[flags])


EMPTY = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))


def merged(start: Integers, end: Integers) -> Intervals:
    """Return the same instants as intervals that neither overlap nor touch, in order."""
    kept = end > start
    start, end = start[kept], end[kept]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate(([True], start[1:] > reach[:-1]))
    return Intervals(start[begins], reach[np.concatenate((begins[1:], [True]))])


def joined(*several: Intervals) -> Intervals:
    """Return the instants of any of several sets."""
    return merged(np.concatenate([one.start for one in several]), np.concatenate([one.end for one in several]))


def holding(intervals: Intervals, instants: Integers) -> Integers:
    """Return for each instant the place of the disjoint interval that holds it, -1 where none does."""
    if not len(intervals.start):
        return np.full(len(instants), -1)
    place = np.searchsorted(intervals.start, instants, side="right") - 1
    return np.where((place >= 0) & (instants < intervals.end[np.maximum(place, 0)]), place, -1)


def between(intervals: Intervals, low: int, high: int) -> Intervals:
    """Return the gaps of disjoint intervals from ``low`` to ``high``."""
    start = np.concatenate(([low], intervals.end))
    end = np.concatenate((intervals.start, [high]))
    start, end = np.clip(start, low, high), np.clip(end, low, high)
    return Intervals(start, end).where(end > start)


def overlap(a: Intervals, b: Intervals) -> Intervals:
    """Return the instants of both of two disjoint sets."""
    if not len(a.start) or not len(b.start):
        return EMPTY
    edges, labels = painted([a, b], both=True)
    flags = labels == 1
    return merged(edges[:-1][flags], edges[1:][flags])


def painted(layers: Sequence[Intervals], *, both: bool = False) -> tuple[Integers, Integers]:
    """Return the edges of all layers, sorted, and for each stretch between two of them the first layer that covers it.

    A layer's intervals are disjoint. What no layer covers has the number of layers. With ``both`` a stretch is 1 where
    every layer covers it and 0 elsewhere.
    """
    edges = np.unique(np.concatenate([np.concatenate(layer) for layer in layers]))
    labels = np.full(max(len(edges) - 1, 0), len(layers))
    covered_by_all = np.ones(len(labels), bool)
    for place in range(len(layers) - 1, -1, -1):
        covered = _covered(layers[place], edges)
        labels[covered] = place
        covered_by_all &= covered
    return edges, covered_by_all.astype(np.int64) if both else labels


def _covered(layer: Intervals, edges: Integers) -> Flags:
    """Whether a disjoint layer covers each stretch between edges, which are its own and others'."""
    change = np.zeros(len(edges), np.int64)
    np.add.at(change, np.searchsorted(edges, layer.start), 1)
    np.add.at(change, np.searchsorted(edges, layer.end), -1)
    covered: Flags = np.cumsum(change)[:-1] > 0
    return covered


def upto(intervals: Intervals) -> tuple[Integers, Integers]:
    """Return edges of disjoint intervals, and how many of their nanoseconds lie before each."""
    if not len(intervals.start):
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    lengths = np.cumsum(intervals.end - intervals.start)
    edges = np.stack((intervals.start, intervals.end), axis=1).reshape(-1)
    return edges, np.stack((np.concatenate(([0], lengths[:-1])), lengths), axis=1).reshape(-1)


def own_parts(start: Integers, end: Integers) -> Intervals:
    """Return for each of some sorted intervals the part that no earlier one covers; it may be empty.

    The parts are disjoint and cover what all intervals cover together, since an earlier interval that reaches into a
    later one takes the later one's beginning.
    """
    if not len(start):
        return EMPTY
    reach = np.concatenate(([start[0]], np.maximum.accumulate(end)[:-1]))
    begin = np.maximum(start, reach)
    return Intervals(np.minimum(begin, np.maximum(end, begin)), np.maximum(end, begin))
