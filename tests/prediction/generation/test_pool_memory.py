"""Workers that only prefill have to hold the model too, on devices of the same kind as those that decode."""

from dataclasses import replace

import pytest
from generation_scenarios import generation

from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.policies import price_workers


def pools(prefill: int, decode: int, batch: int = 1):
    plan = {
        "framework": "vllm",
        "quantization": "none",
        "disaggregate": {
            "prefill": {"tensor_parallel": prefill, "batch": batch},
            "decode": {"tensor_parallel": decode},
        },
    }
    return generation(model="llama-2-70b", cluster=f"{prefill + decode}x h100-sxm-80gb", batch=4, plan=plan)


def test_the_fullest_device_may_be_one_that_prefills():
    few, as_many = (predict_generation(pools(prefill, 4)) for prefill in (1, 4))
    assert not few.fits
    assert as_many.fits
    assert few.memory_bytes["weights"] == pytest.approx(4 * as_many.memory_bytes["weights"], rel=0.01)


def test_more_prompts_at_once_take_more_memory_of_prefill_workers():
    one, many = (predict_generation(pools(2, 8, batch)).memory_bytes for batch in (1, 16))
    assert many["kv_cache"] == pytest.approx(16 * one["kv_cache"])
    assert many["total"] > one["total"]


def test_devices_of_another_kind_have_their_own_limit():
    scenario = pools(1, 4)
    split = replace(scenario.plan.disaggregate, prefill_cluster=generation(cluster="1x b200-sxm-180gb").cluster)
    workers = price_workers(replace(scenario, plan=replace(scenario.plan, disaggregate=split)))
    memory = generation_memory(workers.decoding, workers.prefilling, scenario.workload)
    alone = predict_generation(pools(4, 4)).memory_bytes
    assert memory["weights"] == pytest.approx(alone["weights"])
