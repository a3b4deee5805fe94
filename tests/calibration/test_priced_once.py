"""A fit's columns say what the engine's own passes say."""

from dataclasses import replace

import pytest
from engine_fit import TabledPass, tabled
from generation_scenarios import generation

from sightline.prediction.generation.engine_constants import load_inference
from sightline.prediction.generation.policies import latencies, price_workers


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3"])
@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm", "sglang"])
@pytest.mark.parametrize("drafts", [None, {"tokens": 2, "acceptance": 0.7}])
def test_columns_take_as_long_as_operators_one_by_one(model, engine, drafts):
    plan = {"framework": engine, "tensor_parallel": 8} | ({"speculative": drafts} if drafts else {})
    workers = price_workers(generation(model=model, cluster="8x b200-sxm-180gb", batch=64, plan=plan, continuous=True))
    columns = tabled(workers)
    assert isinstance(columns.decoding.decode, TabledPass)
    constants = replace(load_inference(engine)[0], collective_slowdown=1.7, experts_slowdown=0.01, kernel_gap_s=1e-5)
    one, other = latencies(workers, constants), latencies(columns, constants)
    assert other.ttft_s == pytest.approx(one.ttft_s, rel=1e-12)
    assert other.tpot_s == pytest.approx(one.tpot_s, rel=1e-12)
