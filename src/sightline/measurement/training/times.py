"""Seconds of training steps, of their phases and, in steps of their own, of their modules and operators.

Steps are timed on the host, or on a device that the host runs ahead of.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from sightline.measurement.machine.devices import DeviceClock, wait_for
from sightline.measurement.machine.timing import HostClock
from sightline.measurement.modules.instrument import instrument, without_overhead
from sightline.measurement.modules.operator_trace import split_by_operator, trace_operators
from sightline.measurement.modules.readers import Reader
from sightline.measurement.training.steps import Trainer
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One step."""

    step_time_s: float
    """From the end of the step before to the end of this one."""
    phases: Mapping[str, float]
    """Seconds by phase; what is left of the step is the host's."""


class StepClock:
    """Seconds of steps and of their phases, some steps late where a device must not wait for the host.

    A phase inside another interrupts it.
    """

    def __init__(self, reader: Reader, late: int = 0) -> None:
        self._reader, self._late = reader, late
        self._open: list[str] = []
        self._marks: list[tuple[str, Any]] = []
        """The phase that begins, and the reading then."""
        self._ended: list[list[tuple[str, Any]]] = []
        """Marks of steps that are not read yet."""

    def start(self) -> None:
        """Begin the first step."""
        self._marks = []
        self._mark()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark a phase."""
        self._open.append(name)
        self._mark()
        try:
            yield
        finally:
            self._open.pop()
            self._mark()

    def end_step(self) -> list[StepTime]:
        """End a step; return the oldest one once enough are behind it."""
        self._mark()
        self._ended.append(self._marks)
        self._marks = self._marks[-1:]
        return [self._read()] if len(self._ended) > self._late else []

    def drain(self) -> list[StepTime]:
        """Return all steps that are left."""
        return [self._read() for _ in range(len(self._ended))]

    def _mark(self) -> None:
        self._marks.append((self._open[-1] if self._open else "", self._reader.read()))

    def _read(self) -> StepTime:
        marks = self._ended.pop(0)
        seconds = self._reader.differences([reading for _, reading in marks])
        phases: dict[str, float] = {}
        for (name, _), part in zip(marks, seconds, strict=False):
            if name:
                phases[name] = phases.get(name, 0.0) + part
        return StepTime(step_time_s=sum(seconds), phases=phases)


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
    try:
        with on_model.counting():
            trainer.step(batches[0], on_model.phase)
        seconds = []
        for number in range(min(steps, MOST_STEPS)):
            wait_for(device)
            begin = perf_counter()
            with on_model.recording():
                trainer.step(batches[number % len(batches)], on_model.phase)
            wait_for(device)
            seconds.append(perf_counter() - begin)
        rows = on_model.rows(scenario.cluster.device, scenario.plan.dtype)
        rows = without_overhead(rows, plain_s) if on_host else rows
        if operators:
            rows = split_by_operator(rows, trace_operators(on_model, lambda: trainer.step(batches[0], on_model.phase)))
    finally:
        on_model.remove()
    return {
        "rows": [asdict(row) for row in rows],
        "recorded_steps": len(seconds),
        "instrumentation_overhead": float(np.median(seconds)) / plain_s - 1.0,
    }
