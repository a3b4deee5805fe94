"""The figures of some steps of a job: those of a line of the stream, and of the terminal."""

from collections.abc import Sequence
from typing import Any

from sightline.profile.measured import measured_rates
from sightline.watching import machine
from sightline.watching.expected import Expected
from sightline.watching.steps import Step, Window, window_of


def line_of(
    steps: Sequence[Step], expected: Expected | None, *, devices: int | None, sequence_length: float | None
) -> dict[str, Any]:
    """Return what some steps come to; what is not known is left out.

    Args:
        steps: One or more.
        expected: The prediction, for the gap to it and for utilization.
        devices: Those that work together, where that is known.
        sequence_length: Tokens of a sample that are expected now.
    """
    window = window_of(steps)
    tokens, seconds = tokens_of(window, expected, devices, sequence_length), window.step_time_s
    line: dict[str, Any] = {
        "step": steps[-1].number,
        "steps": window.steps,
        "step_time_s": seconds,
        "spread_s": list(window.spread_s),
        "input_wait_s": window.wait_s,
        "memory_bytes": machine.memory_bytes()[0],
        "tokens_per_s": tokens / seconds if tokens and seconds else None,
        "sequence_length": window.sequence_length,
    }
    if expected is not None and seconds:
        line["gap"] = seconds / expected.step_time_s - 1.0
        line["mfu"] = measured_rates(expected, seconds, tokens=tokens, devices=devices)["mfu"]
    if window.parts:
        line["parts"] = dict(window.parts)
    return {key: value for key, value in line.items() if value is not None}


def tokens_of(
    window: Window, expected: Expected | None, devices: int | None, sequence_length: float | None
) -> float | None:
    """Return the tokens of a step on all devices; as the scenario says where the job does not."""
    if expected is None:
        return None if window.tokens is None else window.tokens * (devices or 1)
    share = (devices or expected.devices) / expected.devices
    if window.tokens is not None:
        return window.tokens * float(expected.scenario.plan.data_parallel) * share
    asked = float(expected.scenario.workload.sequence_length)
    return expected.tokens * (sequence_length or asked) / asked * share


def samples_of_replica(expected: Expected | None) -> float | None:
    """Return the samples of a step on one replica, as the scenario says."""
    if expected is None:
        return None
    scenario = expected.scenario
    return float(scenario.workload.global_batch) / float(scenario.plan.data_parallel)
