"""Matrix products that are too small for their device are named, with what larger ones would save."""

import re

import pytest
from kineto import Composed
from training_scenarios import training

from sightline.explanation.traced.traced_step import explain_trace

GEMM = "sm90_xmma_gemm_bf16"
STEP = 10_000.0
TYPES = ["c10::BFloat16", "c10::BFloat16"]


def product(trace, start, length, at, sizes=None):
    trace.kernel(GEMM, start, length, at=at)
    for event in trace.events[-3:-1]:
        event["dur"] = 0.05
    if sizes is not None:
        m, n, k = sizes
        trace.events[-3]["args"].update({"Input Dims": [[m, k], [k, n]], "Input type": TYPES})


def explained(tmp_path, sizes, length=4.0, between=0.2, large=None, follows=None):
    """A device that runs products one behind the other, launched long before."""
    trace = Composed()
    for number in range(3):
        at, number_of = number * STEP, int((STEP - 2000) / (length + between))
        trace.step(number, at, STEP)
        for place in range(number_of):
            begin = at + 10 + place * (length + between)
            product(trace, begin, length, at + 0.1 * place, sizes)
            if follows:
                trace.kernel(follows, begin + length, between, at=at + 0.1 * place + 0.05, op="aten::add")
                trace.events[-3]["dur"] = trace.events[-2]["dur"] = 0.04
        if large:
            product(trace, at + 8030, 1960, at + 990, large)
        else:
            trace.kernel("vectorized_elementwise_kernel", at + 8030, 1960, at=at + 990, op="aten::add")
    return explain_trace([trace.write(tmp_path)])


def advice(explanation):
    found = [one for one in explanation.advice if "products larger" in one.sentence]
    return found[0] if found else None


def test_products_of_few_rows_are_the_first_advice_with_the_time_at_the_rate_of_large_ones(tmp_path):
    # 8192^3 in 1960 us are 561 TFLOP/s; a small one has 2 x 16 x 1024 x 1024 FLOPs, 0.06 us at that rate.
    found = explained(tmp_path, (16, 1024, 1024), large=(8192, 8192, 8192))
    first = found.advice[0]
    assert first is advice(found)
    assert "1,904 per step take 4 us each" in first.sentence
    assert "561 TFLOP/s" in first.sentence
    assert "16 rows" in first.sentence
    assert first.gain_s == pytest.approx(1904 * (4e-6 - 2 * 16 * 1024**2 / 561e12), rel=0.01)


def test_without_large_products_the_rate_is_that_predicted_for_the_device(tmp_path):
    found = advice(explained(tmp_path, (16, 1024, 1024)))
    assert re.search(r"large ones \d+ TFLOP/s", found.sentence)
    assert 0.5 * 1904 * 4e-6 < found.gain_s < 1904 * 4e-6


def test_without_shapes_half_of_the_kernels_is_what_larger_ones_save(tmp_path):
    found = advice(explained(tmp_path, None))
    assert found.gain_s == pytest.approx(0.5 * 1904 * 4e-6)
    assert "record_shapes=True" in found.sentence


def test_short_products_at_the_rate_of_large_ones_are_no_fault(tmp_path):
    # 2 x 1024^3 in 4 us are 537 TFLOP/s.
    assert advice(explained(tmp_path, (1024, 1024, 1024), large=(8192, 8192, 8192))) is None


def test_long_products_are_no_small_ones(tmp_path):
    assert advice(explained(tmp_path, (16, 1024, 1024), length=40.0)) is None


def test_fusing_is_advised_where_products_read_the_same_input_one_after_another(tmp_path):
    assert "fuse products" in advice(explained(tmp_path, (16, 1024, 1024))).sentence
    apart = explained(tmp_path, (16, 1024, 1024), between=1.0, follows="vectorized_elementwise_kernel")
    assert "fuse products" not in advice(apart).sentence


def test_graphs_are_advised_where_the_device_waits_for_launches_too(tmp_path):
    trace = Composed()
    for number in range(3):
        trace.step(number, number * STEP, STEP)
        for place in range(1000):
            begin = number * STEP + 10 * place
            product(trace, begin + 6, 4, begin, (16, 1024, 1024))
    path = trace.write(tmp_path)
    said = [one.sentence for one in explain_trace([path]).advice]
    assert "launch-bound" in said[0]
    assert "torch.compile" in said[0]
    assert "CUDA graphs" in said[1]
    # Megatron-LM has no compiler that its launch could turn on.
    megatron = explain_trace(
        [path], scenario=training(model="gpt-125m", plan={"framework": "megatron", "micro_batch": 1})
    )
    (launches,) = (one.sentence for one in megatron.advice if "launch-bound" in one.sentence)
    assert "torch.compile" not in launches
    assert "CUDA graphs" in launches


def test_all_kernels_of_a_product_count_as_one(tmp_path):
    """A fill in front of a product is no small product of its own."""
    trace = Composed()
    for number in range(3):
        at = number * STEP
        trace.step(number, at, STEP)
        for place in range(400):
            begin, launched = at + 25 * place, at + place
            trace.kernel(GEMM, begin + 5, 20, at=launched)
            trace.events[-3]["dur"] = trace.events[-2]["dur"] = 0.9
            ids = {"correlation": 10_000 * (number + 1) + place}
            trace.event("cuda_runtime", "cudaMemsetAsync", launched + 0.1, 0.1, **ids)
            trace.event("gpu_memset", "Memset (Device)", begin, 5, pid=0, tid=7, device=0, stream=7, **ids)
    assert advice(explain_trace([trace.write(tmp_path)])) is None
