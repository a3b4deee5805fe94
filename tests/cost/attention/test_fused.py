"""The fused attention formula: never faster than physics, masks, padding and waves where the kernel has them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import cached, flash

from sightline.cost.attention import attention_cost
from sightline.cost.attention_constants import load_attention, load_prefill_attention
from sightline.loading.clusters import read_cluster

DEVICES = {name: read_cluster(f"1x {name}-80gb").device for name in ("a100-sxm", "h100-sxm")}
KERNELS = ("flash-1", "flash-2", "flash-3")
SHAPES = st.tuples(
    st.integers(1, 16),
    st.sampled_from([(8, 8), (32, 8), (12, 1)]),
    st.sampled_from([40, 64, 80, 112, 128, 150, 256]),
    st.integers(1, 20_000),
    st.booleans(),
    st.booleans(),
)


def cost(
    batch, heads, head_dim, tokens, causal=True, backward=False, *, device="a100-sxm", kernel="flash-2", **context
):
    query_heads, kv_heads = heads if isinstance(heads, tuple) else (heads, heads)
    shape = (batch, query_heads, kv_heads, head_dim, tokens, context.pop("context_tokens", tokens))
    of_engine = cached(*shape, causal=causal, **context)
    operator = of_engine if context else flash(*shape, causal=causal, backward=backward)
    return attention_cost(operator, DEVICES[device], load_attention(device, kernel))


@given(shape=SHAPES, device=st.sampled_from(list(DEVICES)), kernel=st.sampled_from((*KERNELS, "cudnn")))
def test_no_pass_is_faster_than_either_leg_of_the_roofline(shape, device, kernel):
    time_s, compute_s, memory_s, least_s = cost(*shape, device=device, kernel=kernel)[:4]
    assert time_s > least_s == max(compute_s, memory_s) > 0


@given(shapes=st.lists(SHAPES, min_size=1, max_size=6), backward=st.booleans())
def test_many_at_once_cost_what_each_costs_alone(shapes, backward):
    batch, heads, head_dim, tokens, causal, _ = zip(*shapes, strict=True)
    columns = [np.array(c) for c in (batch, [h[0] for h in heads], [h[1] for h in heads], head_dim, tokens, causal)]
    together = cost(columns[0], (columns[1], columns[2]), *columns[3:], backward)
    for i, shape in enumerate(shapes):
        for stacked, alone in zip(together, cost(*shape[:5], backward), strict=True):
            assert np.broadcast_to(stacked, len(shapes))[i] == pytest.approx(float(alone), rel=1e-12)


def test_the_compute_leg_counts_seen_scores_and_five_products_backward():
    flops = 4 * 2 * 16 * 4096**2 * 128
    peak = DEVICES["a100-sxm"].peak_flops["bf16"]
    assert cost(2, 16, 128, 4096, causal=False).compute_s == pytest.approx(flops / peak)
    assert cost(2, 16, 128, 4096).compute_s == pytest.approx(flops * (4097 / 8192) / peak)
    assert cost(2, 16, 128, 4096, causal=False, backward=True).compute_s == pytest.approx(2.5 * flops / peak)


def test_queries_at_the_end_of_a_long_context_see_nearly_all_of_it():
    late = cost(2, 16, 128, 512, context_tokens=8192).compute_s
    full = cost(2, 16, 128, 512, causal=False, context_tokens=8192).compute_s
    assert 0.95 * full < late < full


def test_masking_halves_long_passes_and_saves_less_of_short_ones():
    ratio = [
        float(cost(batch, 16, 128, tokens).time_s) / float(cost(batch, 16, 128, tokens, causal=False).time_s)
        for batch, tokens in ((1, 16384), (32, 512))
    ]
    assert 0.5 < ratio[0] < 0.56 < 0.6 < ratio[1] < 1


def test_odd_heads_cost_what_the_next_granule_costs():
    padded = load_attention("a100-sxm").head_granule
    width = int(4 * padded)
    for odd in (width - 1, width - 8):
        assert cost(2, 16, odd, 4096).time_s == pytest.approx(float(cost(2, 16, width, 4096).time_s))
    assert cost(2, 16, width + 1, 4096).time_s > 1.1 * cost(2, 16, width, 4096).time_s


def test_narrow_heads_spend_more_of_their_time_in_the_softmax():
    rate = [float(c.compute_s / c.time_s) for c in (cost(2, 16, d, 8192, causal=False) for d in (64, 128))]
    assert rate[0] < 0.95 * rate[1]


def test_one_query_block_beyond_a_full_wave_costs_another_wave():
    units = int(DEVICES["a100-sxm"].compute_units)
    full, beyond = (float(cost(b, 1, 128, 128, causal=False, context_tokens=8192).time_s) for b in (units, units + 1))
    assert beyond > 1.8 * full


@pytest.mark.parametrize(("device", "order"), [("a100-sxm", KERNELS[:2]), ("h100-sxm", KERNELS)])
def test_every_generation_is_faster_than_the_one_before(device, order):
    for backward in (False, True):
        times = [float(cost(2, 16, 128, 8192, backward=backward, device=device, kernel=k).time_s) for k in order]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)


def test_shared_keys_and_values_move_fewer_bytes():
    assert cost(2, (32, 4), 128, 4096).memory_s < 0.6 * cost(2, 32, 128, 4096).memory_s


@pytest.mark.parametrize(("queries", "context", "window"), [(7, 7, 3), (4, 20, 8), (16, 20, 8), (5, 9, 50), (9, 9, 1)])
def test_a_window_counts_the_scores_inside_it(queries, context, window):
    seen = sum(min(context - queries + i + 1, window) for i in range(queries))
    answer = cost(2, 16, 128, queries, context_tokens=context, window=window)
    assert answer.compute_s == pytest.approx(4 * 2 * 16 * 128 * seen / DEVICES["a100-sxm"].peak_flops["bf16"])


def test_a_narrower_value_costs_its_share_and_a_smaller_cache_its_bytes():
    equal, narrow = cost(2, 16, 192, 4096), cost(2, 16, 192, 4096, value_dim=128)
    assert narrow.compute_s == pytest.approx(320 / 384 * equal.compute_s)
    assert narrow.time_s < equal.time_s
    assert (
        cost(2, 16, 128, 64, context_tokens=8192, cache_bytes=1).memory_s
        < 0.52 * cost(2, 16, 128, 64, context_tokens=8192).memory_s
    )


def test_matmuls_and_softmax_hide_each_other():
    constants = load_prefill_attention("h100-sxm")
    shape = (1, 32, 32, 128, 8192, 8192)

    def seconds(**changed):
        changed_constants = replace(constants, surface=None, **changed)
        return attention_cost(cached(*shape, causal=False), DEVICES["h100-sxm"], changed_constants).time_s

    apart = seconds(overlap=1.0)
    assert seconds(overlap=8.0) < seconds() < apart
    # kernels move exponentials elsewhere once they take longer than the matmuls
    assert seconds(softmax_flops=1e3) == seconds(softmax_flops=1e4)
    assert seconds(softmax_flops=1e4, most_softmax=np.inf) > 3 * seconds(softmax_flops=1e4)


def test_constants_travel_to_devices_with_slower_matmuls():
    h20 = read_cluster("1x h20").device
    shape = (1, 32, 32, 128, 16384, 16384)

    def share(device):
        constants = replace(load_prefill_attention("h100-sxm"), surface=None, throttled_share=0.0)
        cost = attention_cost(cached(*shape), device, constants)
        return cost.compute_s / cost.time_s

    # H20 has a seventh of H100's matmuls but two thirds of its softmax
    assert share(h20) > 1.25 * share(DEVICES["h100-sxm"])


def engine(tokens, kv_heads, kv_bytes=2, heads=64, batch=16, **changes):
    """Seconds of H100's prefill kernel without its surface, with other constants."""
    plain = {
        "surface": None,
        "write_round_s": 0.0,
        "throttled_share": 0.0,
        "query_conversion_s": 0.0,
        "query_conversion": 0.0,
    }
    operator = cached(batch, heads, kv_heads, 128, tokens, tokens, cache_bytes=kv_bytes)
    constants = replace(load_prefill_attention("h100-sxm"), **plain | changes)
    return attention_cost(operator, DEVICES["h100-sxm"], constants).time_s


