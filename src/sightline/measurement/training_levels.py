"""Levels below the whole step: the same trainer runs some steps more, with its parts told apart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from sightline.measurement.instrument import instrument
from sightline.measurement.timing import HostClock
from sightline.measurement.torch_machine import DeviceClock
from sightline.measurement.training_steps import Trainer
from sightline.scenario import Scenario

LEVELS = ("end-to-end", "module", "operator")
MOST_STEPS = 20
"""Recorded steps; more would only repeat them."""


def module_level(
    scenario: Scenario, trainer: Trainer, batches: Sequence[Any], steps: int, device: str, plain_s: float
) -> dict[str, Any]:
    """Return rows by phase and module, and what telling them apart costs: over the median of plain steps, minus 1."""
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
        rows = [asdict(row) for row in on_model.rows(scenario.cluster.device, scenario.plan.dtype)]
    finally:
        on_model.remove()
    return {
        "rows": rows,
        "recorded_steps": len(seconds),
        "instrumentation_overhead": float(np.median(seconds)) / plain_s - 1.0,
        "by_module": on_model.by_module,
    }


def _no_wait() -> None:
    """Calls have returned when their work is done."""


def _device_wait() -> Callable[[], None]:
    import torch

    wait: Callable[[], None] = torch.cuda.synchronize
    return wait


def told_apart(levels: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of the finest level there is."""
    rows: Sequence[Mapping[str, Any]] = levels.get("module", {}).get("rows", ())
    return rows
