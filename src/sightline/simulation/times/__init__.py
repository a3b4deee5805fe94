"""Iteration times of a replica as tables, error-checked against `iteration_time`, for the simulator's compiled loop."""

from sightline.simulation.times.error_check import table_errors
from sightline.simulation.times.lookup import decode_attention_seconds, prompt_attention_seconds, step_seconds
from sightline.simulation.times.packed import PackedTimes, packed, packed_together
from sightline.simulation.times.tables import IterationTimes, iteration_times

__all__ = [
    "IterationTimes",
    "PackedTimes",
    "decode_attention_seconds",
    "iteration_times",
    "packed",
    "packed_together",
    "prompt_attention_seconds",
    "step_seconds",
    "table_errors",
]