def test_a_tokens_block_of_threads_grows_with_its_keys_up_to_its_most_threads():
    writing = [engine(512, kv, write_round_s=4e-6) - engine(512, kv) for kv in (1, 2, 4, 8, 32)]
    units = DEVICES["h100-sxm"].compute_units
    assert writing[0] == pytest.approx(4e-6 * 16 * 512 * 128 / 2048 / units)
    assert writing[1:3] == pytest.approx([2 * writing[0], 4 * writing[0]])
    assert writing[3:] == pytest.approx([writing[2]] * 2)


@given(st.integers(64, 16384), st.integers(256, 16384))
def test_the_power_limit_slows_long_kernels_in_16_bits_more_than_short_ones(tokens, more):
    slower = [engine(t, 8, throttled_share=0.2) / engine(t, 8) for t in (tokens, tokens + more)]
    assert 1 <= slower[0] < slower[1] < 1 / (1 - 0.2)
    assert engine(tokens, 8, 1, throttled_share=0.2) == engine(tokens, 8, 1)


def test_only_a_narrow_cache_has_its_queries_narrowed():
    made = {"query_conversion_s": 2e-6, "query_conversion": 0.5}
    assert engine(2048, 8, **made) == engine(2048, 8)
    moved = 16 * 64 * 2048 * 2 * 256
    expected = 2e-6 + 0.5 * moved / DEVICES["h100-sxm"].memory_bandwidth
    assert engine(2048, 8, 1, **made) - engine(2048, 8, 1) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tokens", "causal", "forward", "backward"),
    # NVIDIA/cudnn-frontend@505fcfe benchmark/benchmark_results.csv, TFLOP/s of cuDNN 9.1 on H200 by their count.
    [(4096, True, 542.3, 443.6), (8192, True, 572.9, 463.5), (16384, True, 586.8, 497.7), (16384, False, 641.9, 538.5)],
)
def test_cudnn_is_as_fast_as_its_published_table(tokens, causal, forward, backward):
    batch, heads = 16384 / tokens, 16
    flops = 4 * batch * heads * tokens**2 * 128 * (0.5 if causal else 1.0)
    for is_backward, rate, products in ((False, forward, 1.0), (True, backward, 2.5)):
        pass_ = cost(batch, heads, 128, tokens, causal, is_backward, device="h100-sxm", kernel="cudnn")
        assert pass_.time_s == pytest.approx(products * flops / (rate * 1e12), rel=0.03)
