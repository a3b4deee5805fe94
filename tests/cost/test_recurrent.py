"""Recurrent mixers: decoding streams states, prefill grows with tokens, one H20's published kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.recurrent import gated_delta_cost, load_linear, short_convolution_cost, state_space_cost
from sightline.loading.clusters import read_cluster
from sightline.program.mixer_operators import GatedDelta, ShortConvolution, StateSpaceScan

H20, H100 = (read_cluster(f"1x {name}").device for name in ("h20", "h100-sxm-80gb"))
DELTA, _ = load_linear("h20", "gated-delta")
SCAN, _ = load_linear("generic", "state-space")


def delta(sequences, tokens, *, decode, heads=32, device=H20):
    heads_of = {"key_heads": heads / 2, "value_heads": heads, "key_dim": 128, "value_dim": 128}
    passed = {"sequences": sequences, "new_tokens": tokens, "decode": decode, "dtype": "bf16", "element_bytes": 2}
    return gated_delta_cost(
        GatedDelta(module="linear attention", part="gated delta", **heads_of, **passed), device, DELTA
    )


def scan(sequences, tokens, *, decode, device=H100):
    heads = {"heads": 128, "head_dim": 64, "groups": 8, "state": 128}
    passed = {"sequences": sequences, "new_tokens": tokens, "decode": decode, "dtype": "bf16", "element_bytes": 2}
    return state_space_cost(StateSpaceScan(module="state space", part="scan", **heads, **passed), device, SCAN)


def channels(sequences, tokens, *, decode, device=H100):
    """Mamba-1: every channel is a head of its own."""
    heads = {"heads": 8192, "head_dim": 1, "groups": 1, "state": 16}
    passed = {"sequences": sequences, "new_tokens": tokens, "decode": decode, "dtype": "bf16", "element_bytes": 2}
    return state_space_cost(StateSpaceScan(module="state space", part="scan", **heads, **passed), device, SCAN)


def conv(sequences, tokens, *, decode):
    passed = {"sequences": sequences, "new_tokens": tokens, "decode": decode, "element_bytes": 2}
    convolution = ShortConvolution(module="linear attention", part="conv", channels=8192, width=4, **passed)
    return short_convolution_cost(convolution, H20, DELTA)


@pytest.mark.parametrize("cost", [delta, scan, channels, conv])
@given(sequences=st.integers(1, 1024), tokens=st.integers(1, 65536), decode=st.booleans())
def test_no_mixer_is_faster_than_its_roofline(cost, sequences, tokens, decode):
    time_s, compute_s, memory_s, least_s = cost(sequences, tokens, decode=decode)[:4]
    assert time_s >= least_s == max(compute_s, memory_s)


@pytest.mark.parametrize("cost", [delta, scan, channels, conv])
@given(sequences=st.integers(1, 256), tokens=st.integers(1, 32768), factor=st.integers(2, 5))
def test_more_tokens_or_sequences_are_never_faster(cost, sequences, tokens, factor):
    base = cost(sequences, tokens, decode=False).time_s
    assert cost(sequences, factor * tokens, decode=False).time_s >= base
    assert cost(factor * sequences, tokens, decode=False).time_s >= base


@pytest.mark.parametrize("cost", [delta, scan])
def test_the_context_costs_decoding_nothing_and_prefill_grows_with_tokens_alone(cost):
    assert cost(8, 1, decode=True).time_s < 5e-5
    long, short = cost(1, 65536, decode=False).time_s, cost(1, 8192, decode=False).time_s
    assert long / short == pytest.approx(8, rel=0.1)


@pytest.mark.parametrize(("sequences", "update_us", "conv_us"), [(64, 129, 18), (256, 483, 49), (1024, 1914, 159)])
def test_decoding_is_as_infersim_measured_it(sequences, update_us, conv_us):
    assert delta(sequences, 1, decode=True).time_s * 1e6 == pytest.approx(update_us, rel=0.05)
    assert conv(sequences, 1, decode=True).time_s * 1e6 == pytest.approx(conv_us, rel=0.1)


def test_prefill_is_as_infersim_measured_it():
    assert delta(1, 4096, decode=False).time_s * 1e6 == pytest.approx(45 + 86 + 79 + 188 + 129, rel=0.05)
    assert conv(1, 4096, decode=False).time_s * 1e6 == pytest.approx(65, rel=0.05)


def test_one_long_prompt_goes_from_chunk_to_chunk_while_many_share_the_device():
    alone = delta(1, 16384, decode=False).time_s
    together = delta(16, 1024, decode=False).time_s
    assert together < alone


@pytest.mark.parametrize("decode", [False, True])
def test_many_shapes_at_once_equal_them_one_by_one(decode):
    sequences, tokens = np.array([1.0, 64.0])[:, None], np.array([1.0, 512.0, 4096.0])
    for cost in (delta, scan, conv):
        grid = cost(sequences, tokens, decode=decode).time_s
        assert grid.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            assert grid[i, j] == pytest.approx(float(cost(sequences[i, 0], tokens[j], decode=decode).time_s))


def test_heads_of_one_channel_work_on_vector_units():
    time_s, compute_s, memory_s, *_ = channels(8, 2048, decode=False)
    tokens = 8 * 2048
    assert compute_s == pytest.approx(6 * tokens * 8192 * 16 / H100.vector_flops)
    assert time_s == pytest.approx(max(compute_s, memory_s / SCAN.memory_fraction) + SCAN.latency_s)
