"""The steps of a trace: stretches that follow each other, from one ``ProfilerStep`` to the next."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sightline.quantities import counted
from sightline.traces.events import ON_DEVICE, Flags, Integers, Intervals, Kind, Trace

_COMPILES = (
    r"dynamo_timed|_dynamo[/.].*(_compile|convert_frame)|CompiledFxGraph|compile_fx|_inductor[/.].*compile|"
    r"^inductor_compile|triton[/.].*compil|hiprtc|nvrtc"
)
_LOADS = (
    r"^(cu|cuda|hip)(Module|Library)(Load|Get)|^cuInit|^cuDevicePrimaryCtx|^(nccl|rccl)CommInit|"
    r"^(cublas|cublasLt|cudnn)Create"
)
_STARTS = re.compile(f"{_COMPILES}|{_LOADS}")
_FIRST_USE = re.compile(f"{_COMPILES}|{_LOADS}|^(cuda|hip)(Malloc|HostAlloc|MallocAsync)$")
"""A first step fills the caching allocator too; in later ones an allocation is a fault of its own."""
_CHEAP = re.compile(
    r"^(cuda|hip)(LaunchKernel|ModuleLaunchKernel|FuncGetAttributes|FuncSetAttribute|StreamCreate|StreamIsCapturing|"
    r"DeviceGetStreamPriorityRange|GetDevice|EventCreate|Free$)|^cuLaunchKernel|^(cuda|hip)Occupancy"
)
_CHEAP_NS = 1_000_000
"""A cheap call that takes longer than this, while the device does nothing, loads a kernel or sets the device up."""
_REGION = re.compile("^Torch-Compiled Region")
_REGION_NS = 500_000_000
"""A compiled region that takes this long while the device does nothing is compiled first."""
_HOST = (Kind.OPERATOR, Kind.ANNOTATION, Kind.CALL, Kind.FRAME)


def _is_host(trace: Trace) -> Flags:
    return np.asarray(np.isin(trace.events.kind, _HOST))


def starting(trace: Trace) -> Intervals:
    """Return the instants at which the host compiles, loads kernels or sets libraries up, where the device is idle."""
    return trace.intervals(_sets_up(trace))


def _sets_up(trace: Trace) -> Flags:
    length = trace.events.end - trace.events.start
    chosen = trace.matching(_STARTS.search)
    chosen |= trace.matching(_CHEAP.search) & (length > _CHEAP_NS)
    chosen |= trace.matching(_REGION.search) & (length > _REGION_NS)
    return np.asarray(chosen & _is_host(trace))


def warms_up(trace: Trace, low: int, high: int) -> bool:
    """Return whether compilation, loading of kernels or first allocations begin from ``low`` to before ``high``."""
    chosen = (trace.matching(_FIRST_USE.search) & _is_host(trace)) | _sets_up(trace)
    start = trace.events.start
    return bool((chosen & (start >= low) & (start < high)).any())


_DROPPED = 0.02
"""Share of a step's launches without kernels from which on the step does not count."""
_STEP = re.compile(r"^ProfilerStep#?\s*(\d+)$")
_SLOWER = 1.5
"""First steps that take this much longer than the median of those behind them may be a warm-up."""


class Steps(NamedTuple):
    """Edges of steps in nanoseconds, of shape ``[steps + 1]``, and which of them count."""

    edges: Integers
    counted: Integers
    """Places of the steps that are averaged."""
    are_named: bool
    """Whether the trace has steps; else the whole of it is one."""
    begins: Integers
    """When the host begins each step, which may be earlier than the edge of a device that lags behind."""
    left_out: Sequence[str] = ()
    """Steps of which kernels are impossible or missing, and why; they do not count."""
    is_sound: bool = True
    """Whether any step counts of which that is not so."""

    @property
    def lengths(self) -> Integers:
        """Nanoseconds of every step."""
        return np.diff(self.edges)

    def holds(self, instants: Integers) -> Flags:
        """Return which instants lie in a step that counts."""
        return np.isin(np.searchsorted(self.edges, instants, side="right") - 1, self.counted)


def named_steps(trace: Trace) -> Flags:
    """Return which events are the profiler's own annotations of steps."""
    return np.asarray((trace.events.kind == Kind.ANNOTATION) & trace.matching(_STEP.match))


