"""Experts' matmuls: the roofline of active experts, whole blocks per expert, published figures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.grouped_matmul import grouped_matmul_cost, load_grouped
from sightline.loading.clusters import read_cluster
from sightline.program import GroupedMatmul

H800 = read_cluster("1x h800-sxm-80gb").device
MASKED, EVIDENCE = load_grouped("h800-sxm", "fp8-block", "masked")
CONTIGUOUS, _ = load_grouped("h800-sxm", "fp8-block", "contiguous")
SHAPES = {"experts": st.integers(1, 256), "n": st.integers(128, 8192), "k": st.integers(128, 8192)}


def cost(rows, experts, n, k, active=None, constants=MASKED, device=H800, empty_rows=0.0, **options):
    sizes = {"rows": rows, "experts": experts, "active": experts if active is None else active, "n": n, "k": k}
    how = {"dtype": "fp8", "element_bytes": 1, "weight_bytes": 1, "output_bytes": 2, "kernel": "fp8"}
    how["empty_rows"] = empty_rows
    return grouped_matmul_cost(
        GroupedMatmul(module="experts", part="matmul", **sizes, **how), device, constants, **options
    )


@given(rows=st.integers(1, 10**6), **SHAPES)
def test_no_product_is_faster_than_its_roofline(rows, experts, n, k):
    time_s, compute_s, memory_s, least_s = cost(rows, experts, n, k)[:4]
    assert compute_s == pytest.approx(2 * rows * n * k / H800.peak_flops["fp8"])
    touched = min(rows, experts)
    assert memory_s == pytest.approx((touched * n * k + rows * (k + 2 * n)) / H800.memory_bandwidth)
    assert time_s >= least_s == max(compute_s, memory_s)


@given(rows=st.integers(64, 10**5), share=st.floats(0.05, 1), **SHAPES)
def test_fewer_active_experts_are_never_slower(rows, share, experts, n, k):
    # Experts read no weights, and their rows share blocks.
    everywhere = cost(rows, experts, n, k, unevenness=0).time_s
    assert cost(rows, experts, n, k, active=max(1, share * experts), unevenness=0).time_s <= everywhere * 1.35


def test_a_few_rows_cost_a_whole_block_of_arithmetic():
    slow_math = replace(H800, peak_flops={"fp8": H800.peak_flops["fp8"] / 100})
    assert cost(32, 32, 4096, 7168, device=slow_math).time_s == pytest.approx(
        cost(32 * 32, 32, 4096, 7168, device=slow_math, unevenness=0).time_s, rel=0.01
    )
    assert (
        cost(32 * 65, 32, 4096, 7168, device=slow_math, unevenness=0).time_s
        > 1.8 * cost(32 * 64, 32, 4096, 7168, device=slow_math, unevenness=0).time_s
    )


def test_empty_blocks_cost_as_much_arithmetic_as_full_ones():
    slow_math = replace(H800, peak_flops={"fp8": H800.peak_flops["fp8"] / 100})
    sizes = {"experts": 32, "n": 4096, "k": 7168, "constants": CONTIGUOUS, "device": slow_math}
    few = cost(64, **sizes, active=14, empty_rows=32 * 128 - 64)
    full = cost(32 * 128, **sizes, unevenness=0)
    assert few.time_s == pytest.approx(full.time_s, rel=0.01)
    assert few.compute_s < full.compute_s / 50


def test_decoding_reads_the_weights_of_active_experts():
    # InferSim: 1 of 256 tokens per expert, half of them drawn empty: 1297 us; two tokens per expert: 2667 us.
    assert cost(127, 256, 4096, 7168, active=127).time_s == pytest.approx(1.297e-3, rel=0.1)
    assert cost(512, 256, 4096, 7168).time_s == pytest.approx(2.667e-3, rel=0.1)


@pytest.mark.parametrize(
    ("groups", "m", "n", "k", "tflops"), [(4, 8192, 7168, 2048, 1099), (8, 4096, 4096, 7168, 1288)]
)
def test_prefill_nears_deepgemm_s_own_figures(groups, m, n, k, tflops):
    # deepseek-ai/DeepGEMM@a6d97a1 README.md, a later build than InferSim's, m rows per group; not fitted.
    time_s = cost(groups * m, groups, n, k, constants=CONTIGUOUS, unevenness=0).time_s
    assert 2 * groups * m * n * k / time_s / 1e12 == pytest.approx(tflops, rel=0.15)


def test_without_rows_it_takes_no_longer_than_a_kernel():
    assert cost(0, 8, 4096, 4096).time_s == pytest.approx(MASKED.latency_s)


def test_many_shapes_at_once_equal_them_one_by_one():
    rows, n = np.array([3.0, 700.0, 1e5])[:, None], np.array([512.0, 4096.0])
    grid = cost(rows, 16, n, 2048.0).time_s
    assert grid.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        assert grid[i, j] == pytest.approx(float(cost(rows[i, 0], 16, n[j], 2048.0).time_s), rel=1e-12)


@pytest.mark.parametrize("family", ["h20", "h800-sxm", "generic"])
@pytest.mark.parametrize("kernel", ["16-bit", "fp8", "fp8-block", "w4a16", "nvfp4", "mxfp4"])
@pytest.mark.parametrize("layout", ["masked", "contiguous"])
def test_every_format_has_constants(family, kernel, layout):
    constants, evidence = load_grouped(family, kernel, layout)
    assert 0.2 < constants.memory_fraction <= 1
    assert 0.3 < constants.peak_fraction <= 1
    assert evidence == (
        "datasheet" if family == "generic" else "calibrated" if kernel == "fp8-block" else "extrapolated"
    )


def test_slower_units_hide_their_operands():
    h20 = read_cluster("1x h20").device
    own, there = (MASKED.on(d.peak_flops["fp8"] / d.compute_units) for d in (H800, h20))
    assert own == (pytest.approx(MASKED.peak_fraction), pytest.approx(MASKED.tile_overhead_k, rel=1e-3))
    assert there[0] > 1.3 * MASKED.peak_fraction
    assert there[1] < 0.5 * MASKED.tile_overhead_k


def test_shares_of_no_unit_hold_everywhere():
    anywhere = replace(MASKED, unit_flops=0.0)
    assert anywhere.on(1e12) == (MASKED.peak_fraction, MASKED.tile_overhead_k)
