"""What a device waits for: its host, other ranks, other stages."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sightline.traces.activity import Activity, Key, Pieces, loading_of
from sightline.traces.events import (
    EMPTY,
    Flags,
    Integers,
    Intervals,
    Kind,
    Trace,
    between,
    holding,
    joined,
    merged,
    overlap,
    upto,
)
from sightline.traces.nesting import PHASES, RECOMPUTE
from sightline.traces.step_edges import starting

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
    loading = loading_of(trace)
    busy = joined(*(work.intervals for work in _all(activity)), activity.overhead)
    gaps = between(busy, low, high)
    begins = starting(trace)
    if not trace.has_device:
        quiet = gaps.where(gaps.end - gaps.start > QUIET_NS)
        return Waits(loading, overlap(begins, gaps), EMPTY, quiet, joined(gaps, activity.overhead))
    late, latency, after_sync, elsewhere = _late(trace, activity, gaps)
    # What the host computes itself it would compute without synchronization too.
    updates = joined(*(trace.named(kind, ON_PROCESSOR) for kind in (Kind.OPERATOR, Kind.FRAME)))
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


def _late(trace: Trace, activity: Activity, gaps: Intervals) -> tuple[Intervals, Intervals, Intervals, Intervals]:
    """Of each gap the part before the next kernel's launch has ended, and the short rest.

    Then of the first parts those that follow a wait of the host for the device, and those in which the host does not
    launch back to back.
    The host launched in time where the launch ended before the gap; a longer gap then waits for another stream.
    """
    pieces = [work for work in _all(activity) if len(work)]
    start = np.concatenate([piece.start for piece in pieces])
    order = np.argsort(start, kind="stable")
    launched = np.concatenate([piece.launch_end for piece in pieces])[order]
    place = np.searchsorted(start[order], gaps.end)
    is_last = place >= len(order)
    place = np.minimum(place, len(order) - 1)
    ready = np.where(is_last, gaps.end, np.where(launched[place] < 0, gaps.start, launched[place]))
    ready = np.clip(ready, gaps.start, gaps.end)
    late = Intervals(gaps.start, ready)
    rest = Intervals(ready, gaps.end)
    short = rest.end - rest.start <= LAUNCH_NS
    # The host waits for the device where a gap begins: it has launched nothing to follow.
    waiting = trace.intervals(_synchronizes(trace), longer_ns=1)
    synchronized = (holding(waiting, gaps.start) >= 0) & ~is_last & (ready > gaps.start)
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
    ends = np.unique(np.concatenate([piece.launch_end for piece in pieces]))
    ends = ends[ends >= 0]
    if not len(ends):
        return np.full(len(instants), np.iinfo(np.int64).min // 2)
    place = np.searchsorted(ends, instants, side="left") - 1
    return np.where(place >= 0, ends[np.maximum(place, 0)], np.iinfo(np.int64).min // 2)


def _synchronizes(trace: Trace) -> Flags:
    called = np.isin(trace.events.kind, (Kind.CALL, Kind.OPERATOR))
    return np.asarray(called & trace.matching(_SYNCHRONIZES.search))


def host_synchronizes(trace: Trace, activity: Activity) -> Intervals:
    """Return the instants at which the thread that launches most waits for the device."""
    threads = np.concatenate([work.launch_thread for work in _all(activity)])
    threads = threads[threads >= 0]
    if not len(threads):
        return EMPTY
    busiest = int(np.argmax(np.bincount(threads)))
    return trace.intervals(_synchronizes(trace), busiest)


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
    by_members: dict[tuple[int, ...], list[tuple[Integers, Integers]]] = defaultdict(list)
    for (_, group), columns in sorted(_by_collective(traces, activities).items()):
        members = tuple(columns)
        same_number = len({len(start) for start, _ in columns.values()}) == 1
        if len(members) < 2 or not same_number or (not group and len(members) < ranks):
            continue
        start, end = (np.stack([columns[rank][place] for rank in members]) for place in (0, 1))
        kept = slice(None) if group or not traces[0].has_device else _together(start, end)
        by_members[members].append((start[:, kept], end[:, kept]))
    return _compared(traces, by_members)


def _together(start: Integers, end: Integers) -> Flags:
    own = end - _clocks(end)
    apart, shortest = own.max(axis=0) - own.min(axis=0), (end - start).min(axis=0)
    return np.asarray(apart <= np.maximum(_APART_NS, shortest // 10))


def _clocks(end: Integers) -> Integers:
    """By how much each member's clock is ahead of the first one's, of shape ``[members, 1]``."""
    return np.asarray(np.median(end - end[:1], axis=1).astype(np.int64)[:, None])


def _compared(
    traces: Sequence[Trace], by_members: Mapping[tuple[int, ...], Sequence[tuple[Integers, Integers]]]
) -> Matched:
    ranks, collectives = len(traces), 0
    waits: list[list[Intervals]] = [[] for _ in traces]
    behind, last = np.zeros(ranks), np.zeros(ranks, np.int64)
    for members, parts in by_members.items():
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
    times: dict[tuple[str, str], dict[int, tuple[Integers, Integers]]] = defaultdict(dict)
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
                times[ordered[number], trace.groups[group] if group >= 0 else ""][rank] = start, end
    return times


def _is_shared(key: Key) -> bool:
    """Whether all members of a group take part in a collective; calls of the host around one are left out."""
    is_call = key.name.startswith(("c10d", "record_param"))
    return not is_call and key.work.operator != "send-recv"


_ONE_WAY = re.compile(r"(?:nccl|rccl|gloo|c10d)::?_?i?(send|recv)", re.IGNORECASE)
_PEERS = re.compile(r"(\d+)(?:->|<-)(\d+)")
_SEND, _RECEIVE = frozenset({"send"}), frozenset({"recv"})

Way = tuple[str, str, Integers]
"""Direction, peer, and when such transfers are launched."""
Ways = dict[str, set[tuple[str, str]]]
"""Directions and peers of transfers by phase."""


def has_stages(traces: Sequence[Trace], activities: Sequence[Activity]) -> bool:
    """Return whether transfers of a job are those between the stages of a pipeline.

    The first stage only sends in the forward pass and only receives in the backward pass, and the last the other way
    round; a stage between them sends to one neighbor in the forward pass and to the other in the backward pass. An
    exchange in a ring, as context parallelism has it, does both at once and the same way in each pass. Where the trace
    tells no direction, or not the rank, nothing is claimed.
    """
    known = [pair for pair in zip(traces, activities, strict=True) if pair[0].rank is not None]
    return any(_is_edge(ways) or _is_between(ways) for ways in (_ways(*pair) for pair in known))


def _ways(trace: Trace, activity: Activity) -> Ways:
    """What is sent behind the kernels of each phase, and received before them, with the peer where it is named.

    Transfers of the backward pass are launched outside of autograd's engine, so the kernels next to them tell it.
    """
    ways: Ways = defaultdict(set)
    compute = activity.compute
    if not len(compute):
        return ways
    order = np.argsort(compute.launch_start, kind="stable")
    launched = compute.launch_start[order]
    phases = np.array([PHASES.index(key.phase) if key.phase in PHASES else 0 for key in activity.keys])
    phase = phases[compute.key[order]]
    # What runs again belongs to the backward pass of its micro-batch.
    phase[phase == RECOMPUTE] = PHASES.index("backward")
    for direction, peer, instants in list(_of_calls(trace)) or _of_kernels(activity):
        place = np.searchsorted(launched, instants)
        place = np.clip(place - (direction == "send"), 0, len(launched) - 1)
        for number in np.unique(phase[place]).tolist():
            ways[PHASES[number]].add((direction, peer))
    return ways


def _of_calls(trace: Trace) -> Iterator[Way]:
    """Transfers by the operators of the host, which name the peer also where one kernel runs a batch of them."""
    events = trace.events
    for name, direction in (("c10d::send", "send"), ("c10d::recv_", "recv")):
        chosen = (events.peer >= 0) & trace.matching(name.__eq__)
        for peer in np.unique(events.peer[chosen]).tolist():
            yield direction, str(peer), events.start[chosen & (events.peer == peer)]


def _of_kernels(activity: Activity) -> Iterator[Way]:
    """Transfers by their kernels, or annotations of the host, as far as their names tell direction and peer."""
    talk = activity.communication
    for number in np.unique(talk.key).tolist():
        key = activity.keys[number]
        if key.work.operator != "send-recv":
            continue
        way, peers = _ONE_WAY.search(key.by or key.name), _PEERS.search(key.by or key.name)
        yield way[1].lower() if way else "unknown", peers[2] if peers else "", talk.launch_start[talk.key == number]


def _is_edge(ways: Ways) -> bool:
    forward, backward = (frozenset(way for way, _ in ways[phase]) for phase in ("forward", "backward"))
    return {forward, backward} == {_SEND, _RECEIVE}


def _is_between(ways: Ways) -> bool:
    forward, backward = ({peer for way, peer in ways[phase] if way == "send"} for phase in ("forward", "backward"))
    return len(forward) == len(backward) == 1 and forward != backward
