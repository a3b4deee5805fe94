"""Collectives of several ranks compared: who comes last makes the others wait."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sightline.traces.activity import Activity
from sightline.traces.events import Integers, Trace
from sightline.traces.intervals import EMPTY, Intervals, merged


class Matched(NamedTuple):
    """The same collectives of all ranks."""

    waits: Sequence[Intervals]
    """Of each rank the instants at which it is in a collective that another has not reached."""
    behind_s: Sequence[float]
    """Seconds by which each rank comes later than the mean of all, summed over collectives."""
    last: Sequence[int]
    """How often each rank came last."""
    collectives: int


def matched(traces: Sequence[Trace], activities: Sequence[Activity]) -> Matched:
    """Return how ranks wait for each other, by the collectives that all of them have in the same number.

    The clocks of machines differ. A collective ends at the same instant everywhere, so the median difference of ends
    is that of the clocks.
    """
    ranks = len(traces)
    parts: list[tuple[Integers, Integers]] = []
    for name in _common(activities):
        columns = [_of(activity, name, trace.origin_ns) for trace, activity in zip(traces, activities, strict=True)]
        if len({len(start) for start, _ in columns}) == 1 and len(columns[0][0]):
            parts.append((np.stack([c[0] for c in columns]), np.stack([c[1] for c in columns])))
    if ranks < 2 or not parts:
        return Matched([EMPTY] * ranks, [0.0] * ranks, [0] * ranks, 0)
    start, end = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
    clock = np.median(end - end[:1], axis=1).astype(np.int64)[:, None]
    arrival = start - clock
    until = np.minimum(arrival.max(axis=0) + clock, end)
    origin = [trace.origin_ns for trace in traces]
    waits = [merged(start[r] - origin[r], until[r] - origin[r]) for r in range(ranks)]
    late = arrival - arrival.mean(axis=0)
    last = np.bincount(arrival.argmax(axis=0), minlength=ranks)
    return Matched(waits, (late.sum(axis=1) / 1e9).tolist(), last.tolist(), start.shape[1])


def _common(activities: Sequence[Activity]) -> list[str]:
    """Names of collectives that all ranks have, those of transfers between two of them left out."""
    names = [{a.keys[k].name for k in np.unique(a.communication.key).tolist()} for a in activities]
    shared = set.intersection(*names) if names else set()
    return sorted(
        name
        for name in shared
        if not name.startswith(("c10d", "record_param")) and "endrecv" not in name.lower().replace("_", "")
    )


def _of(activity: Activity, name: str, origin: int) -> tuple[Integers, Integers]:
    pieces = activity.communication
    named = np.array([key.name == name for key in activity.keys], bool)[pieces.key]
    return pieces.start[named] + origin, pieces.end[named] + origin
