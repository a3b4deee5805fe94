"""The matmul formula: never faster than physics, steps where tiles and waves have them, one answer for one and many."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators import product

from sightline.cost.matmul import load_matmul, matmul_cost, matmul_evidence
from sightline.loading.clusters import read_cluster
from sightline.program.formats import format_of
from sightline.scenario.precision import MATMUL_FORMATS

DEVICES = {name: read_cluster(f"1x {name}-80gb").device for name in ("a100-sxm", "h100-sxm")}
SIZES = st.integers(1, 30_000)


def cost(m, n, k, batch=1.0, *, device="a100-sxm", calibration=None, dtype="bf16", **changes):
    unit = dataclasses.replace(DEVICES[device], **changes)
    constants = load_matmul(calibration or device)
    size = 4 if dtype in {"tf32", "fp32"} else 2
    return matmul_cost(product(m, n, k, batch, dtype=dtype, element_bytes=size, output_bytes=size), unit, constants)


@given(m=SIZES, n=SIZES, k=SIZES, batch=st.integers(1, 64), device=st.sampled_from(list(DEVICES)))
def test_no_matmul_is_faster_than_either_leg_of_the_roofline(m, n, k, batch, device):
    for calibration in (device, "generic"):
        time_s, compute_s, memory_s, least_s, _ = cost(m, n, k, batch, device=device, calibration=calibration)
        assert time_s >= least_s == max(compute_s, memory_s)
        assert compute_s == pytest.approx(2 * batch * m * n * k / DEVICES[device].peak_flops["bf16"])
        assert memory_s == pytest.approx(2 * batch * (m * k + k * n + m * n) / DEVICES[device].memory_bandwidth)


@given(shapes=st.lists(st.tuples(SIZES, SIZES, SIZES, st.integers(1, 64)), min_size=1, max_size=8))
def test_many_at_once_cost_what_each_costs_alone(shapes):
    m, n, k, batch = (np.array(column, dtype=float) for column in zip(*shapes, strict=True))
    together = cost(m, n, k, batch)
    for i, shape in enumerate(shapes):
        for stacked, alone in zip(together, cost(*shape), strict=True):
            assert stacked[i] == pytest.approx(float(alone), rel=1e-12)


def test_axes_of_shapes_and_of_devices_broadcast():
    m = np.array([512.0, 2048.0, 8192.0])[:, None]
    units = np.array([54.0, 108.0])
    grid = cost(m, 4096.0, 4096.0, compute_units=units).time_s
    assert grid.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            assert grid[i, j] == pytest.approx(float(cost(m[i, 0], 4096.0, 4096.0, compute_units=units[j]).time_s))


def test_very_many_products_on_several_devices_cost_what_each_costs_on_each():
    """They are priced a few at a time, each with the rates of its own device."""
    m, scales = 16 * np.arange(1.0, 301.0)[:, None], np.array([0.5, 1.0, 2.0, 4.0])
    own = DEVICES["a100-sxm"]

    def scaled(factor):
        peaks = {name: rate * factor for name, rate in own.peak_flops.items()}
        return {"peak_flops": peaks, "l2_bandwidth": own.l2_bandwidth * factor}

    together = cost(m, 4096.0, 1024.0, **scaled(scales)).time_s
    assert together.shape == (300, 4)
    for i, factor in enumerate(scales):
        assert together[:, i] == pytest.approx(cost(m[:, 0], 4096.0, 1024.0, **scaled(factor)).time_s, rel=1e-12)


@given(m=SIZES, n=SIZES, k=SIZES, factor=st.sampled_from([2, 3, 5]))
def test_the_roofline_core_never_gets_faster_with_more_work(m, n, k, factor):
    base = cost(m, n, k)
    for more in (cost(factor * m, n, k), cost(m, factor * n, k), cost(m, n, factor * k), cost(m, n, k, factor)):
        assert more.compute_s >= base.compute_s
        assert more.memory_s >= base.memory_s


def test_tiles_beyond_a_full_wave_cost_most_of_another_wave():
    full_wave = (12 * 256, 9 * 128)
    assert DEVICES["a100-sxm"].compute_units == 12 * 9
    full, beyond = (float(cost(full_wave[0], full_wave[1] + more, 2048).time_s) for more in (0, 64))
    assert beyond > 1.25 * full
    many, beyond_many = (float(cost(10 * full_wave[0], full_wave[1] + more, 2048).time_s) for more in (0, 64))
    assert beyond_many < 1.22 * many


def test_a_partly_used_tile_costs_a_whole_one():
    inside, whole, next_one = (float(cost(m, 8192, 8192).time_s) for m in (4097, 4224, 4225))
    assert inside == pytest.approx(whole, rel=1e-3)
    assert next_one > 1.02 * whole


@pytest.mark.parametrize("device", list(DEVICES))
def test_rows_off_the_alignment_are_slower_the_further_off_they_are(device):
    times = [float(cost(8192, 8192, k, device=device).time_s) / k for k in (4096, 4100, 4098, 4097)]
    assert all(worse > 1.1 * better for better, worse in pairwise(times))
    by_columns = [float(cost(8192, n, 4096, device=device).time_s) for n in (8192, 8188)]
    assert by_columns[1] > 1.1 * by_columns[0]


def test_rows_of_the_left_matrix_need_no_alignment():
    assert cost(8191, 8192, 8192).time_s <= cost(8192, 8192, 8192).time_s


def test_few_tiles_and_a_long_k_are_split():
    alone = float(cost(256, 128, 65536).time_s)
    one_unit_s = 2 * 256 * 128 * 65536 / (DEVICES["a100-sxm"].peak_flops["bf16"] / 108)
    assert alone < 0.2 * one_unit_s


def test_long_matmuls_run_below_the_rate_of_short_ones():
    constants = load_matmul("h100-sxm")
    cool = dataclasses.replace(constants, throttled_share=0.0)

    def time_s(s, constants):
        return float(matmul_cost(product(s, s, s), DEVICES["h100-sxm"], constants).time_s)

    ratio = [time_s(s, constants) / time_s(s, cool) for s in (1024, 16384)]
    assert ratio[0] < 1.1 < 1.2 < ratio[1]


def test_a_wider_dtype_takes_longer():
    assert cost(4096, 4096, 4096, dtype="tf32").time_s > 1.8 * cost(4096, 4096, 4096).time_s
    assert cost(4096, 4096, 4096, dtype="fp32").time_s > 5 * cost(4096, 4096, 4096, dtype="tf32").time_s


def formatted(m, n, k, kernel, constants, device):
    stored = format_of(kernel, "bf16", device)
    sizes = {"element_bytes": stored.activation_bytes, "weight_bytes": stored.weight_bytes}
    return matmul_cost(product(m, n, k, dtype=stored.compute_dtype, **sizes), device, constants)


@pytest.mark.parametrize("kernel", list(MATMUL_FORMATS))
def test_every_format_has_constants_on_every_family_and_streams_its_own_weights(kernel):
    for family in ("a100-sxm", "h100-sxm", "rtx-4090", "generic"):
        found = formatted(1.0, 16384.0, 16384.0, kernel, load_matmul(family, kernel), DEVICES["h100-sxm"])
        assert found.memory_s == pytest.approx(
            format_of(kernel, "bf16", DEVICES["h100-sxm"]).weight_bytes * 16384**2 / 3.35e12, rel=1e-3
        )
        assert found.memory_s <= found.time_s < 4 * found.memory_s + 5e-5


def test_few_rows_of_quantized_weights_take_the_faster_of_both_units_where_the_library_tries_both():
    constants, device = load_matmul("h200-sxm", "w4a16").without_surface(), DEVICES["h100-sxm"]
    assert 4 == constants.vector_rows < constants.tried_rows == 15
    untried = dataclasses.replace(constants, tried_rows=0.0)
    always = dataclasses.replace(constants, vector_rows=constants.tried_rows)
    rows = np.array([1.0, 4.0, 5.0, 8.0, 15.0, 16.0, 64.0])
    for n, k in ((256.0, 4096.0), (16384.0, 4096.0)):
        tried, tensor, vector = (formatted(rows, n, k, "w4a16", c, device).time_s for c in (constants, untried, always))
        between = (rows > 4) & (rows <= 15)
        np.testing.assert_array_equal(tried[between], np.minimum(tensor, vector)[between])
        np.testing.assert_array_equal(tried[~between], tensor[~between])
    assert formatted(8.0, 256.0, 4096.0, "w4a16", constants, device).time_s < 0.7 * (
        formatted(8.0, 256.0, 4096.0, "w4a16", untried, device).time_s
    )


def test_quantized_weights_of_little_depth_take_a_kernel_that_is_slower_by_a_fixed_time():
    constants, device = load_matmul("h200-sxm", "w8a16").without_surface(), DEVICES["h100-sxm"]
    plain = dataclasses.replace(constants, shallow_k=0.0)
    rows, depth = np.array([[2.0], [64.0], [8192.0]]), np.array([32.0, 64.0, 127.0, 128.0, 4096.0])
    longer = (
        formatted(rows, 4096.0, depth, "w8a16", constants, device).time_s
        - formatted(rows, 4096.0, depth, "w8a16", plain, device).time_s
    )
    expected = np.where((rows > constants.vector_rows) & (depth < 128), constants.shallow_s, 0.0)
    np.testing.assert_allclose(longer, expected, atol=1e-12)
    assert 2e-6 < constants.shallow_s < 6e-6


def test_narrow_weights_quicken_decoding_and_not_large_products():
    device = DEVICES["h100-sxm"]
    narrow, wide = (load_matmul("h200-sxm", kernel) for kernel in ("w4a16", "16-bit"))
    few = [formatted(1.0, 16384.0, 16384.0, *pair, device).time_s for pair in (("w4a16", narrow), ("16-bit", wide))]
    many = [formatted(8192.0, 16384.0, 16384.0, *pair, device).time_s for pair in (("w4a16", narrow), ("16-bit", wide))]
    assert few[0] < 0.5 * few[1]
    assert many[0] == pytest.approx(many[1], rel=0.25)


def test_a_device_without_the_compute_type_converts_weights_and_computes_in_16_bits():
    stored = format_of("fp8", "bf16", DEVICES["a100-sxm"])
    assert (stored.compute_dtype, stored.activation_bytes, stored.weight_bytes) == ("bf16", 2.0, 1.0)
    assert format_of("fp8", "bf16", DEVICES["h100-sxm"]).compute_dtype == "fp8"


def test_quantizing_the_input_is_time_of_its_own_that_fused_kernels_save():
    c = load_matmul("h100-sxm", "fp8")
    apart = formatted(512.0, 4096.0, 4096.0, "fp8", c.without_surface(), DEVICES["h100-sxm"]).time_s
    fused = formatted(512.0, 4096.0, 4096.0, "fp8", c.without_quantization(), DEVICES["h100-sxm"]).time_s
    assert apart - fused == pytest.approx(c.quantization_s + c.quantization_bytes * 512 * 4096 / 3.35e12)
    assert load_matmul("h100-sxm").without_quantization() is load_matmul("h100-sxm")


def test_a_surface_corrects_single_products_in_its_range_alone():
    plain, corrected = load_matmul("a100-sxm").without_surface(), load_matmul("a100-sxm")
    size = (96.0, 4096.0, 4096.0)

    def time_s(size, constants):
        return matmul_cost(product(*size), DEVICES["a100-sxm"], constants).time_s

    ratio = time_s(size, corrected) / time_s(size, plain)
    assert ratio == pytest.approx(float(corrected.surface.factor(*size)))
    for outside in ((96.0, 1e6, 4096.0), (96.0, 4096.0, 4096.0, 8.0)):
        assert time_s(outside, corrected) == time_s(outside, plain)


def test_evidence_says_what_a_format_was_measured_on():
    assert matmul_evidence(DEVICES["h100-sxm"]) == "calibrated"
    assert matmul_evidence(DEVICES["h100-sxm"], "fp8") == "calibrated"
    assert matmul_evidence(DEVICES["h100-sxm"], "w4a16") == "extrapolated"
    assert matmul_evidence(DEVICES["h100-sxm"], "nvfp4") == "extrapolated"
