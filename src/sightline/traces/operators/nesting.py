"""What calls what on the host: the operators of a thread nest, and each has instants of its own."""

from dataclasses import dataclass

import numpy as np

from sightline.traces.events import Events, Flags, Integers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nesting:
    """Operators of all threads, by thread and then by start."""

    order: Integers
    """Places of the operators in the events."""
    parent: Integers
    """Place in ``order`` of the operator around each; -1 for the outermost."""
    first: dict[int, tuple[int, int]]
    """Of each thread the range of its operators in ``order``."""


def nested(events: Events, chosen: Flags) -> Nesting:
    """Return how the chosen events nest on their threads."""
    places = np.flatnonzero(chosen)
    order = places[np.argsort(events.thread[places], kind="stable")]
    threads = events.thread[order]
    edges = np.flatnonzero(np.concatenate(([True], threads[1:] != threads[:-1]))) if len(order) else order
    ranges = list(zip(edges.tolist(), [*edges[1:].tolist(), len(order)], strict=True)) if len(order) else []
    ends, starts, parent = events.end[order].tolist(), events.start[order].tolist(), [-1] * len(order)
    for low, high in ranges:
        stack: list[int] = []
        for place in range(low, high):
            while stack and ends[stack[-1]] <= starts[place]:
                stack.pop()
            parent[place] = stack[-1] if stack else -1
            stack.append(place)
    first = {int(threads[low]): (low, high) for low, high in ranges}
    return Nesting(order=order, parent=np.array(parent, np.int64), first=first)


def innermost(events: Events, nesting: Nesting, threads: Integers, instants: Integers) -> Integers:
    """Return the operator that a thread runs at each instant, as a place in the events; -1 where it runs none."""
    found = np.full(len(instants), -1)
    for thread, (low, high) in nesting.first.items():
        here = np.flatnonzero(threads == thread)
        if not len(here):
            continue
        start = events.start[nesting.order[low:high]]
        place = np.searchsorted(start, instants[here], side="right") - 1 + low
        place = np.where(place >= low, place, -1)
        while len(late := np.flatnonzero((place >= 0) & (events.end[nesting.order[place]] < instants[here]))):
            place[late] = nesting.parent[place[late]]
        found[here] = np.where(place >= 0, nesting.order[place], -1)
    return found


def nearest(nesting: Nesting, accepted: Flags) -> Integers:
    """Return for each operator the innermost one around it, or itself, that is accepted; -1 where none is."""
    found = np.where(accepted, np.arange(len(accepted)), -1).tolist()
    for place, parent in enumerate(nesting.parent.tolist()):
        # Those around an operator stand before it.
        if found[place] < 0 <= parent:
            found[place] = found[parent]
    return np.array(found, np.int64)


def outermost(nesting: Nesting, accepted: Flags) -> Integers:
    """Return for each operator the outermost one around it, or itself, that is accepted; -1 where none is.

    Args:
        nesting: Operators.
        accepted: For each place of ``order`` whether it counts.
    """
    result = np.where(accepted, np.arange(len(accepted)), -1)
    above = nesting.parent.copy()
    while (alive := above >= 0).any():
        here = np.flatnonzero(alive)
        result[here] = np.where(accepted[above[here]], above[here], result[here])
        above[here] = nesting.parent[above[here]]
    return result


def own_stretches(events: Events, nesting: Nesting) -> tuple[Integers, Integers, Integers]:
    """Return starts, ends and owners (places in ``order``) of the stretches in which an operator runs, and none inside.

    Operators of one thread nest, so between two edges of its operators the last one that began is at work.
    """
    parts: list[tuple[Integers, Integers, Integers]] = []
    for low, high in nesting.first.values():
        order = nesting.order[low:high]
        edges = np.unique(np.concatenate((events.start[order], events.end[order])))
        begin, end = edges[:-1], edges[1:]
        place = np.searchsorted(events.start[order], begin, side="right") - 1 + low
        while len(late := np.flatnonzero((place >= 0) & (events.end[nesting.order[place]] <= begin))):
            place[late] = nesting.parent[place[late]]
        kept = place >= 0
        parts.append((begin[kept], end[kept], place[kept]))
    if not parts:
        none = np.zeros(0, np.int64)
        return none, none, none
    start, end, owner = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return start, end, owner
