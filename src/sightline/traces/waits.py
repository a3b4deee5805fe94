"""Why a device does nothing: its input is late, the host launches too slowly, it was synchronized, or else."""

import re
from typing import NamedTuple

import numpy as np

from sightline.traces.activity import INPUT, Activity, Pieces
from sightline.traces.events import Flags, Kind, Trace
from sightline.traces.intervals import EMPTY, Intervals, between, holding, joined, merged, overlap

_SYNCHRONIZES = re.compile(
    r"(Stream|Device|Event|Ctx)Synchronize|^aten::(item|_local_scalar_dense|nonzero|is_nonzero|equal)$|"
    r"hipMemcpyWithStream|^(cuda|hip)Memcpy$"
)
QUIET_NS = 1_000_000
"""A host that launches nothing for longer than this does something else than launching."""
LAUNCH_NS = 20_000
"""A kernel begins at most this long after its launch, where nothing else holds it up."""


class Waits(NamedTuple):
    """Instants at which nothing runs on the device, by reason; together with none they may leave some unexplained."""

    input: Intervals
    synchronization: Intervals
    host: Intervals
    """The host launches nothing for long: it runs Python, allocates memory, or computes itself."""
    launches: Intervals


def waits_of(trace: Trace, activity: Activity, low: int, high: int) -> Waits:
    """Return the reasons of all gaps of a rank's device from ``low`` to ``high``."""
    loading = _chosen(trace, Kind.ANNOTATION, INPUT)
    busy = joined(*(one.intervals for one in _all(activity)), activity.overhead)
    gaps = between(busy, low, high)
    if not trace.has_device:
        quiet = _quiet(gaps)
        return Waits(loading, EMPTY, quiet, joined(gaps, activity.overhead))
    late, latency, after_sync = _late(trace, activity, gaps)
    return Waits(overlap(loading, late), after_sync, _quiet(late), joined(late, latency))


def slow_calls(trace: Trace, waits: Intervals) -> dict[str, int]:
    """Return nanoseconds of waits for the host by the call or operator that takes long in them.

    Calls of the driver, such as an allocation, say more than the operators around them.
    """
    events = trace.events
    found: dict[str, int] = {}
    for kind in (Kind.CALL, Kind.OPERATOR):
        long = (events.kind == kind) & (events.end - events.start > QUIET_NS)
        for name in np.unique(events.name[long]).tolist():
            own = long & (events.name == name)
            found[trace.names[name]] = overlap(merged(events.start[own], events.end[own]), waits).total
        if any(found.values()):
            break
    return {name: time_ns for name, time_ns in found.items() if time_ns}


def _all(activity: Activity) -> tuple[Pieces, ...]:
    return activity.compute, activity.communication, activity.to_device, activity.to_host


def _chosen(trace: Trace, kind: Kind, form: re.Pattern[str]) -> Intervals:
    events = trace.events
    chosen = (events.kind == kind) & trace.matching(form.search)
    return merged(events.start[chosen], events.end[chosen])


def _quiet(intervals: Intervals) -> Intervals:
    return intervals.where(intervals.end - intervals.start > QUIET_NS)


def _late(trace: Trace, activity: Activity, gaps: Intervals) -> tuple[Intervals, Intervals, Intervals]:
    """Of each gap the part before the next kernel's launch has ended, the short rest, and those that follow a wait.

    The host launched in time where the launch ended before the gap; a longer gap then waits for another stream.
    """
    pieces = [one for one in _all(activity) if len(one)]
    start = np.concatenate([one.start for one in pieces])
    order = np.argsort(start, kind="stable")
    launched = np.concatenate([one.launch_end for one in pieces])[order]
    place = np.searchsorted(start[order], gaps.end)
    is_last = place >= len(order)
    place = np.minimum(place, len(order) - 1)
    ready = np.where(is_last, gaps.end, np.where(launched[place] < 0, gaps.start, launched[place]))
    ready = np.clip(ready, gaps.start, gaps.end)
    late = Intervals(gaps.start, ready)
    rest = Intervals(ready, gaps.end)
    short = rest.end - rest.start <= LAUNCH_NS
    synchronized = _after_synchronization(trace, gaps) & ~is_last & (ready > gaps.start)
    return (
        merged(late.start, late.end),
        merged(rest.start[short], rest.end[short]),
        merged(late.start[synchronized], late.end[synchronized]),
    )


def _after_synchronization(trace: Trace, gaps: Intervals) -> Flags:
    """Which gaps begin while the host waits for the device: it has launched nothing to follow."""
    events = trace.events
    chosen = np.isin(events.kind, (Kind.CALL, Kind.OPERATOR)) & trace.matching(_SYNCHRONIZES.search)
    inside: Flags = holding(merged(events.start[chosen], events.end[chosen] + 1), gaps.start) >= 0
    return inside
