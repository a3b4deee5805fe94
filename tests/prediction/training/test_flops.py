"""FLOPs of a step: the model's own, whatever the plan, and what the hardware executes."""

import pytest
from training_scenarios import training

from sightline.prediction import predict
from sightline.prediction.training.step_rows import model_flops

LLAMA_2_70B = {"model": "llama-2-70b", "cluster": "64x a100-sxm-80gb", "global_batch": 64}


def test_the_model_flops_are_six_per_weight_and_token_and_twelve_for_attention() -> None:
    profile = predict(training(model="gpt-3-175b", cluster="64x a100-sxm-80gb", global_batch=64))
    hidden, layers, vocabulary, tokens = 12288, 96, 51200, 2048
    per_sequence = 72 * tokens * layers * hidden**2 * (1 + tokens / (6 * hidden) + vocabulary / (12 * layers * hidden))
    assert profile.model_flops == pytest.approx(64 * per_sequence, rel=1e-12)


@pytest.mark.parametrize("plan", [{"tensor_parallel": 16}, {"attention": "eager"}, {"recompute": "full"}])
def test_the_plan_does_not_change_the_model_flops(plan) -> None:
    assert predict(training(**LLAMA_2_70B, plan=plan)).model_flops == predict(training(**LLAMA_2_70B)).model_flops


def test_replicated_heads_and_recomputation_are_executed() -> None:
    plain, wide, again = (
        predict(training(**LLAMA_2_70B, plan={"tensor_parallel": t, "recompute": r, "attention": "eager"}))
        for t, r in ((8, "none"), (16, "none"), (8, "full"))
    )
    assert plain.hardware_flops == pytest.approx(plain.model_flops, rel=1e-12)
    assert wide.hardware_flops > plain.hardware_flops
    assert again.hardware_flops > 1.2 * plain.hardware_flops


@pytest.mark.parametrize(
    ("model", "tokens", "rate", "speed"),
    [("llama-3-8b", 8192, 1506e12, 26006), ("llama-2-7b", 131072, 555e12, 2260), ("llama-2-7b", 4096, 780e12, 16934)],
)
def test_model_flops_of_a_token_are_those_that_nemo_prints(model, tokens, rate, speed):
    """NeMo's summary pages print FLOP/s and tokens/s of a device side by side (24.03, 24.07 and 25.02)."""
    scenario = training(model=model, sequence_length=tokens)
    assert model_flops(scenario) / tokens == pytest.approx(rate / speed, rel=2e-3)