def steps_of(trace: Trace) -> Steps:
    """Return the steps of a trace; those with impossible or missing kernels count only where there are no others.

    A device that lags behind its host works at a step's kernels after the host has begun the next one, so a step ends
    when the host has ended it *and* the device has run what the host launched before that.
    """
    events = trace.events
    named = named_steps(trace)
    if not named.any():
        return _one(trace)
    start, end = events.start[named], events.end[named]
    # Several processes in one file have the same steps; the first of each counts.
    numbers, first = np.unique(
        np.array([int(re.sub(r"\D", "", trace.names[n])) for n in events.name[named]]), return_index=True
    )
    start, end = start[first], end[first]
    order = np.argsort(start, kind="stable")
    host = np.append(start[order], end.max())
    edges = np.maximum.accumulate(np.maximum(host, _device_done(trace, host)))
    lasts = np.diff(edges) > 0
    if not lasts.any():
        return _one(trace)
    edges, host = edges[np.append(True, lasts)], host[np.append(lasts, True)]
    steps = Steps(edges, _counted(trace, edges), are_named=True, begins=host[:-1])
    return _sound(trace, steps, host, [f"ProfilerStep#{number}" for number in numbers[order][lasts].tolist()])


def _one(trace: Trace) -> Steps:
    edges = np.array([0, int(trace.events.end.max())])
    return _sound(trace, Steps(edges, np.array([0]), are_named=False, begins=edges[:1]), edges, ["the whole trace"])


def _sound(trace: Trace, steps: Steps, host: Integers, names: Sequence[str]) -> Steps:
    """Leave out the steps of which kernels are impossible, or missing as their launches tell."""
    impossible = np.histogram(trace.impossible, steps.edges)[0]
    launches, dropped = (np.histogram(instants, host)[0] for instants in (trace.launches, trace.dropped))
    flawed = (impossible > 0) | (dropped > _DROPPED * launches)
    worked = steps.counted[~flawed[steps.counted]]
    why = [
        f"{names[place]} ({counted(int(impossible[place]), 'impossible kernel')})"
        if impossible[place]
        else f"{names[place]} ({dropped[place]} of {launches[place]} launches without their kernel)"
        for place in np.flatnonzero(flawed).tolist()
    ]
    return steps._replace(counted=worked if len(worked) else steps.counted, left_out=why, is_sound=len(worked) > 0)


def _device_done(trace: Trace, instants: Integers) -> Integers:
    """When the device has run everything that was launched before each instant; 0 where nothing was."""
    events = trace.events
    device = np.isin(events.kind, ON_DEVICE)
    launched = launch_times(trace)
    known = device & (launched >= 0)
    if not known.any():
        return np.zeros(len(instants), np.int64)
    order = np.argsort(launched[known], kind="stable")
    when, done = launched[known][order], np.maximum.accumulate(events.end[known][order])
    place = np.searchsorted(when, instants, side="left") - 1
    return np.where(place >= 0, done[np.maximum(place, 0)], 0)


def launch_times(trace: Trace) -> Integers:
    """Return when the host's call that launched each event of a device began; -1 where no call is known."""
    place = launching_calls(trace)
    return np.where(place >= 0, trace.events.start[np.maximum(place, 0)], -1)


def launching_calls(trace: Trace) -> Integers:
    """Return for each event the place of the call with its correlation; -1 without one, as for all of the host's."""
    events = trace.events
    result = np.full(len(events), -1)
    calls = np.flatnonzero((events.kind == Kind.CALL) & (events.correlation >= 0))
    device = np.flatnonzero(np.isin(events.kind, ON_DEVICE) & (events.correlation >= 0))
    if not len(calls) or not len(device):
        return result
    order = calls[np.argsort(events.correlation[calls], kind="stable")]
    place = np.minimum(np.searchsorted(events.correlation[order], events.correlation[device]), len(order) - 1)
    candidates = order[place]
    result[device] = np.where(events.correlation[candidates] == events.correlation[device], candidates, -1)
    return result


def _worked(trace: Trace, edges: Integers) -> int:
    """How many steps there are up to the last one in which a kernel begins, or without a device an operator."""
    events = trace.events
    works = np.isin(events.kind, ON_DEVICE) if trace.has_device else events.kind == Kind.OPERATOR
    last = int(events.start[works].max()) if works.any() else int(edges[-1])
    return min(max(int(np.searchsorted(edges, last, side="right")), 1), len(edges) - 1)


def _counted(trace: Trace, edges: Integers) -> Integers:
    """Places of the steps that count.

    Left out are those at the start that take long because they compile or allocate, and those at the end in which
    nothing begins to work, because recording stopped.
    """
    lengths = np.diff(edges)[: _worked(trace, edges)]
    first = 0
    while len(lengths) - first > 1 and lengths[first] > _SLOWER * np.median(lengths[first + 1 :]):
        if not warms_up(trace, int(edges[first]), int(edges[first + 1])):
            break
        first += 1
    return np.arange(first, len(lengths))
