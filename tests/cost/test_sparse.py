"""Sparse attention: the indexer sees every token, attention the selected ones; one H800's published kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.recurrent import indexer_cost, load_sparse, sparse_attention_cost
from sightline.loading.clusters import read_cluster
from sightline.program.mixer_operators import Indexer, SelectedAttention

H800 = read_cluster("1x h800-sxm-80gb").device
CONSTANTS = load_sparse("h800-sxm")
SIZES = {"sequences": st.integers(1, 256), "tokens": st.integers(1, 8192), "before": st.integers(0, 131072)}


def index(sequences, tokens, context):
    sizes = {"sequences": sequences, "new_tokens": tokens, "context_tokens": context, "heads": 64, "head_dim": 128}
    return indexer_cost(
        Indexer(module="indexer", part="scores", dtype="fp8", key_bytes=1.03125, **sizes), H800, CONSTANTS
    )


def attend(sequences, tokens, context, *, decode=False, cache_bytes=2.0):
    tokens_of = {"sequences": sequences, "new_tokens": tokens, "context_tokens": context, "selected_tokens": 2048}
    how = {"heads": 128, "key_dim": 576, "value_dim": 512, "dtype": "bf16", "element_bytes": 2}
    attention = SelectedAttention(
        module="attention core",
        part="selected attention",
        decode=decode,
        cache_bytes=cache_bytes,
        **tokens_of,
        **how,
    )
    return sparse_attention_cost(attention, H800, CONSTANTS)


@pytest.mark.parametrize("cost", [index, attend])
@given(**SIZES)
def test_no_kernel_is_faster_than_its_roofline(cost, sequences, tokens, before):
    time_s, compute_s, memory_s, least_s = cost(sequences, tokens, tokens + before)[:4]
    assert time_s >= least_s == max(compute_s, memory_s)


@given(**SIZES)
def test_beyond_the_selection_the_context_costs_attention_nothing(sequences, tokens, before):
    near, far = (attend(sequences, tokens, tokens + before + more, decode=True) for more in (10_000, 1_000_000))
    assert far.compute_s == near.compute_s
    assert far.time_s == pytest.approx(near.time_s, rel=0.3)


def test_the_indexer_grows_with_the_context():
    assert index(64, 1, 131072).time_s > 6 * index(64, 1, 16384).time_s
    assert index(1, 4096, 131072).time_s > 7 * index(1, 4096, 16384).time_s


@pytest.mark.parametrize(
    ("sequences", "tokens", "context", "measured_us"),
    [
        (64, 1, 131072, 394.0),
        (64, 2, 131072, 406.0),
        (64, 1, 8192, 36.2),
        (1, 2048, 131072, 3746),
        (1, 4096, 4096, 138.2),
    ],
)
def test_the_indexer_is_as_infersim_measured_it(sequences, tokens, context, measured_us):
    assert index(sequences, tokens, context).time_s * 1e6 == pytest.approx(measured_us, rel=0.1)


@pytest.mark.parametrize("context", [4096, 131072])
def test_attention_is_as_infersim_measured_it(context):
    assert attend(1, 4096, context).time_s * 1e3 == pytest.approx(3.7, rel=0.05)
    assert attend(64, 1, context, decode=True, cache_bytes=656 / 576).time_s * 1e6 == pytest.approx(96, rel=0.05)


def test_many_shapes_at_once_equal_them_one_by_one():
    sequences, context = np.array([1.0, 64.0])[:, None], np.array([512.0, 8192.0, 65536.0])
    for cost in (index, attend):
        grid = cost(sequences, 16.0, context).time_s
        for i, j in np.ndindex(2, 3):
            assert grid[i, j] == pytest.approx(float(cost(sequences[i, 0], 16.0, context[j]).time_s), rel=1e-12)
