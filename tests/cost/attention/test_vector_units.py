"""Decoding where each query head walks along its keys and values by itself, on vector units."""

from dataclasses import replace

import numpy as np
import pytest
from operators import cached

from sightline.cost.attention import VECTOR_FLOPS_PER_UNIT, decode_attention_cost, vector_attention


@pytest.fixture(scope="module")
def a100():
    from sightline.loading import generation_from_mapping

    mapping = {
        "model": "llama-2-7b",
        "cluster": "1x a100-sxm-80gb",
        "workload": {"task": "generate", "batch": 1, "prompt_tokens": 8, "output_tokens": 8},
        "plan": {"framework": "tensorrt-llm"},
    }
    return generation_from_mapping(mapping).cluster.device


def time_s(device, *, heads, kv_heads, kv_bytes=2.0, apart=True):
    how = {"dtype": "fp16", "decode": True, "cache_bytes": kv_bytes, "heads_apart": apart}
    operator = cached(64.0, heads, kv_heads, 128.0, 1.0, 2048.0, **how)
    constants = vector_attention(device.vector_flops / device.compute_units)
    return float(decode_attention_cost(operator, device, constants).time_s)


def test_heads_that_share_a_cache_cost_nearly_as_much_as_heads_with_their_own(a100):
    shared, own = time_s(a100, heads=32.0, kv_heads=4.0), time_s(a100, heads=32.0, kv_heads=32.0)
    assert 0.6 * own < shared < own


def test_a_stronger_vector_unit_helps_heads_apart_until_the_l2_binds(a100):
    stronger = replace(a100, vector_flops=4.0 * a100.vector_flops)
    far_l2 = replace(stronger, l2_bandwidth=0.25 * a100.l2_bandwidth)
    assert time_s(stronger, heads=32.0, kv_heads=4.0) < 0.8 * time_s(a100, heads=32.0, kv_heads=4.0)
    assert time_s(far_l2, heads=32.0, kv_heads=4.0) > time_s(a100, heads=32.0, kv_heads=4.0)


def test_on_the_measured_device_the_rate_of_a_unit_is_the_measured_one():
    measured, doubled = vector_attention(VECTOR_FLOPS_PER_UNIT), vector_attention(2.0 * VECTOR_FLOPS_PER_UNIT)
    assert doubled.unit_bandwidth == pytest.approx(2.0 * measured.unit_bandwidth)


def test_devices_may_be_an_array():
    rates = vector_attention(VECTOR_FLOPS_PER_UNIT * np.array([1.0, 2.0])).unit_bandwidth
    assert rates[1] == pytest.approx(2.0 * rates[0])
