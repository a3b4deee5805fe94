"""Intervals around predictions."""

from math import exp, sqrt

import numpy as np
import pytest
from training_scenarios import training

from sightline.prediction import predict
from sightline.prediction.figures import intervals
from sightline.prediction.training.predict import LONGER, SHORTER
from sightline.scenario import Scenario

ONE_STEP = {"micro_batch": 1, "framework": "megatron"}


def width(framework: str, device: str) -> float:
    plan = {"framework": framework, "micro_batch": 1, "zero_stage": 0, "dtype": "bf16"}
    low, high = predict(training(model="llama-2-7b", cluster=f"8x {device}", global_batch=8, plan=plan)).interval[
        "step_time_s"
    ]
    return float(np.log(high / low))


def test_the_interval_is_as_wide_on_both_sides_and_for_all_that_the_step_gives() -> None:
    profile = predict(training(model="llama-2-7b", total_tokens=1e9, plan=ONE_STEP))
    assert set(profile.interval) == {*LONGER, *SHORTER}
    low, high = profile.interval["step_time_s"]
    spread = np.log(high / low) / 2
    assert spread > 0
    for key, (low, high) in profile.interval.items():
        value = float(getattr(profile, key))
        assert low < value < high
        assert sqrt(low * high) == pytest.approx(value)
        assert high / value == pytest.approx(exp(spread))


def test_what_the_scenario_does_not_ask_has_no_interval() -> None:
    assert "run_time_s" not in predict(training()).interval


def test_without_a_spread_there_is_no_interval() -> None:
    assert intervals(predict(training()), {"step_time_s": 0.0}) == {}


def test_a_device_nobody_measured_is_less_certain() -> None:
    assert width("fsdp", "a100-sxm-80gb") < width("fsdp", "mi300x")


def test_the_reference_is_a_bound_that_no_framework_passes() -> None:
    def asked(framework: str) -> Scenario:
        plan = {"framework": framework, "micro_batch": 1, "zero_stage": 0}
        return training(model="llama-2-7b", cluster="8x h100-sxm-80gb", global_batch=8, plan=plan)

    bound = predict(asked("reference"))
    assert bound.interval["step_time_s"] == (bound.step_time_s, None)
    assert bound.phases["host"] == 0.0
    assert bound.evidence["framework"] == "datasheet"
    for framework in ("megatron", "fsdp", "deepspeed", "transformers", "torchtitan"):
        assert predict(asked(framework)).step_time_s > bound.step_time_s, framework
