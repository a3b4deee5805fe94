"""The bytes that cross L2: never fewer than those of the memory, and again for every block of results."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.calibration.manifest import device_of
from sightline.cost.device_model import device_model
from sightline.cost.l2 import BLOCK_SIDE, l2_bytes, l2_s, least_s
from sightline.cost.prices import OperatorCost
from sightline.program import CachedAttention, Collective, Elementwise, FlashAttention, GroupedMatmul, Matmul
from sightline.program.mixer_operators import SelectedAttention

SIZES = st.integers(1, 20_000)


def _matmul(m, n, k, **more):
    formats = {"dtype": "bf16", "element_bytes": 2.0, "output_bytes": 2.0}
    return Matmul(module="mlp", part="matmul", m=m, n=n, k=k, **formats, **more)


def _attention(kind, queries, context, *, heads=32, kv_heads=8, **more):
    return kind(
        module="attention core",
        part="flash attention",
        batch=2,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        value_dim=128,
        query_tokens=queries,
        context_tokens=context,
        dtype="bf16",
        element_bytes=2.0,
        **more,
    )


def _cached(queries, context, **more):
    settings = {"decode": queries < 8, "cache_bytes": 2.0, **more}
    return _attention(CachedAttention, queries, context, **settings)


@given(m=SIZES, n=SIZES, k=SIZES, batch=st.integers(1, 64))
def test_a_product_moves_no_less_across_l2_than_the_memory_does(m, n, k, batch):
    op = _matmul(m, n, k, batch=batch)
    assert l2_bytes(op) >= op.bytes * (1.0 - 1e-9)
    assert l2_bytes(replace(op, m=2 * m)) <= 2.0 * l2_bytes(op) * (1.0 + 1e-9)


def test_a_matrix_vector_product_moves_its_bytes_once():
    op = _matmul(1, 16384, 16384)
    assert l2_bytes(op) == pytest.approx(op.bytes)


def test_a_large_product_reads_operands_again_for_every_block():
    n = 16 * BLOCK_SIDE
    op = _matmul(n, n, n)
    assert l2_bytes(op) == pytest.approx(n * n * (16 * 2 * 2.0 + 2.0))


@given(rows=SIZES, experts=st.integers(1, 256), n=SIZES, k=SIZES)
def test_experts_move_no_less_than_the_rows_and_matrices_of_active_ones(rows, experts, n, k):
    active = min(experts, rows)
    op = GroupedMatmul(
        module="experts",
        part="matmul",
        rows=rows,
        experts=experts,
        active=active,
        n=n,
        k=k,
        dtype="bf16",
        element_bytes=2.0,
        weight_bytes=2.0,
        output_bytes=2.0,
        kernel="16-bit",
    )
    assert l2_bytes(op) >= op.bytes * (1.0 - 1e-9)


@given(queries=SIZES, more=st.integers(0, 100_000), backward=st.booleans())
def test_attention_reads_keys_and_values_again_the_more_queries_there_are(queries, more, backward):
    direction = "backward" if backward else "forward"
    op = _attention(FlashAttention, queries, queries + more, direction=direction)
    assert l2_bytes(op) >= op.bytes
    assert l2_bytes(replace(op, query_tokens=2 * queries, context_tokens=2 * queries + more)) >= l2_bytes(op)
    cached = _cached(queries, queries + more)
    assert l2_bytes(cached) >= cached.bytes


def test_a_decode_step_reads_its_cache_once_and_heads_that_are_apart_each_for_themselves():
    op = _cached(1, 8192)
    assert l2_bytes(op) == op.bytes
    apart = _cached(1, 8192, heads_apart=True)
    assert l2_bytes(apart) == pytest.approx(4.0 * op.bytes, rel=0.01)


def test_sparse_attention_gathers_the_tokens_of_every_query():
    op = SelectedAttention(
        module="attention core",
        part="flash attention",
        sequences=1,
        new_tokens=4096,
        context_tokens=65536,
        selected_tokens=2048,
        heads=64,
        key_dim=576,
        value_dim=512,
        cache_bytes=2.0,
        decode=False,
        dtype="bf16",
        element_bytes=2.0,
    )
    assert l2_bytes(op) == 4096 * 2048 * 576 * 2.0 > op.bytes


def test_kernels_that_stream_cross_once_and_collectives_and_processors_have_no_leg():
    kernel = Elementwise(module="norm", part="norm", traffic_bytes=1e9)
    gpu = device_model(device_of("h100-sxm"))
    assert l2_s(kernel, gpu) == pytest.approx(1e9 / gpu.device.l2_bandwidth)
    collective = Collective(module="mlp", part="all-reduce", kind="all_reduce", buffer_bytes=1e9)
    assert l2_s(collective, gpu) == 0.0


def test_the_longest_leg_is_reached_with_a_share_of_its_rate():
    kernel = Elementwise(module="norm", part="norm", traffic_bytes=1e9)
    gpu = device_model(device_of("h100-sxm"))
    for compute_s, memory_s, leg_s in (
        (1.0, 0.5, 1.0 / 0.8),
        (0.5, 1.0, 1.0 / 0.4),
        (0.0, 0.0, l2_s(kernel, gpu) / 0.4),
    ):
        price = OperatorCost(3.0, compute_s, memory_s)
        assert least_s(kernel, price, gpu, peak_share=0.8, bandwidth_share=0.4) == pytest.approx(leg_s)


def test_an_unknown_kind_of_operator_is_an_error():
    class Unheard(Elementwise):
        pass

    with pytest.raises(KeyError, match="Unheard"):
        l2_bytes(Unheard(module="norm", part="norm", traffic_bytes=1.0))
