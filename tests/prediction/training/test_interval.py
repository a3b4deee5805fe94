"""Intervals around predictions."""

from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import exp, sqrt

import numpy as np
import pytest
from training_scenarios import training

from sightline.catalog import names
from sightline.errors import InputError
from sightline.prediction import predict
from sightline.prediction.common_figures import LONGER, SHORTER, intervals
from sightline.prediction.training.constants import stated_set
from sightline.prediction.training.memory import OF_CODE, OF_DEVICES, memory_spread
from sightline.profile import Profile
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
    assert set(profile.interval) == {*LONGER, *SHORTER, "memory_bytes.total"}
    low, high = profile.interval["step_time_s"]
    spread = np.log(high / low) / 2
    assert spread > 0
    for key in (*LONGER, *SHORTER):
        low, high = profile.interval[key]
        value = float(getattr(profile, key))
        assert low < value < high
        assert sqrt(low * high) == pytest.approx(value)
        assert high / value == pytest.approx(exp(spread))


def test_memory_has_an_interval_of_its_own_and_a_bound_none() -> None:
    profile = predict(training(model="llama-2-7b", plan=ONE_STEP))
    low, high = profile.interval["memory_bytes.total"]
    assert sqrt(low * high) == pytest.approx(profile.memory_bytes["total"])
    assert high / low == pytest.approx(exp(2 * memory_spread(profile.scenario)))
    bound = predict(training(model="llama-2-7b", plan={**ONE_STEP, "framework": "reference"}))
    assert "memory_bytes.total" not in bound.interval


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


KEEPING_FP32 = ("deepspeed", "fsdp", "galvatron", "megatron", "megatron-deepspeed", "torchtitan", "transformers")
"""Frameworks that do the bound's work: Adam in mixed precision, with fp32 weights and moments."""


DEVICES = [*names("devices"), "this-machine"]


@pytest.mark.parametrize(
    "device",
    [pytest.param(device, marks=() if place % 5 == 4 else pytest.mark.slow) for place, device in enumerate(DEVICES)],
)
def test_no_framework_passes_the_reference_on_any_device(device: str) -> None:
    def asked(framework: str, model: str, devices: int, dtype: str) -> Profile:
        plan = {"framework": framework, "micro_batch": 1, "zero_stage": 0, "dtype": dtype}
        return predict(training(model=model, cluster=f"{devices}x {device}", sequence_length=512, plan=plan))

    compared = 0
    for model, devices, dtype in product(("gpt-125m", "mixtral-8x7b"), (1, 8), ("bf16", "fp32")):
        with suppress(InputError):
            bound = asked("reference", model, devices, dtype).step_time_s
        for framework in KEEPING_FP32:
            with suppress(InputError):
                assert asked(framework, model, devices, dtype).step_time_s >= bound * (1 - 1e-9), (framework, dtype)
                compared += 1
    assert compared


def test_the_reference_is_a_bound_where_somebody_stated_constants_too() -> None:
    plan = {"micro_batch": 1, "dtype": "fp32"}
    here = {
        name: training(model="gpt-125m", cluster="1x this-machine", plan=plan | {"framework": name})
        for name in ("reference", "transformers")
    }
    assert here["reference"].plan.framework.is_bound
    assert stated_set(here["reference"]) is None
    assert predict(here["reference"]).interval["step_time_s"][1] is None
    stated = stated_set(here["transformers"])
    assert stated is not None
    slower = replace(stated[0], matmul_slowdown=2.0)
    assert predict(here["transformers"]).step_time_s < predict(here["transformers"], slower).step_time_s
    assert predict(here["transformers"]).step_time_s == predict(here["transformers"], stated[0]).step_time_s


@pytest.mark.parametrize("device", ["rtx-4090", "mi300x"])
def test_no_device_is_used_more_than_fully(device: str) -> None:
    plan = {"framework": "megatron", "micro_batch": 1, "recompute": "full"}
    sizes = {"sequence_length": 131072, "global_batch": 64}
    profile = predict(training(model="llama-3.1-8b", cluster=f"8x {device}", plan=plan, **sizes))
    low, high = profile.interval["hfu"]
    # As far up as it is down, the end would be beyond the peak.
    assert profile.hfu**2 / low > 1.0
    assert high == pytest.approx(1.0)
    assert profile.interval["mfu"][1] == pytest.approx(high * profile.mfu / profile.hfu)


@pytest.mark.parametrize(
    ("framework", "cluster", "spread"),
    [
        ("megatron", "8x h100-sxm-80gb", OF_DEVICES),
        ({"like": "megatron"}, "8x h100-sxm-80gb", OF_CODE),
        ("megatron", "8x mi300x", OF_CODE),
    ],
)
def test_memory_is_known_best_where_whole_devices_were_measured(framework, cluster, spread):
    low, high = predict(training(cluster=cluster, global_batch=8, plan={"framework": framework})).interval[
        "memory_bytes.total"
    ]
    assert high / low == pytest.approx(exp(2 * spread))


def test_a_host_that_is_too_small_decides_alone():
    cluster = {
        "devices": 8,
        "device": {"same_as": "a100-sxm-80gb", "memory": "31.5 GB"},
        "host": {"same_as": "xeon-8480c", "memory": "20 GB"},
    }
    plan = {"framework": "deepspeed", "zero_stage": 2, "offload": "optimizer"}
    profile = predict(training(model="llama-2-7b", cluster=cluster, global_batch=8, plan=plan))
    assert (profile.fits, profile.fits_probability, profile.fit) == (False, 0.0, "no")
