"""The whole answer to a scenario: known cases from outside, and what a run costs."""

from dataclasses import replace

import pytest
from training_scenarios import training

from sightline import load, plan, predict
from sightline.scenario import Scenario


def pretraining(**more: object) -> Scenario:
    return training(
        model="gpt-3-175b",
        cluster="1024x a100-sxm-80gb",
        global_batch=1536,
        total_tokens=300e9,
        plan={
            "framework": "megatron",
            "tensor_parallel": 8,
            "pipeline_parallel": 8,
            "micro_batch": 1,
            "recompute": "full",
            "attention": "eager",
            "dtype": "fp16",
            **more,
        },
    )


def test_model_flops_are_those_of_the_published_formula():
    # Narayanan 2021 (arXiv 2104.04473), section 5.1, without recomputation: 72 B s L h^2 (1 + s / 6h + V / 12 L h).
    profile = predict(pretraining())
    batch, s, layers, h, vocabulary = 1536, 2048, 96, 12288, 51200
    formula = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (12 * layers * h))
    assert profile.model_flops == pytest.approx(formula, rel=1e-9)
    layer_share = 1 / 3 * (1 + s / (6 * h)) / (1 + s / (6 * h) + vocabulary / (12 * layers * h))
    assert profile.hardware_flops == pytest.approx(formula * (1 + layer_share), rel=1e-3)


def test_a_run_of_many_steps():
    profile = predict(pretraining())
    steps = 95_368  # 300e9 / (1536 x 2048) is 95,367.4
    assert profile.steps == steps
    assert profile.run_time_s == pytest.approx(steps * profile.step_time_s)
    assert profile.energy_j == pytest.approx(steps * profile.energy_per_step_j)
    price = profile.scenario.cluster.device.usd_per_hour
    assert profile.cost_usd == pytest.approx(profile.run_time_s / 3600 * 1024 * price)
    # Narayanan 2021, section 5.6, trains GPT-3 on 300 billion tokens and 1,024 A100s in 34 days.
    assert 25 < profile.run_time_s / 86400 < 45


@pytest.mark.parametrize(
    ("run", "steps", "warned"),
    [
        ({"total_tokens": 1000}, 1, True),
        ({"samples": 100, "epochs": 1}, 2, False),
        ({"samples": 63}, 1, True),
        ({"samples": 64, "epochs": 3}, 3, False),
        ({"samples": 30, "epochs": 64 / 30}, 1, False),
    ],
)
def test_a_run_has_whole_steps_at_least_one(run, steps, warned):
    profile = predict(training(model="gpt-125m", cluster="8x h100-sxm-80gb", global_batch=64, **run))
    assert profile.steps == steps
    assert profile.run_time_s == steps * profile.step_time_s
    assert any("one step of 131,072" in warning for warning in profile.warnings) is warned
    planned = plan(profile.scenario, free=[]).plans[0].figures
    assert planned["run_time_s"] == pytest.approx(profile.run_time_s)


def test_without_a_length_of_the_run_there_is_no_total():
    profile = predict(training(model="gpt-125m", plan={"micro_batch": 1}))
    assert profile.steps is profile.run_time_s is profile.energy_j is profile.cost_usd is None


def test_a_device_without_a_price_has_no_cost():
    scenario = pretraining()
    device = replace(scenario.cluster.device, usd_per_hour=None)
    profile = predict(replace(scenario, cluster=replace(scenario.cluster, device=device)))
    assert profile.cost_usd is None
    assert profile.run_time_s is not None


def test_energy_lies_between_idling_and_full_power():
    profile = predict(pretraining())
    device = profile.scenario.cluster.device
    per_device = profile.energy_per_step_j / 1024 / profile.step_time_s
    assert device.idle_w < per_device < device.tdp_w


def test_a_power_cap_saves_energy():
    scenario = pretraining()
    capped = replace(scenario, cluster=replace(scenario.cluster, power_cap_w=250.0))
    assert predict(capped).energy_per_step_j < predict(scenario).energy_per_step_j
    uncapped = replace(scenario, cluster=replace(scenario.cluster, power_cap_w=1e6))
    assert predict(uncapped).energy_per_step_j == predict(scenario).energy_per_step_j


def test_fine_tuning_takes_the_same_step_as_pretraining():
    keys = {
        "model": "llama-2-7b",
        "cluster": "8x a800-sxm-80gb",
        "plan": {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2},
    }
    workload = {"sequence_length": 350, "global_batch": 16}
    steps = [
        predict(load(keys | {"workload": workload | {"task": task}})).step_time_s for task in ("pretrain", "finetune")
    ]
    assert steps[0] == steps[1]


def test_warnings_of_loading_stay_with_the_answer():
    profile = predict(training(model="gpt-125m", sequence_length=100_000, plan={"micro_batch": 1}))
    assert any("exceeds the 2048 tokens" in warning for warning in profile.warnings)


def test_flash_attention_saves_memory_and_time_on_long_sequences():
    eager, flash = (
        predict(training(model="llama-2-7b", sequence_length=4096, plan={"micro_batch": 1, "attention": kind}))
        for kind in ("eager", "flash")
    )
    assert flash.step_time_s < eager.step_time_s
    assert flash.memory_bytes["activations"] < 0.5 * eager.memory_bytes["activations"]
