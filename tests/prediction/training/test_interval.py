"""Intervals around predictions."""

from math import exp, sqrt

import pytest
from training_scenarios import training

from sightline.prediction import predict
from sightline.prediction.figures import intervals
from sightline.prediction.training.predict import LONGER, SHORTER, spread_of
from sightline.scenario import Scenario


def test_the_interval_is_the_spread_of_the_constants_on_both_sides() -> None:
    profile = predict(training(model="llama-2-7b", total_tokens=1e9))
    spread = spread_of(profile.scenario)
    assert spread > 0
    assert set(profile.interval) == {*LONGER, *SHORTER}
    for key, (low, high) in profile.interval.items():
        value = float(getattr(profile, key))
        assert low < value < high
        assert sqrt(low * high) == pytest.approx(value)
        assert high / value == pytest.approx(exp(spread))


def test_what_the_scenario_does_not_ask_has_no_interval() -> None:
    assert "run_time_s" not in predict(training()).interval


def test_without_a_spread_there_is_no_interval() -> None:
    assert intervals(predict(training()), {"step_time_s": 0.0}) == {}


def test_a_framework_nobody_measured_is_less_certain() -> None:
    def asked(framework: str, device: str) -> Scenario:
        return training(cluster=f"8x {device}", global_batch=8, plan={"framework": framework, "dtype": "fp16"})

    measured, extrapolated = asked("fsdp", "a100-sxm-80gb"), asked("deepspeed", "a100-sxm-80gb")
    unknown = asked("fsdp", "v100-sxm2-32gb")
    assert spread_of(measured) < spread_of(extrapolated) <= spread_of(unknown)
