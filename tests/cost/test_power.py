"""The power of devices against what was measured."""

import pytest

from sightline.cost.power import watts_of
from sightline.loading import load
from sightline.prediction import predict


@pytest.mark.parametrize(
    ("model", "cluster", "batch", "joules_per_token"),
    [
        # Serial Alice's benchmark of 2026 (vLLM): 732 and 13.8 uWh per token.
        ("mistral-7b", "1x h100-sxm-80gb", 1, 2.64),
        ("mistral-7b", "1x h100-sxm-80gb", 128, 0.0497),
        # Splitwise: 240 W of four A100s at 44.7 ms per token.
        ("llama-2-70b", "4x a100-sxm-80gb", 1, 43.0),
    ],
)
def test_decoding_takes_the_energy_that_was_measured(model, cluster, batch, joules_per_token):
    version = "0.2" if "a100" in cluster else "0.11"
    plan = {"framework": "vllm", "framework_version": version, "tensor_parallel": int(cluster[0])}
    workload = {"task": "generate", "batch": batch, "prompt_tokens": 64, "output_tokens": 256}
    profile = predict(load({"model": model, "cluster": cluster, "workload": workload, "plan": plan}))
    assert profile.energy_j / (256 * batch) == pytest.approx(joules_per_token, rel=0.15)


def test_a_pass_draws_at_least_waiting_power_and_never_more_than_the_cap():
    workload = {"task": "generate", "batch": 1, "prompt_tokens": 1, "output_tokens": 1}
    cluster = load({"model": "llama-2-7b", "cluster": "8x h100-sxm-80gb", "workload": workload}).cluster
    watts = watts_of(cluster)
    assert watts.idle < watts.waiting == watts.joules(1.0, 0.0, 0.0)
    assert watts.joules(1.0, 1.0, 1.0) == watts.cap == cluster.device.tdp_w
