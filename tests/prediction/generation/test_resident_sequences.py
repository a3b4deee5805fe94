"""Steady loops of more sequences than memory holds."""

from dataclasses import replace

import numpy as np
import pytest
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.phases import price_generation
from sightline.prediction.generation.policies import of_resident


def loop(batch, framework="tensorrt-llm", **changes):
    sizes = {"prompt_tokens": 4096, "output_tokens": 512, "continuous": True} | changes
    plan = {"framework": framework, "tensor_parallel": 2, "memory_fraction": 0.9}
    return predict_generation(
        generation(model="qwen3-32b", cluster="2x h100-sxm-80gb", batch=batch, plan=plan, **sizes)
    )


def test_who_does_not_fit_waits_and_slows_nobody_down():
    few, many, more = loop(32), loop(256), loop(512)
    assert few.fits
    assert many.fits
    assert few.memory_bytes["kv_cache"] < many.memory_bytes["kv_cache"]
    assert many.memory_bytes["total"] == pytest.approx(many.usable_bytes)
    assert not loop(256, "vllm", prompt_tokens=400_000).fits
    assert few.tpot_s < many.tpot_s
    assert more.tpot_s == pytest.approx(many.tpot_s)
    assert more.output_tokens_per_s == pytest.approx(many.output_tokens_per_s, rel=1e-6)
    assert more.ttft_s > 1.5 * many.ttft_s


def test_the_parts_of_the_latency_hold_the_wait():
    profile = loop(256)
    assert sum(profile.phases.values()) == pytest.approx(profile.latency_s)


def test_an_engine_that_reserves_whole_caches_admits_fewer():
    """Sequences are half-way on average, so that twice as many fit where prompts are short."""
    sizes = {"prompt_tokens": 16, "output_tokens": 16384}
    scarce, ample = loop(1024, **sizes).scenario, loop(1024, "vllm", **sizes).scenario
    fitting = [of_resident(price_generation(scenario)).scenario.workload.batch for scenario in (scarce, ample)]
    assert fitting[1] == pytest.approx(2 * fitting[0], rel=0.05)


def test_a_static_batch_is_predicted_as_if_it_fitted():
    assert loop(512, continuous=False).tpot_s > loop(512).tpot_s


def test_arrays_are_limited_one_by_one():
    batches = np.array([32, 256, 512])
    scenario = loop(32).scenario
    together = predict_generation(replace(scenario, workload=replace(scenario.workload, batch=batches)))
    assert together.tpot_s == pytest.approx([float(loop(int(b)).tpot_s) for b in batches])


@pytest.mark.parametrize("pools", [{}, {"disaggregate": {"prefill": {"tensor_parallel": 2}, "decode": {}}}])
def test_who_has_no_place_waits_as_long_as_others_decode(pools):
    """Little's law: twice the sequences of which as many run take twice as long, the first token all that is added."""

    def limited(batch):
        plan = {"framework": "tensorrt-llm", "tensor_parallel": 2, "max_sequences": 16} | pools
        cluster = f"{4 if pools else 2}x h100-sxm-80gb"
        sizes = {"batch": batch, "prompt_tokens": 512, "output_tokens": 512, "continuous": True}
        return predict_generation(generation(model="qwen3-32b", cluster=cluster, plan=plan, **sizes))

    all_run, some, most = limited(16), limited(24), limited(48)
    assert some.tpot_s == pytest.approx(all_run.tpot_s, rel=0.01)
    assert most.latency_s == pytest.approx(2.0 * some.latency_s)
    assert most.memory_bytes == some.memory_bytes
