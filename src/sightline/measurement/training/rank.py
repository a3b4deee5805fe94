"""One rank trains: it joins the others, warms up, takes its samples, and says what it saw."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sightline.loading import scenario_from_mapping
from sightline.measurement.machine import DeviceClock, wait_for
from sightline.measurement.modules.instrument import instrument, split_by_operator, trace_operators, without_overhead
from sightline.measurement.modules.timeline import EventReader, HostReader, Reader
from sightline.measurement.modules.wrapping import EXPOSED, wrap_waits
from sightline.measurement.processes.isolation import Emit, UnsupportedCaseError
from sightline.measurement.processes.ranks import device_of_rank, join
from sightline.measurement.resources import EnergyWatch, MemoryWatch, state_bytes
from sightline.measurement.timing import HostClock
from sightline.measurement.training.steps import Trainer, setup_of, token_batches, way_of
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


ENTRY = f"{__name__}:measure_rank"
LATE = 2
"""Steps on a device whose readings are waited for later: the host prepares a step while the device is still busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a rank is asked to do."""

    warm_up: int
    steps: int
    weights: str | None = None
    levels: Sequence[str] = ()
    """Which levels below the whole step are measured too, in steps of their own: module, operator."""
    rendezvous: Mapping[str, Any] | None = None
    """How ranks find each other: ``file``, or ``host``, ``port`` and ``prefix``."""


def measure_rank(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Train as the scenario says; samples go off as they come, the result is this rank's.

    Arguments are ``scenario``, a mapping, and the fields of `Asked`.
    """
    asked = Asked(**{k: v for k, v in arguments.items() if k != "scenario"})
    try:
        return _measure(scenario_from_mapping(arguments["scenario"]), asked, emit)
    except RuntimeError as error:
        if "No available kernel" in str(error):
            raise UnsupportedCaseError(
                "plan.attention is 'flash', of which PyTorch has no kernel for these heads and this dtype; "
                "allowed here: eager"
            ) from error
        raise


def _measure(scenario: Scenario, asked: Asked, emit: Emit) -> dict[str, Any]:
    way = way_of(scenario)
    device = device_of_rank() if way == "single" else join(asked.rendezvous or {})
    clock = StepClock(HostReader()) if device == "cpu" else StepClock(EventReader(), LATE)
    _flush_denormal_numbers(device)
    setup = setup_of(way)
    memory = MemoryWatch(device)
    trainer = setup(scenario, device, None if asked.weights is None else Path(asked.weights))
    wrap_waits(trainer.model, lambda: clock.phase(EXPOSED))
    batches = token_batches(scenario, trainer.replica, trainer.replicas, device)
    seen = _train(trainer, batches, clock, asked, memory, emit)
    own = {**seen, "memory": memory.read(), "states": state_bytes(trainer.model, trainer.optimizer)}
    levels: dict[str, Any] = {}
    if {"module", "operator"} & set(asked.levels) and not trainer.record.get("shimmed"):
        plain_s, operators = float(np.median(seen["step_s"])), "operator" in asked.levels
        levels["module"] = times_by_module(
            scenario, trainer, batches, asked.steps, device, plain_s, operators=operators
        )
    ranks = _everyone(own) if way != "single" else [own]
    return {"ranks": ranks, "levels": levels, "remarks": list(trainer.remarks), "record": dict(trainer.record)}


def _flush_denormal_numbers(device: str) -> None:
    """Take numbers below the normal ones for zero on a processor, which handles each of them by a program of its own.

    Second moments of rows that rarely occur end there, so that the update's time would depend on the data.
    """
    import torch

    if device == "cpu":
        torch.set_flush_denormal(True)


def _train(
    trainer: Trainer, batches: Sequence[Any], clock: StepClock, asked: Asked, memory: MemoryWatch, emit: Emit
) -> dict[str, Any]:
    """Warm up, then take samples; nothing waits for the device but readings that are two steps old.

    Returns seconds of each step, in all and in collectives (waiting for ranks that come later included), joules of all
    of them, and mean losses of this rank's sequences by step, those of the warm-up included.
    """
    losses: list[Any] = []
    taken: list[StepTime] = []

    def step(number: int) -> None:
        losses.append(trainer.step(batches[number % len(batches)], clock.phase))

    def keep(readings: Sequence[StepTime]) -> None:
        for reading in readings:
            emit({"step": len(taken), **asdict(reading)})
            taken.append(reading)

    clock.start()
    for number in range(asked.warm_up):
        step(number)
        clock.end_step()
    clock.drain()
    memory.restart()
    energy = EnergyWatch(memory.device)
    clock.start()
    for number in range(asked.warm_up, asked.warm_up + asked.steps):
        step(number)
        keep(clock.end_step())
    keep(clock.drain())
    return {
        "step_s": [reading.step_time_s for reading in taken],
        "exposed_s": [reading.phases.get(EXPOSED, 0.0) for reading in taken],
        "energy_j": energy.joules(),
        "losses": [float(loss) for loss in losses],
    }


def _everyone(own: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What every rank saw, by rank."""
    import torch.distributed as dist

    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, own)
    with suppress(RuntimeError):
        dist.barrier()
    return found
