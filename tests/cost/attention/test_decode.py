"""Attention of few queries over a long cache: bounded by physics, splits, rounds, shared latents, windows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operators import cached

from sightline.cost.attention import decode_attention_cost, load_decode_attention
from sightline.cost.attention_constants import PHASE_PARTS
from sightline.cost.families import evidence_of, family_of
from sightline.loading.clusters import read_cluster

NAMES = ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb", "h20", "rtx-4090", "l40s-48gb")
DEVICES = {name: read_cluster(f"1x {name}").device for name in NAMES}
SHAPES = st.tuples(
    st.integers(1, 512),
    st.sampled_from([(8, 8), (32, 8), (64, 1), (24, 2), (128, 1)]),
    st.sampled_from([64, 128, 256]),
    st.integers(1, 4),
    st.integers(1, 200_000),
    st.sampled_from([1, 2]),
)


def cost(batch, heads, head_dim, queries, context, kv_bytes=2, *, device="h100-sxm-80gb", phase="decode", **options):
    chosen = DEVICES[device]
    in_l2 = options.pop("in_l2", False)
    shape = (batch, *heads, head_dim, queries, context)
    operator = cached(*shape, decode=True, cache_bytes=kv_bytes, **options)
    constants = load_decode_attention(family_of(chosen, PHASE_PARTS[phase]), phase)
    return decode_attention_cost(operator, chosen, constants, in_l2=in_l2)


def latent(batch, context, **options):
    return cost(batch, (128, 1), 576, 1, context, value_dim=512, shared_kv=True, phase="mla-decode", **options)


@settings(max_examples=20)
@given(shape=SHAPES, device=st.sampled_from(NAMES), warm=st.booleans())
def test_no_step_is_faster_than_either_leg_of_the_roofline(shape, device, warm):
    time_s, compute_s, memory_s, least_s = cost(*shape, device=device, in_l2=warm)[:4]
    assert time_s >= least_s == max(compute_s, memory_s) > 0


@settings(max_examples=20)
@given(shapes=st.lists(SHAPES, min_size=1, max_size=5), device=st.sampled_from(NAMES))
def test_many_at_once_cost_what_each_costs_alone(shapes, device):
    batch, heads, dim, queries, context, kv_bytes = (np.array(c) for c in zip(*shapes, strict=True))
    together = cost(batch, (heads[:, 0], heads[:, 1]), dim, queries, context, kv_bytes, device=device)
    for i, shape in enumerate(shapes):
        for stacked, alone in zip(together, cost(*shape, device=device), strict=True):
            assert np.broadcast_to(stacked, len(shapes))[i] == pytest.approx(float(alone), rel=1e-9)


def test_the_legs_count_the_cache_once_and_every_head():
    device = DEVICES["h100-sxm-80gb"]
    moved = 16 * 4096 * 8 * 256 * 2 + 2 * 16 * 32 * 256
    answer = cost(16, (32, 8), 128, 1, 4096)
    assert answer.memory_s == pytest.approx(moved / device.memory_bandwidth)
    assert answer.compute_s == pytest.approx(4 * 16 * 32 * 4096 * 128 / device.peak_flops["bf16"])


def test_a_latent_is_read_once_for_key_and_value():
    device = DEVICES["h100-sxm-80gb"]
    moved = 64 * 4096 * 576 * 2 + 2 * 64 * 128 * (576 + 512)
    assert latent(64, 4096).memory_s == pytest.approx(moved / device.memory_bandwidth)
    assert latent(64, 65536).compute_s > latent(64, 65536).memory_s / 2


def test_a_long_context_of_one_sequence_is_split_over_the_device():
    one, many = cost(1, (32, 8), 128, 1, 131072), cost(64, (32, 8), 128, 1, 2048)
    assert one.time_s < 1.3 * many.time_s


def test_heads_that_share_keys_and_values_cost_little_more():
    assert cost(64, (64, 8), 128, 1, 8192).time_s < 1.1 * cost(64, (16, 8), 128, 1, 8192).time_s


def test_eight_bits_read_faster_in_long_contexts():
    ratio = cost(64, (32, 8), 128, 1, 32768, 1).time_s / cost(64, (32, 8), 128, 1, 32768, 2).time_s
    assert 0.5 < ratio < 0.75


def test_a_window_bounds_what_is_read():
    assert cost(64, (32, 8), 128, 1, 32768, window=1024).time_s == cost(64, (32, 8), 128, 1, 1024).time_s


def test_a_benchmark_finds_a_small_cache_in_l2_and_a_model_does_not():
    cold, warm = (cost(1, (32, 8), 128, 1, 8192, device="b200-sxm-180gb", in_l2=x).time_s for x in (False, True))
    assert warm < 0.9 * cold
    cold, warm = (cost(64, (32, 8), 128, 1, 8192, device="b200-sxm-180gb", in_l2=x).time_s for x in (False, True))
    assert warm == pytest.approx(cold, rel=0.01)


def test_speculation_costs_less_than_its_tokens_apart():
    one, four = (cost(32, (32, 8), 128, q, 8192).time_s for q in (1, 4))
    assert one <= four < 2 * one


def test_constants_come_from_the_nearest_family():
    assert family_of(DEVICES["h100-sxm-80gb"], PHASE_PARTS["decode"]) == "h100-sxm"
    assert evidence_of(DEVICES["h100-sxm-80gb"], PHASE_PARTS["decode"]) == "calibrated"
    assert family_of(DEVICES["l40s-48gb"], PHASE_PARTS["mla-decode"]) in {"generic", "h800-sxm", "h20"}


def test_tiles_keep_to_their_units_share_of_the_memory():
    constants = replace(load_decode_attention("h100-sxm"), surface=None)
    slow = DEVICES["h100-sxm-80gb"]
    fast = replace(slow, memory_bandwidth=2 * slow.memory_bandwidth, l2_bandwidth=2 * slow.l2_bandwidth)

    def seconds(device):
        cost = decode_attention_cost(cached(1, 8, 1, 128, 1, 300, decode=True), device, constants)
        return cost.time_s - constants.latency_s

    assert seconds(fast) == pytest.approx(0.5 * seconds(slow), rel=0.1)
