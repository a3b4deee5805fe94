"""Levels below the whole step: the same trainer runs some steps more, with its parts told apart."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any

import numpy as np

from sightline.measurement.instrument import instrument
from sightline.measurement.module_overhead import undisturbed
from sightline.measurement.operator_trace import trace_operators
from sightline.measurement.timing import HostClock
from sightline.measurement.torch_machine import DeviceClock
from sightline.measurement.training_steps import Trainer
from sightline.profile import Row
from sightline.scenario import Scenario

LEVELS = ("end-to-end", "module", "operator")
MOST_STEPS = 20
"""Recorded steps; more would only repeat them."""


def told_apart(
    scenario: Scenario,
    trainer: Trainer,
    batches: Sequence[Any],
    steps: int,
    device: str,
    plain_s: float,
    *,
    operators: bool,
) -> dict[str, Any]:
    """Return rows by phase and module, and what telling them apart costs: over the median of plain steps, minus 1.

    With ``operators`` a traced step takes the rows further apart; each module keeps its time of the untraced steps.
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
        rows = undisturbed(rows, plain_s) if on_host else rows
        if operators:
            rows = _shared_out(rows, trace_operators(on_model, lambda: trainer.step(batches[0], on_model.phase)))
    finally:
        on_model.remove()
    return {
        "rows": [asdict(row) for row in rows],
        "recorded_steps": len(seconds),
        "instrumentation_overhead": float(np.median(seconds)) / plain_s - 1.0,
        "by_module": on_model.by_module,
    }


def _shared_out(modules: Sequence[Row], operators: Sequence[Row]) -> list[Row]:
    """Operators' rows with the module's seconds shared out among them; modules that the trace lacks stay whole."""
    seconds, traced = (_by_module(rows) for rows in (modules, operators))
    scaled = [
        replace(row, time_s=row.time_s * seconds[where] / traced[where])
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
