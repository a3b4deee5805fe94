"""Seconds of training steps, of their phases and, in steps of their own, of their modules and operators.

Steps are timed on the host, or on a device that the host runs ahead of.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from sightline.measurement.machine.devices import DeviceClock
from sightline.measurement.machine.timing import HostClock, host_time
from sightline.measurement.modules.instrument import instrument, without_overhead
from sightline.measurement.modules.operator_trace import trace_operators
from sightline.measurement.training.steps import Trainer
from sightline.profile import Row
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One step."""

    step_time_s: float
    """From the end of the step before to the end of this one."""
    phases: Mapping[str, float]
    """Seconds by phase; what is left of the step is the host's."""


class HostStepClock:
    """Wall time, where work is done when a call returns."""

    def __init__(self) -> None:
        self._begin = self._since = host_time()
        self._open: list[str] = []
        self._phases: dict[str, float] = {}

    def start(self) -> None:
        """Begin the first step."""
        self._begin = host_time()
        self._phases = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark a phase; the one around it stands still meanwhile."""
        self._book()
        self._open.append(name)
        try:
            yield
        finally:
            self._book()
            self._open.pop()

    def end_step(self) -> list[StepTime]:
        """End a step and return it."""
        now = host_time()
        step = StepTime(step_time_s=now - self._begin, phases=self._phases)
        self._begin, self._phases = now, {}
        return [step]

    def drain(self) -> list[StepTime]:
        """Nothing is ever late."""
        return []

    def _book(self) -> None:
        """Give the time since the last mark to the innermost open phase."""
        now = host_time()
        if self._open:
            name = self._open[-1]
            self._phases[name] = self._phases.get(name, 0.0) + now - self._since
        self._since = now


class DeviceStepClock:
    """Device time by events, read a step late: the host may prepare a step while the device works on the one before."""

    LATE = 2
    """Steps whose readings are waited for later."""

    def __init__(self) -> None:
        import torch

        events: Any = torch.cuda.Event
        self._event: Callable[[], Any] = lambda: events(enable_timing=True)
        self._begin: Any = None
        self._open: list[str] = []
        self._marks: list[tuple[Any, str | None]] = []
        self._steps: list[tuple[Any, Any, list[tuple[Any, str | None]]]] = []

    def start(self) -> None:
        """Begin the first step."""
        self._begin = self._now()
        self._marks = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark a phase by events in the current stream."""
        self._open.append(name)
        self._marks.append((self._now(), name))
        try:
            yield
        finally:
            self._open.pop()
            self._marks.append((self._now(), self._open[-1] if self._open else None))

    def end_step(self) -> list[StepTime]:
        """End a step; return the oldest one once enough are behind it."""
        end = self._now()
        self._steps.append((self._begin, end, self._marks))
        self._begin, self._marks = end, []
        return [self._read()] if len(self._steps) > self.LATE else []

    def drain(self) -> list[StepTime]:
        """Wait for the device and return all that is left."""
        return [self._read() for _ in range(len(self._steps))]

    def _now(self) -> Any:
        event = self._event()
        event.record()
        return event

    def _read(self) -> StepTime:
        begin, end, marks = self._steps.pop(0)
        end.synchronize()
        phases: dict[str, float] = {}
        for (event, name), (following, _) in zip(marks, [*marks[1:], (end, None)], strict=True):
            if name is not None:
                phases[name] = phases.get(name, 0.0) + event.elapsed_time(following) * 1e-3
        return StepTime(step_time_s=begin.elapsed_time(end) * 1e-3, phases=phases)


StepClock = HostStepClock | DeviceStepClock
"""Readings may come some steps late, so that a device does not wait for the host."""

LEVELS = ("end-to-end", "module", "operator")
MOST_STEPS = 20
"""Recorded steps; more would only repeat them."""


def times_by_module(
    scenario: Scenario,
    trainer: Trainer,
    batches: Sequence[Any],
    steps: int,
    device: str,
    plain_s: float,
    *,
    operators: bool,
) -> dict[str, Any]:
    """Return rows by phase and module, and the overhead of timing them: over the median of plain steps, minus 1.

    With ``operators`` a traced step splits the rows by operator; each module keeps its time of the untraced steps.
    """
    on_host = device == "cpu"
    on_model = instrument(trainer.model, None, HostClock() if on_host else DeviceClock())
    wait = _no_wait if on_host else _device_wait()
    try:
        with on_model.counting():
            trainer.step(batches[0], on_model.phase)
        seconds = []
        for number in range(min(steps, MOST_STEPS)):
            wait()
            begin = perf_counter()
            with on_model.recording():
                trainer.step(batches[number % len(batches)], on_model.phase)
            wait()
            seconds.append(perf_counter() - begin)
        rows = on_model.rows(scenario.cluster.device, scenario.plan.dtype)
        rows = without_overhead(rows, plain_s) if on_host else rows
        if operators:
            rows = _by_operator(rows, trace_operators(on_model, lambda: trainer.step(batches[0], on_model.phase)))
    finally:
        on_model.remove()
    return {
        "rows": [asdict(row) for row in rows],
        "recorded_steps": len(seconds),
        "instrumentation_overhead": float(np.median(seconds)) / plain_s - 1.0,
        "by_module": on_model.by_module,
    }


def _by_operator(modules: Sequence[Row], operators: Sequence[Row]) -> list[Row]:
    """Operators' rows, among which the module's seconds are split; modules that the trace lacks stay whole."""
    seconds, traced = (_by_module(rows) for rows in (modules, operators))
    scaled = [
        row.lasting(row.time_s * seconds[where] / traced[where])
        for row in operators
        if (where := (row.phase, row.block, row.module)) in seconds and traced[where]
    ]
    there = {(row.phase, row.block, row.module) for row in scaled}
    return [*scaled, *(row for row in modules if (row.phase, row.block, row.module) not in there)]


def _by_module(rows: Sequence[Row]) -> dict[tuple[str, str, str], float]:
    found: dict[tuple[str, str, str], float] = {}
    for row in rows:
        where = (row.phase, row.block, row.module)
        found[where] = found.get(where, 0.0) + float(row.time_s)
    return found


def _no_wait() -> None:
    """Calls have returned when their work is done."""


def _device_wait() -> Callable[[], None]:
    import torch

    wait: Callable[[], None] = torch.cuda.synchronize
    return wait
