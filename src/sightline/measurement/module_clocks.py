"""What is read when a step goes from one region to the next: a clock, a device's events, or counters of work.

All of them only read; the differences are taken when the step is over, so nothing waits in between.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Protocol

from sightline.measurement.host_time import host_time
from sightline.measurement.module_work import WorkCounters
from sightline.measurement.timing import Clock
from sightline.measurement.torch_machine import DeviceClock, import_torch


class Reader(Protocol):
    """Something that grows while a step runs."""

    steps_aside: bool
    """Whether what the instrument itself takes between two regions is read apart, so that it is in neither."""

    def read(self) -> Any:
        """A reading at this moment."""
        ...

    def differences(self, readings: Sequence[Any]) -> Sequence[Any]:
        """How much it has grown between each reading and the next."""
        ...


class HostReader:
    """Wall time, for devices whose calls return when the work is done."""

    steps_aside = True
    read = staticmethod(host_time)

    def differences(self, readings: Sequence[float]) -> Sequence[float]:
        """Seconds."""
        return [after - before for before, after in pairwise(readings)]


class EventReader:
    """Device time by events in the current stream, which are used again in the next step."""

    steps_aside = False

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._used = 0

    def read(self) -> Any:
        """An event recorded now."""
        if self._used == len(self._events):
            self._events.append(import_torch().cuda.Event(enable_timing=True))
        event = self._events[self._used]
        self._used += 1
        event.record()
        return event

    def differences(self, readings: Sequence[Any]) -> Sequence[float]:
        """Seconds; waits for the last event."""
        readings[-1].synchronize()
        self._used = 0
        return [b.elapsed_time(a) * 1e-3 for b, a in pairwise(readings)]


class WorkReader:
    """FLOPs and bytes so far, as counted by ``counters``."""

    steps_aside = False

    def __init__(self, counters: WorkCounters) -> None:
        self.read = counters.read

    def differences(self, readings: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
        """FLOPs and bytes."""
        return [(a[0] - b[0], a[1] - b[1]) for b, a in pairwise(readings)]


def reader_of(clock: Clock) -> Reader:
    """Return what reads the time of the device that ``clock`` is for."""
    return EventReader() if isinstance(clock, DeviceClock) else HostReader()


@contextmanager
def counted_work() -> Iterator[WorkReader]:
    """Count what PyTorch executes meanwhile."""
    with WorkCounters() as counters:
        yield WorkReader(counters)
