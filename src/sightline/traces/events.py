"""The events of one trace as columns, sorted once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        flags: Flags = passed[self.events.name] if len(self.names) else np.zeros(0, bool)
        return flags
