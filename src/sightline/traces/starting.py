"""The start of a job: compilation, loading of kernels, set-up of libraries. A job's later steps have none of it."""

import re

import numpy as np

from sightline.traces.events import Flags, Kind, Trace
from sightline.traces.intervals import Intervals, merged

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
    found: Flags = np.isin(trace.events.kind, _HOST)
    return found


def starting(trace: Trace) -> Intervals:
    """Return the instants at which the host compiles, loads kernels or sets libraries up, where the device is idle."""
    chosen = _sets_up(trace)
    return merged(trace.events.start[chosen], trace.events.end[chosen])


def _sets_up(trace: Trace) -> Flags:
    length = trace.events.end - trace.events.start
    chosen = trace.matching(_STARTS.search)
    chosen |= trace.matching(_CHEAP.search) & (length > _CHEAP_NS)
    chosen |= trace.matching(_REGION.search) & (length > _REGION_NS)
    flags: Flags = chosen & _is_host(trace)
    return flags


def warms_up(trace: Trace, low: int, high: int) -> bool:
    """Return whether compilation, loading of kernels or first allocations begin from ``low`` to before ``high``."""
    chosen = (trace.matching(_FIRST_USE.search) & _is_host(trace)) | _sets_up(trace)
    start = trace.events.start
    return bool((chosen & (start >= low) & (start < high)).any())
