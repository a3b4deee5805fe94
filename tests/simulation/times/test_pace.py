"""Iteration times at the ends of what they may be."""

from typing import Any

import pytest
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import engine_constants
from sightline.prediction.generation.replica import worker_of
from sightline.simulation.times import (
    IterationTimes,
    at_pace,
    iteration_times,
    packed,
    prompt_attention_seconds,
    step_seconds,
)


def times_of(**plan: Any) -> IterationTimes:
    scenario = generation(cluster="2x a100-sxm-80gb", plan={"framework": "vllm", "replicas": 2, **plan})
    constants, _ = engine_constants(scenario)
    constants = constants.running_on(scenario.cluster)
    return iteration_times(worker_of(scenario), constants, tokens=2048, sequences=64, context=4096)


@pytest.mark.parametrize("plan", [{}, {"cuda_graphs": False}, {"pipeline_parallel": 2, "replicas": 1}])
def test_factors_lengthen_iterations(plan: dict[str, Any]) -> None:
    times = times_of(**plan)
    times, slower = packed(times), packed(at_pace(times, 1.5, 2.0))
    assert step_seconds(slower, 8, 8000, 0, 0, 0.0) == pytest.approx(2.0 * step_seconds(times, 8, 8000, 0, 0, 0.0))
    attention_s, longer_s = (prompt_attention_seconds(of, 512, 0) for of in (times, slower))
    assert longer_s == pytest.approx(1.5 * attention_s)
    alone = step_seconds(times, 0, 0, 512, 1, attention_s)
    assert 1.5 * alone <= step_seconds(slower, 0, 0, 512, 1, longer_s) * (1.0 + 1e-9) <= 2.0 * alone
    mixed = step_seconds(times, 8, 8000, 512, 1, attention_s)
    assert 1.5 * mixed <= step_seconds(slower, 8, 8000, 512, 1, longer_s) * (1.0 + 1e-9) <= 2.0 * mixed


def test_factors_of_one_change_nothing() -> None:
    times = times_of()
    usual, same = packed(times), packed(at_pace(times, 1.0, 1.0))
    assert step_seconds(same, 4, 4000, 100, 1, 1e-3) == step_seconds(usual, 4, 4000, 100, 1, 1e-3)
