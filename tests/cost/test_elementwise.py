"""Bandwidth-bound kernels: never below their bytes at the memory's rate, unless the cache holds them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import stream
from training_scenarios import plain_constants

from sightline.cost.elementwise import elementwise_cost
from sightline.loading.clusters import read_cluster

DEVICE = read_cluster("1x a100-sxm-80gb").device
CONSTANTS = plain_constants().element_wise
BYTES = st.floats(1, 1e12)
KERNELS = st.integers(1, 20)


def cost(traffic, arithmetic=0.0, kernels=1.0, device=DEVICE, **constants):
    return elementwise_cost(stream(traffic, arithmetic, kernels), device, replace(CONSTANTS, **constants))


@given(BYTES, KERNELS)
def test_the_legs_are_datasheet_figures(traffic, kernels):
    _, compute_s, memory_s, *_ = cost(traffic, 1e9, kernels)
    assert memory_s == pytest.approx(traffic / DEVICE.memory_bandwidth)
    assert compute_s == pytest.approx(1e9 / DEVICE.vector_flops)


@given(BYTES, st.floats(0, 1e13), KERNELS)
def test_no_chain_is_faster_than_cache_or_vector_units_or_its_launches(traffic, arithmetic, kernels):
    time_s = cost(traffic, arithmetic, kernels).time_s
    assert time_s >= traffic / max(DEVICE.l2_bandwidth, DEVICE.memory_bandwidth)
    assert time_s >= arithmetic / DEVICE.vector_flops
    assert time_s >= kernels * CONSTANTS.kernel_latency_s


@given(BYTES, KERNELS)
def test_what_no_setting_is_faster_than_counts_bytes_beyond_the_cache(traffic, kernels):
    found = cost(traffic, 0.0, kernels)
    beyond = max(traffic - kernels * DEVICE.l2_bytes, 0.0)
    bandwidths = (DEVICE.memory_bandwidth, max(DEVICE.l2_bandwidth, DEVICE.memory_bandwidth))
    assert found.least_s == pytest.approx(max(beyond / bandwidths[0], traffic / bandwidths[1]))
    assert found.time_s >= found.least_s


@given(st.floats(1, 1e6))
def test_large_transfers_stream_at_the_memory_s_share(times_l2):
    traffic = times_l2 * DEVICE.l2_bytes
    streaming = traffic / DEVICE.memory_bandwidth / CONSTANTS.memory_fraction
    assert cost(traffic).time_s == pytest.approx(streaming + CONSTANTS.kernel_latency_s)


def test_branches_take_as_many_cycles_of_a_unit_whatever_the_memory_gives():
    def branching_s(name):
        device = read_cluster(f"1x {name}").device
        one = replace(stream(1e6), unit_cycles=1e9)
        return elementwise_cost(one, device, replace(CONSTANTS, kernel_latency_s=0.0)).time_s

    # The same compute units at the same clock, beside memory of 1.6 and of 2.0 TB/s.
    assert branching_s("a100-sxm-40gb") == pytest.approx(branching_s("a100-sxm-80gb"))
    units = {name: read_cluster(f"1x {name}").device for name in ("rtx-3090", "rtx-4090")}
    rates = {name: one.vector_flops for name, one in units.items()}
    # Both have as many lanes in a unit, so that cycles are in proportion to the vector units' rate.
    faster = branching_s("rtx-3090") / branching_s("rtx-4090")
    assert faster == pytest.approx(rates["rtx-4090"] / rates["rtx-3090"])


def test_small_transfers_come_out_of_the_cache():
    small = DEVICE.l2_bytes / 100
    streaming = small / DEVICE.memory_bandwidth / CONSTANTS.memory_fraction
    assert cost(small, kernel_latency_s=0.0).time_s < 0.8 * streaming


@given(BYTES, st.floats(1, 10), KERNELS)
def test_more_bytes_or_arithmetic_or_kernels_are_never_faster(traffic, factor, kernels):
    base = cost(traffic, 1e9, kernels).time_s
    assert cost(factor * traffic, 1e9, kernels).time_s >= base * (1 - 1e-12)
    assert cost(traffic, factor * 1e9, kernels).time_s >= base
    # Kernels of a chain pass smaller pieces, which the cache holds better; what they cost apart from that adds up.
    assert cost(0.0, 1e9, 2 * kernels).time_s > cost(0.0, 1e9, kernels).time_s


def test_arithmetic_hides_behind_bytes_until_it_outlasts_them():
    traffic = 100 * DEVICE.l2_bytes
    assert cost(traffic, 1.0).time_s == cost(traffic).time_s
    heavy = 1e3 * traffic
    assert cost(traffic, heavy).time_s == pytest.approx(
        heavy / DEVICE.vector_flops / CONSTANTS.vector_fraction + CONSTANTS.kernel_latency_s
    )


def test_many_at_once_and_many_devices_broadcast():
    traffic = np.array([1e6, 1e8, 1e10])[:, None]
    bandwidth = np.array([1e12, 2e12])
    grid = cost(traffic, device=replace(DEVICE, memory_bandwidth=bandwidth)).time_s
    assert grid.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        one = cost(float(traffic[i, 0]), device=replace(DEVICE, memory_bandwidth=float(bandwidth[j]))).time_s
        assert grid[i, j] == pytest.approx(float(one), rel=1e-12)


@given(st.floats(0, 1e13))
def test_work_inside_another_kernel_takes_its_arithmetic_alone(arithmetic):
    expected = arithmetic / DEVICE.vector_flops / CONSTANTS.vector_fraction
    assert cost(0.0, arithmetic, 0.0).time_s == pytest.approx(expected)
    assert cost(np.zeros(2), arithmetic, np.array([0.0, 1.0])).time_s == pytest.approx(
        [expected, expected + CONSTANTS.kernel_latency_s]
    )
