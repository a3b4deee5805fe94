"""Names and units of columns, told by their keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.report.studies.quantities import NOTHING, quantity_of, worded


@pytest.mark.parametrize(
    ("key", "value", "heading", "text", "axis"),
    [
        ("step_time_s", 29.1, "step time", "29.1 s", "step time (seconds)"),
        ("energy_per_step_j", 5e6, "energy per step", "1.39 kWh", "energy per step (kWh)"),
        ("cost_usd_per_million_tokens", 0.02, "cost per million tokens", "$0.0200", "cost (USD per million tokens)"),
        ("j_per_token", 0.3, "energy per token", "0.300 J", "energy (J per token)"),
        ("price_usd", 1599, "price", "$1,599", "price (USD)"),
        ("flops_per_s_per_usd", 6e8, "FLOP/s per USD", "600 MFLOP/s", "MFLOP/s per USD"),
        ("cluster.device.memory_bandwidth", 2e12, "memory bandwidth", "2 TB/s", "memory bandwidth (TB/s)"),
        ("cluster.network.bandwidth_per_node", 5e10, "network bandwidth per node", "50 GB/s", None),
        ("cluster.intra_node.latency_s", 2e-6, "intra node latency", "2.00 us", "intra node latency (microseconds)"),
        ("cluster.device.memory_bytes", 80 * 2**30, "memory", "80.0 GiB", "memory (GiB)"),
        ("memory_bytes.kv_cache", 2**30, "KV cache memory", "1.00 GiB", "KV cache memory (GiB)"),
        ("compute_share", 0.25, "compute", "25.0 %", "compute (%)"),
        ("mfu", 0.5, "MFU", "50.0 %", "MFU (%)"),
        ("year", 2006.0, "year", "2006", "year"),
        ("die_area_mm2", 814.0, "die area", "814 mm2", "die area (mm2)"),
        ("gain", 35.13, "gain", "35.1", "gain"),
        ("devices", 100_000, "devices", "100,000", "devices"),
    ],
)
def test_a_key_tells_name_and_unit(key, value, heading, text, axis):
    quantity = quantity_of(key)
    assert quantity.heading == heading
    assert quantity.text(value) == text
    if axis is not None:
        assert quantity.titled(quantity.scaled(value)[1]) == axis


def test_readers_may_see_another_name_whose_unit_is_said_once():
    quantity = quantity_of("latency_s", {"latency_s": "time of an answer, s"})
    assert quantity.titled(quantity.scaled(2.0)[1]) == "time of an answer (seconds)"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("dram", "DRAM"),
        ("l2", "L2"),
        ("compute", "compute"),
        ("device.memory_bandwidth", "memory bandwidth"),
        ("network.bandwidth_per_node", "network bandwidth per node"),
        ("qwen2.5", "qwen2.5"),
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("HBM2E", "HBM2E"),
    ],
)
def test_levels_and_keys_are_said_in_words(value, words):
    assert worded(value) == words


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_is_not_there_is_a_dash(value):
    assert quantity_of("step_time_s").text(value) == NOTHING


@given(
    st.sampled_from(["step_time_s", "memory_bandwidth", "energy_j", "power_w", "kv_bytes", "mfu", "gain", "rent_usd"]),
    st.floats(1e-9, 1e24),
)
def test_values_of_any_size_have_a_short_text(key, value):
    assert 0 < len(quantity_of(key).text(value)) < 40
    divisor, _ = quantity_of(key).scaled(value)
    assert divisor > 0
