"""The events of one trace as columns, sorted once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Kind(IntEnum):
    """What an event is, as far as an explanation tells events apart."""

    OPERATOR = 0
    """PyTorch's operator on the host."""
    ANNOTATION = 1
    """A range that the user, or PyTorch itself, put around code: ``ProfilerStep#3``, ``Optimizer.step#AdamW.step``."""
    CALL = 2
    """A call of the device's runtime or driver: a launch, a copy, a synchronization."""
    KERNEL = 3
    COPY = 4
    FILL = 5
    """A memset."""
    FRAME = 6
    """A Python function or module."""
    DEVICE_ANNOTATION = 7


KINDS: Mapping[str, Kind] = {
    "cpu_op": Kind.OPERATOR,
    "operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "cuda_runtime": Kind.CALL,
    "cuda_driver": Kind.CALL,
    "hip_runtime": Kind.CALL,
    "xpu_runtime": Kind.CALL,
    "mtia_runtime": Kind.CALL,
    "privateuse1_runtime": Kind.CALL,
    "privateuse1_driver": Kind.CALL,
    "runtime": Kind.CALL,
    "kernel": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "memcpy": Kind.COPY,
    "gpu_memset": Kind.FILL,
    "memset": Kind.FILL,
    "python_function": Kind.FRAME,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION,
}
"""Categories of events by the names that Kineto has given them, in lower case."""
NOT_WORK: Mapping[str, str] = {
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "fwdbwd", "external_correlation"), "arrows between other events"),
    **dict.fromkeys(("overhead", "trace", "cuda_profiler_range", "gpu_pm_counter"), "the profiler itself"),
    **dict.fromkeys(("cuda_sync", "cuda_event", "xpu_sync"), "waits, which the calls show"),
    **dict.fromkeys(("cpu_instant_event", "collective_comm"), "marks on other events"),
}
"""Categories whose events are no work of their own, and what they are."""
ON_DEVICE = (Kind.KERNEL, Kind.COPY, Kind.FILL)
NONE = -1
"""In a column of identifiers: the event has none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Events:
    """Complete events, sorted by start, the longer of two first. Columns have shape ``[events]``."""

    kind: Integers
    """A `Kind`."""
    name: Integers
    """Place in ``names``."""
    start: Integers
    """Nanoseconds since ``Trace.origin_ns``."""
    end: Integers
    thread: Integers
    """Process and thread of the host, or device and stream, as one number."""
    device: Integers
    """Which device an event runs on; -1 on the host."""
    correlation: Integers
    """Ties a launch to its kernel; -1 without one."""
    external: Integers
    """Ties a kernel to its operator; -1 without one."""
    sequence: Integers
    """Ties an operator of the backward pass to the forward one; -1 without one."""
    forward_thread: Integers
    """Above 0 for operators of a backward pass."""
    size: Integers
    """Bytes of a copy, elements of a collective's message; -1 unknown."""
    group: Integers
    """Place in ``Trace.groups`` of a collective's process group; -1 unknown."""
    peer: Integers
    """Rank that an operator of the host sends to or receives from; -1 unknown."""
    operands: Integers
    """Place in ``Trace.operands`` of what an operator was called with; -1 unknown."""

    def __len__(self) -> int:
        return len(self.start)

    def where(self, flags: Flags) -> "Events":
        """Return the events at which a mask is true, in the same order."""
        return Events(**{column: getattr(self, column)[flags] for column in COLUMNS})


COLUMNS = tuple(Events.__dataclass_fields__)


class Operands(NamedTuple):
    """What an operator was called with, as ``record_shapes`` writes it: one of each for every argument."""

    shapes: Sequence[Any]
    """Sizes of a tensor, empty for anything else; of a list of tensors those of each."""
    types: Sequence[str]
    """``c10::BFloat16``, ``float``, ``Scalar``, ...; shorter than ``shapes`` where the trace does not say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """One rank's trace."""

    path: str
    names: Sequence[str]
    events: Events
    origin_ns: int
    """Nanoseconds of the earliest event since the clock's zero, for comparing ranks."""
    rank: int | None
    world_size: int | None
    device_name: str
    device_memory_bytes: int | None
    operands: Sequence[Operands] = ()
    groups: Sequence[str] = ()
    """Process groups of collectives: name and ranks."""
    warnings: Sequence[str] = ()
    is_predicted: bool = False
    """Whether Sightline wrote it, as the timeline of a prediction."""
    is_cut: bool = False
    """Whether its file ends in the middle, so that events are missing."""
    impossible: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """When kernels begin that are left out because they cannot be."""
    launches: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """When the host launches kernels, as far as it is known of which."""
    dropped: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """When those launches begin of which no kernel is recorded."""

    @property
    def has_device(self) -> bool:
        """Whether a device other than the processor worked."""
        return bool(np.isin(self.events.kind, ON_DEVICE).any())

    @property
    def lacks_kernels(self) -> bool:
        """Whether the host launches kernels of which none is recorded."""
        launches = (self.events.kind == Kind.CALL) & self.matching(lambda name: "LaunchKernel" in name)
        return bool(launches.any()) and not self.has_device

    def matching(self, test: Any) -> Flags:
        """Return for each event whether its name passes a test, which is asked once per name."""
        passed = np.fromiter((bool(test(name)) for name in self.names), bool, len(self.names))
        return np.asarray(passed[self.events.name] if len(self.names) else np.zeros(0, bool))

    def intervals(self, flags: Flags, thread: int | None = None, longer_ns: int = 0) -> "Intervals":
        """Return the instants of the events at which a mask is true, or of those on a thread; each a little longer."""
        events = self.events
        flags = flags if thread is None else flags & (events.thread == thread)
        return merged(events.start[flags], events.end[flags] + longer_ns)

    def named(self, kind: Kind, form: re.Pattern[str]) -> "Intervals":
        """Return the instants of the events of a kind whose names an expression finds."""
        return self.intervals((self.events.kind == kind) & self.matching(form.search))


class Intervals(NamedTuple):
    """Starts and ends, of shape ``[intervals]``."""

    start: Integers
    end: Integers

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
    return merged(
        np.concatenate([intervals.start for intervals in several]),
        np.concatenate([intervals.end for intervals in several]),
    )


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
    return np.asarray(np.cumsum(change)[:-1] > 0)


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
