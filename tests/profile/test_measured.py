"""Rates of measured steps, and the interval of their median."""

import numpy as np
import pytest

import sightline as sl
from sightline.profile.results import measured_rates, median_interval

SCENARIO = {
    "model": "llama-3-8b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 32},
    "plan": {"framework": "fsdp", "zero_stage": 3, "micro_batch": 1, "recompute": "full"},
}


def test_a_step_that_takes_what_was_predicted_has_the_predicted_rates():
    predicted = sl.predict(sl.load(SCENARIO))
    for key, value in measured_rates(predicted, float(predicted.step_time_s)).items():
        assert value == pytest.approx(float(getattr(predicted, key)))


def test_half_the_devices_with_half_the_tokens_in_the_same_time_are_as_well_used():
    predicted = sl.predict(sl.load(SCENARIO))
    whole = measured_rates(predicted, 5.0)
    half = measured_rates(predicted, 5.0, tokens=predicted.scenario.workload.tokens_per_step / 2, devices=4)
    per_device = ("tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu", "hfu")
    assert [half[key] for key in per_device] == pytest.approx([whole[key] for key in per_device])
    assert half["tokens_per_s"] == pytest.approx(whole["tokens_per_s"] / 2)


def test_four_of_five_intervals_hold_the_median() -> None:
    draws = np.random.default_rng(2).exponential(size=(2000, 31))
    held = [low <= np.log(2) <= high for low, high in map(median_interval, draws.tolist())]
    assert 0.8 < np.mean(held) < 0.88
