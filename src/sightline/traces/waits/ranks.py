"""Collectives of several ranks compared: who comes last makes the others wait."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sightline.traces.activity import Activity, Key
from sightline.traces.events import Flags, Integers, Trace
from sightline.traces.intervals import EMPTY, Intervals, joined, merged


class Matched(NamedTuple):
    """The same collectives of all ranks."""

    waits: Sequence[Intervals]
    """Of each rank the instants at which it is in a collective that another has not reached."""
    behind_s: Sequence[float]
    """Seconds by which each rank comes later than the mean of all, summed over collectives."""
    last: Sequence[int]
    """How often each rank came last."""
    collectives: int


_APART_NS = 50_000
"""Ends of one collective on several devices are at most this far apart, or a tenth of it."""


def matched(traces: Sequence[Trace], activities: Sequence[Activity]) -> Matched:
    """Return how ranks wait for each other, by the collectives that the members of a group have in the same number.

    Collectives are the same by name, process group and order. Where the trace names no group all ranks are its
    members, and collectives that do not end together are left out: they may be those of several groups.

    The clocks of machines differ. A collective ends at the same instant everywhere, so the median difference of ends
    is that of the clocks.
    """
    ranks = len(traces)
    found: dict[tuple[int, ...], list[tuple[Integers, Integers]]] = defaultdict(list)
    for (_, group), columns in sorted(_by_collective(traces, activities).items()):
        members = tuple(columns)
        same_number = len({len(start) for start, _ in columns.values()}) == 1
        if len(members) < 2 or not same_number or (not group and len(members) < ranks):
            continue
        start, end = (np.stack([columns[rank][place] for rank in members]) for place in (0, 1))
        kept = slice(None) if group or not traces[0].has_device else _together(start, end)
        found[members].append((start[:, kept], end[:, kept]))
    return _compared(traces, found)


def _together(start: Integers, end: Integers) -> Flags:
    own = end - _clocks(end)
    apart, shortest = own.max(axis=0) - own.min(axis=0), (end - start).min(axis=0)
    flags: Flags = apart <= np.maximum(_APART_NS, shortest // 10)
    return flags


def _clocks(end: Integers) -> Integers:
    """By how much each member's clock is ahead of the first one's, of shape ``[members, 1]``."""
    ahead: Integers = np.median(end - end[:1], axis=1).astype(np.int64)[:, None]
    return ahead


def _compared(traces: Sequence[Trace], found: Mapping[tuple[int, ...], Sequence[tuple[Integers, Integers]]]) -> Matched:
    ranks, collectives = len(traces), 0
    waits: list[list[Intervals]] = [[] for _ in traces]
    behind, last = np.zeros(ranks), np.zeros(ranks, np.int64)
    for members, parts in found.items():
        start, end = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
        if not start.shape[1]:
            continue
        clock = _clocks(end)
        arrival = start - clock
        until = np.minimum(arrival.max(axis=0) + clock, end)
        for place, rank in enumerate(members):
            origin = traces[rank].origin_ns
            waits[rank].append(merged(start[place] - origin, until[place] - origin))
        place_of = np.array(members)
        behind[place_of] += (arrival - arrival.mean(axis=0)).sum(axis=1) / 1e9
        last += np.bincount(place_of[arrival.argmax(axis=0)], minlength=ranks)
        collectives += start.shape[1]
    joined_waits = [joined(*several) if several else EMPTY for several in waits]
    return Matched(joined_waits, behind.tolist(), last.tolist(), collectives)


def _by_collective(
    traces: Sequence[Trace], activities: Sequence[Activity]
) -> dict[tuple[str, str], dict[int, tuple[Integers, Integers]]]:
    """Starts and ends on the ranks' clocks by name and group, then by rank; transfers between two ranks left out."""
    found: dict[tuple[str, str], dict[int, tuple[Integers, Integers]]] = defaultdict(dict)
    for rank, (trace, activity) in enumerate(zip(traces, activities, strict=True)):
        pieces = activity.communication
        names = [activity.keys[key].name if _is_shared(activity.keys[key]) else "" for key in range(len(activity.keys))]
        numbers = {name: number for number, name in enumerate(sorted(set(names)))}
        named = np.array([numbers[name] for name in names], np.int64)[pieces.key] if len(pieces) else pieces.key
        ordered = sorted(set(names))
        for number, group in sorted(set(zip(named.tolist(), pieces.group.tolist(), strict=True))):
            if ordered[number]:
                own = (named == number) & (pieces.group == group)
                start, end = pieces.start[own] + trace.origin_ns, pieces.end[own] + trace.origin_ns
                found[ordered[number], trace.groups[group] if group >= 0 else ""][rank] = start, end
    return found


def _is_shared(key: Key) -> bool:
    """Whether all members of a group take part in a collective; calls of the host around one are left out."""
    is_call = key.name.startswith(("c10d", "record_param"))
    return not is_call and key.work.operator != "send-recv"
