"""What one rank's device does and when: kernels and collectives, each with the operator that it belongs to."""

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.traces.events import EMPTY, Events, Flags, Integers, Intervals, Kind, Trace, holding, merged
from sightline.traces.nesting import (
    PHASES,
    RECOMPUTE,
    Nesting,
    attention_core,
    innermost,
    modules_of,
    nested,
    outermost,
    own_stretches,
    phases_of,
    phases_on_device,
    placed,
)
from sightline.traces.operator_names import UNMATCHED, Work, communication_of, is_host_communication, work_of
from sightline.traces.shapes import batches_of, flops_of, traffic_of, traffic_on_host
from sightline.traces.step_edges import launching_calls

INPUT = re.compile(
    r"^enumerate\((DataLoader|DataPipe)\)#|DataLoader.*__next__|dataloader_next|^(## ?)?((wait[ _]for|load|copy|get|"
    r"fetch|next|prepare)[ _](next[ _])?(batch|data|inputs?)|data[ _-]?load(er|ing)?|batch[ _-]generator)\b",
    re.IGNORECASE,
)
_READS = re.compile(
    r"(data_?loader|datapipe|webdataset|streaming/)[^(]*\(\d+\): (__next__|_next_data|_get_data|_try_get_data)$|"
    r"(^|/)(queues?|connection)\.py\(\d+\): (get|recv|recv_bytes|poll|wait)$|"
    r"^<built-in method (poll|select|recv|recv_into|read|readinto|pread)\b"
)
"""Frames of Python in which a thread waits for data from others, or from files."""
SMALL_NS = 20_000
"""An operator of the host that takes less spends its time on being called."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """Stretches of work, sorted by start."""

    start: Integers
    end: Integers
    key: Integers
    """Place in ``Activity.keys``."""
    launch_start: Integers
    """When the host's call began; -1 unknown."""
    launch_end: Integers
    launch_thread: Integers
    size: Integers
    """Bytes of a copy, elements of a collective; -1 unknown."""
    operator: Integers
    """Place in the events of the operator that it is of; -1 unknown."""
    flops: Integers
    """Of matrix products whose shapes were recorded; 0 otherwise."""
    bytes: NDArray[np.float64]
    """That it reads and writes; NaN unknown, 0 of all but the first kernel of an operator."""
    group: Integers
    """Place in the trace's process groups; -1 unknown."""
    name: Integers
    """Place of its event's name in the trace's names."""
    begins: Integers
    """1 where a kernel or operator begins, 0 where one goes on after what it called."""

    def __len__(self) -> int:
        return len(self.start)

    def where(self, chosen: Flags | Integers) -> "Pieces":
        """Return those at which a mask is true, or those at some places."""
        return Pieces(**{name: getattr(self, name)[chosen] for name in Pieces.__dataclass_fields__})

    @property
    def intervals(self) -> Intervals:
        """The instants of any of them."""
        return merged(self.start, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a piece of work is called in tables."""

    phase: str
    work: Work
    name: str
    """Of the kernel or the operator."""
    by: str = ""
    """The operator that launched it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """What a device does."""

    keys: list[Key]
    compute: Pieces
    communication: Pieces
    to_device: Pieces
    to_host: Pieces
    launched: Integers
    """When each kernel begins; without a device, when each operator does that no other calls."""
    overhead: Intervals = EMPTY
    """Without a device: instants at which the host only calls small operators."""
    pageable_s: float = 0.0
    """Seconds of copies to the device out of memory that is not pinned."""


def activity_of(trace: Trace) -> Activity:
    """Return what the busiest device of a trace does; without one what the host's operators do."""
    operators = trace.events.kind == Kind.OPERATOR
    if not trace.has_device:
        return _on_host(trace, nested(trace.events, operators))
    calls = (trace.events.kind == Kind.ANNOTATION) & trace.matching(is_host_communication)
    return _on_device(trace, nested(trace.events, operators | calls))


def _on_device(trace: Trace, nesting: Nesting) -> Activity:
    events = trace.events
    chosen = np.flatnonzero(events.device == _busiest(events))
    calls = launching_calls(trace)[chosen]
    known = calls >= 0
    start, thread = (np.where(known, column[np.maximum(calls, 0)], -1) for column in (events.start, events.thread))
    end = np.where(known, events.end[np.maximum(calls, 0)], -1)
    operator = _operators(events, nesting, chosen, thread, start)
    start, end, thread = _launches(events, operator, (start, end, thread))
    phase = np.where(thread >= 0, phases_of(trace, thread, start), phases_on_device(trace, chosen))
    module = modules_of(trace, nesting, np.where(phase == RECOMPUTE, -1, operator), thread, start)
    keys, key = _keys(trace, (phase, module), operator, events.name[chosen])
    pieces = Pieces(
        start=events.start[chosen],
        end=events.end[chosen],
        key=key,
        launch_start=start,
        launch_end=end,
        launch_thread=thread,
        size=events.size[chosen],
        operator=operator,
        flops=flops_of(trace, operator),
        bytes=traffic_of(trace, operator, chosen),
        group=events.group[chosen],
        name=events.name[chosen],
        begins=np.ones(len(chosen), np.int64),
    )
    names = np.array([trace.names[n] for n in events.name[chosen]], object)
    copies = events.kind[chosen] == Kind.COPY
    to_device, to_host = (copies & np.array([way in n for n in names], bool) for way in ("HtoD", "DtoH"))
    communicates = np.array([work_key.work.bound == "network" for work_key in keys], bool)[key] if len(key) else copies
    pageable = to_device & np.array(["ageable" in n for n in names], bool)
    return Activity(
        keys=attention_core(keys, key, pieces.launch_start, batches_of(trace, operator)),
        compute=pieces.where(~communicates & ~to_device & ~to_host),
        communication=pieces.where(communicates),
        to_device=pieces.where(to_device),
        to_host=pieces.where(to_host),
        launched=pieces.start,
        pageable_s=float((pieces.end - pieces.start)[pageable].sum()) / 1e9,
    )


def _busiest(events: Events) -> int:
    """The device that works longest."""
    there = events.device >= 0
    numbers, place = np.unique(events.device[there], return_inverse=True)
    busy = np.bincount(place, weights=(events.end - events.start)[there])
    return int(numbers[int(np.argmax(busy))])


def _operators(events: Events, nesting: Nesting, chosen: Integers, thread: Integers, start: Integers) -> Integers:
    """The operator that launched each event of a device: by its external id, else the one that ran at the launch."""
    by_launch = innermost(events, nesting, thread, start)
    order = nesting.order[events.external[nesting.order] >= 0]
    order = order[np.argsort(events.external[order], kind="stable")]
    wanted = events.external[chosen]
    if not len(order):
        return by_launch
    place = order[np.minimum(np.searchsorted(events.external[order], wanted), len(order) - 1)]
    # Old traces write a correlation where the external id should be, which may be that of another operator.
    tied = (events.external[place] == wanted) & (wanted >= 0) & (wanted != events.correlation[chosen])
    return np.where(by_launch >= 0, by_launch, np.where(tied, place, -1))


def _launches(events: Events, operator: Integers, of: tuple[Integers, Integers, Integers]) -> tuple[Integers, ...]:
    """Launches whose call is not in the trace take their operator's start for it."""
    missing = (of[0] < 0) & (operator >= 0)
    place = np.maximum(operator, 0)
    columns = (events.start, events.start, events.thread)
    return tuple(np.where(missing, column[place], known) for column, known in zip(columns, of, strict=True))


def _keys(
    trace: Trace, place: tuple[Integers, Integers], operator: Integers, kernel: Integers | None
) -> tuple[list[Key], Integers]:
    """Every distinct phase, module, operator and kernel, and which one each piece of work is."""
    names = [*trace.names, ""]
    called = np.where(operator >= 0, trace.events.name[np.maximum(operator, 0)], -1)
    columns = np.stack((*place, called, kernel if kernel is not None else np.full(len(called), -1)), axis=1)
    distinct, key = np.unique(columns, axis=0, return_inverse=True)
    keys = []
    for phase, module, of_operator, of_kernel in distinct.tolist():
        own, on_device = names[of_operator], names[of_kernel]
        work = placed(work_of(own, on_device), module, PHASES[phase])
        keys.append(Key(phase=PHASES[phase], work=work, name=on_device or own, by=own))
    return keys, np.asarray(key, np.int64).reshape(-1)


def _on_host(trace: Trace, nesting: Nesting) -> Activity:
    """Without a device, each thread's operators work in the stretches in which none of their callees does."""
    events = trace.events
    start, end, owner = own_stretches(events, nesting)
    names = events.name[nesting.order]
    is_own = np.array([n.startswith("aten::") for n in trace.names], bool)[names] if len(names) else np.zeros(0, bool)
    talks = np.array([is_host_communication(n) for n in trace.names], bool)
    top = outermost(nesting, is_own)
    talking = (outermost(nesting, talks[names]) >= 0) if len(names) else is_own
    waits = loading_of(trace)
    kept = ~talking[owner] & (holding(waits, start) < 0)
    start, end, owner = start[kept], end[kept], owner[kept]
    called = nesting.order[np.where(top[owner] >= 0, top[owner], owner)]
    small = (top[owner] < 0) | (events.end[called] - events.start[called] < SMALL_NS)
    order = np.argsort(start, kind="stable")
    working = order[~small[order]]
    thread = events.thread[nesting.order[owner]]
    named = _named(trace, nesting, owner, top)
    # An operator begins where the one before it ends, so only the middle of a stretch lies in what it is of.
    phase = phases_of(trace, thread, (start + end) // 2)
    module = modules_of(trace, nesting, np.where(phase == RECOMPUTE, -1, named), thread, start)
    keys, key = _keys(trace, (phase, module), named, None)
    begins = (events.start[named] == start).astype(np.int64)
    pieces = replace(
        _pieces(start, end, key, thread),
        begins=begins,
        operator=named,
        flops=flops_of(trace, named) * begins,
        bytes=np.where(begins, traffic_on_host(trace, nesting, named), 0.0),
    )
    return Activity(
        keys=attention_core(keys, key, start, batches_of(trace, named)),
        compute=pieces.where(working),
        communication=_collectives(trace, keys),
        to_device=pieces.where(order[:0]),
        to_host=pieces.where(order[:0]),
        launched=events.start[nesting.order[np.flatnonzero(is_own & (top == np.arange(len(top))))]],
        overhead=merged(start[small], end[small]),
    )


def _named(trace: Trace, nesting: Nesting, owner: Integers, top: Integers) -> Integers:
    """The operator that names a stretch: the innermost one, or the outermost where that is a view or a copy."""
    own = nesting.order[owner]
    above = nesting.order[np.where(top[owner] >= 0, top[owner], owner)]
    vague = np.array([work_of(n, "").module in ("views", "copies", "fills", UNMATCHED) for n in trace.names], bool)
    return np.where(vague[trace.events.name[own]], above, own)


def loading_of(trace: Trace) -> Intervals:
    """Return the instants at which a loader is asked for the next batch, or the host's busiest thread reads data."""
    events = trace.events
    threads, calls = np.unique(events.thread[np.isin(events.kind, (Kind.OPERATOR, Kind.CALL))], return_counts=True)
    loads = (events.kind == Kind.ANNOTATION) & trace.matching(INPUT.search)
    if len(threads):
        # Threads of a loader wait for the next batch all the time.
        own = (events.kind == Kind.FRAME) & (events.thread == threads[np.argmax(calls)])
        loads |= own & trace.matching(_READS.search)
    return trace.intervals(loads)


def _pieces(start: Integers, end: Integers, key: Integers, thread: Integers) -> Pieces:
    none = np.full(len(start), -1)
    return Pieces(
        start=start,
        end=end,
        key=key,
        launch_start=start,
        launch_end=start,
        launch_thread=thread,
        size=none,
        operator=none,
        flops=np.zeros(len(start), np.int64),
        bytes=np.full(len(start), np.nan),
        group=none,
        name=none,
        begins=none * none,
    )


def _collectives(trace: Trace, keys: list[Key]) -> Pieces:
    """Collectives of the host; where the transfer itself has an annotation, calls that wait for it count as well."""
    events = trace.events
    host = np.isin(events.kind, (Kind.OPERATOR, Kind.ANNOTATION))
    chosen = np.flatnonzero(host & trace.matching(is_host_communication))
    numbers: dict[int, int] = {}
    for name in np.unique(events.name[chosen]).tolist():
        numbers[name] = len(keys)
        text = trace.names[name]
        keys.append(Key(phase="communication", work=communication_of(text), name=text))
    key = np.array([numbers[name] for name in events.name[chosen].tolist()], np.int64)
    collectives = _pieces(events.start[chosen], events.end[chosen], key, events.thread[chosen])
    return replace(collectives, size=events.size[chosen], group=events.group[chosen])
