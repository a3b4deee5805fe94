"""Why a device does nothing: its input is late, the host launches too slowly, it was synchronized, or else."""

import re
from typing import NamedTuple

import numpy as np

from sightline.traces.activity import INPUT, Activity, Pieces
from sightline.traces.events import Flags, Integers, Kind, Trace
from sightline.traces.intervals import EMPTY, Intervals, between, holding, joined, merged, overlap, upto
from sightline.traces.starting import starting

_SYNCHRONIZES = re.compile(
    r"(Stream|Device|Event|Ctx)Synchronize|^aten::(item|_local_scalar_dense|nonzero|is_nonzero|equal)$|"
    r"hipMemcpyWithStream|^(cuda|hip)Memcpy$"
)
ON_PROCESSOR = re.compile("CPUAdam|cpu_adam|CPUAdagrad|CPULion|CPUOffloadOptimizer|HybridDeviceOptimizer")
"""Operators of optimizers that update on the processor, which DeepSpeed, Megatron and torchao have."""
QUIET_NS = 1_000_000
"""Without a device, a host that calls no operator for longer than this does something else than calling them."""
EACH_NS = 100_000
"""A host that launches back to back needs at most this for a launch: 5 to 50 us, twice that while it is profiled."""
LAUNCH_NS = 20_000
"""A kernel begins at most this long after its launch, where nothing else holds it up."""


class Waits(NamedTuple):
    """Instants at which nothing runs on the device, by reason; together with none they may leave some unexplained."""

    input: Intervals
    starting: Intervals
    """The host compiles, loads kernels or sets libraries up."""
    synchronization: Intervals
    host: Intervals
    """The host launches nothing for longer than a launch takes: it runs Python, allocates, or computes itself."""
    launches: Intervals


def waits_of(trace: Trace, activity: Activity, low: int, high: int) -> Waits:
    """Return the reasons of all gaps of a rank's device from ``low`` to ``high``."""
    loading = _chosen(trace, Kind.ANNOTATION, INPUT)
    busy = joined(*(one.intervals for one in _all(activity)), activity.overhead)
    gaps = between(busy, low, high)
    begins = starting(trace)
    if not trace.has_device:
        quiet = _quiet(gaps)
        return Waits(loading, overlap(begins, gaps), EMPTY, quiet, joined(gaps, activity.overhead))
    late, latency, after_sync, elsewhere = _late(trace, activity, gaps)
    # What the host computes itself it would compute without synchronization too.
    updates = joined(_chosen(trace, Kind.OPERATOR, ON_PROCESSOR), _chosen(trace, Kind.FRAME, ON_PROCESSOR))
    return Waits(
        overlap(loading, late),
        overlap(begins, late),
        overlap(after_sync, between(updates, low, high)),
        joined(elsewhere, overlap(updates, late)),
        joined(late, latency),
    )


def slow_calls(trace: Trace, waits: Intervals) -> dict[str, int]:
    """Return nanoseconds of waits for the host by the call or operator that takes long in them.

    Calls of the driver, such as an allocation, say more than the operators around them, and those more than frames of
    Python, of which only those that lie in a wait mostly are asked: others stand around everything.
    """
    events = trace.events
    waiting, edges = trace.matching(_SYNCHRONIZES.search), upto(waits)
    least = EACH_NS if trace.has_device else QUIET_NS
    for kind in (Kind.CALL, Kind.OPERATOR, Kind.FRAME):
        long = np.flatnonzero((events.kind == kind) & (events.end - events.start > least) & ~waiting)
        inside = np.interp(events.end[long], *edges) - np.interp(events.start[long], *edges)
        total = np.bincount(events.name[long], weights=inside, minlength=len(trace.names))
        took = np.bincount(events.name[long], weights=(events.end - events.start)[long], minlength=len(trace.names))
        kept = np.flatnonzero(total > (0.5 * took if kind == Kind.FRAME else 0.0))
        if len(kept):
            return {trace.names[name]: round(float(total[name])) for name in kept.tolist()}
    return {}


def _all(activity: Activity) -> tuple[Pieces, ...]:
    return activity.compute, activity.communication, activity.to_device, activity.to_host


def _chosen(trace: Trace, kind: Kind, form: re.Pattern[str]) -> Intervals:
    events = trace.events
    chosen = (events.kind == kind) & trace.matching(form.search)
    return merged(events.start[chosen], events.end[chosen])


def _quiet(intervals: Intervals) -> Intervals:
    return intervals.where(intervals.end - intervals.start > QUIET_NS)


def _late(trace: Trace, activity: Activity, gaps: Intervals) -> tuple[Intervals, Intervals, Intervals, Intervals]:
    """Of each gap the part before the next kernel's launch has ended, and the short rest.

    Then of the first parts those that follow a wait of the host for the device, and those in which the host does not
    launch back to back.
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
    before = _launch_before(pieces, ready)
    away = (ready - np.maximum(before, gaps.start) > LAUNCH_NS) & (ready - before > EACH_NS) & (ready > gaps.start)
    return (
        merged(late.start, late.end),
        merged(rest.start[short], rest.end[short]),
        merged(late.start[synchronized], late.end[synchronized]),
        merged(late.start[away], late.end[away]),
    )


def _launch_before(pieces: list[Pieces], instants: Integers) -> Integers:
    """When the last launch ended before each instant at which another one ends."""
    ends = np.unique(np.concatenate([one.launch_end for one in pieces]))
    ends = ends[ends >= 0]
    if not len(ends):
        return np.full(len(instants), np.iinfo(np.int64).min // 2)
    place = np.searchsorted(ends, instants, side="left") - 1
    return np.where(place >= 0, ends[np.maximum(place, 0)], np.iinfo(np.int64).min // 2)


def _after_synchronization(trace: Trace, gaps: Intervals) -> Flags:
    """Which gaps begin while the host waits for the device: it has launched nothing to follow."""
    events, chosen = trace.events, _synchronizes(trace)
    inside: Flags = holding(merged(events.start[chosen], events.end[chosen] + 1), gaps.start) >= 0
    return inside


def _synchronizes(trace: Trace) -> Flags:
    called = np.isin(trace.events.kind, (Kind.CALL, Kind.OPERATOR))
    found: Flags = called & trace.matching(_SYNCHRONIZES.search)
    return found


def host_synchronizes(trace: Trace, activity: Activity) -> Intervals:
    """Return the instants at which the thread that launches most waits for the device."""
    threads = np.concatenate([one.launch_thread for one in _all(activity)])
    threads = threads[threads >= 0]
    if not len(threads):
        return EMPTY
    busiest = int(np.argmax(np.bincount(threads)))
    chosen = _synchronizes(trace) & (trace.events.thread == busiest)
    return merged(trace.events.start[chosen], trace.events.end[chosen])
