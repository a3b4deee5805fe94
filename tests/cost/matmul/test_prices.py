"""Routers in fp32 against the timings that the numbers were read off, and what must hold of any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import product

from sightline.cost.matmul import fp32_router_cost
from sightline.loading.clusters import read_cluster

GB200 = read_cluster("1x gb200").device
PUBLISHED_US = {
    "fp32": {1: 7.52, 4: 20.2, 8: 16.7, 16: 22.3, 32: 63.2, 64: 63.3, 128: 69.3, 256: 77.8, 512: 96.8, 1024: 111.0},
    "tf32": {1: 10.9, 4: 12.0, 8: 12.0, 16: 12.2, 32: 19.9, 64: 20.1, 128: 20.2, 256: 22.6, 512: 25.8, 1024: 32.8},
}
"""256 columns, k of 6,144 (vllm-project/vllm#47973)."""


def cost(rows, k, dtype="fp32"):
    return fp32_router_cost(product(rows, 256.0, k, dtype=dtype, element_bytes=4.0, output_bytes=4.0), GB200)


@pytest.mark.parametrize("dtype", PUBLISHED_US)
def test_published_timings(dtype):
    rows = np.array([*PUBLISHED_US[dtype]], dtype=float)
    predicted = cost(rows, 6144.0, dtype).time_s * 1e6
    error = np.abs(predicted / np.array([*PUBLISHED_US[dtype].values()]) - 1)
    assert np.median(error) < 0.05
    assert error.max() < 0.3


@given(rows=st.integers(1, 20_000), more=st.integers(1, 20_000), k=st.sampled_from([1024.0, 3072.0, 6144.0]))
def test_more_rows_and_longer_rows_never_take_less(rows, more, k):
    few, many = (cost(float(m), k) for m in (rows, rows + more))
    longer = cost(float(rows), 2 * k)
    assert few.time_s <= many.time_s
    assert few.time_s < longer.time_s
    assert few.time_s >= max(few.compute_s, few.memory_s)


def test_an_array_is_its_elements():
    rows = np.array([1.0, 7.0, 16.0, 17.0, 5000.0])
    together = cost(rows, 3072.0, "tf32")
    one_by_one = [cost(float(m), 3072.0, "tf32").time_s for m in rows]
    assert np.array_equal(together.time_s, one_by_one)
