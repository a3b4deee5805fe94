"""Kernels belong to the modules whose frames stand around their launches, those of the backward pass by number."""

import pytest
from kineto import HOST, Composed

from sightline.explanation.traced.traced_step import explain_trace


def with_frames(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, 1000.0)
    for name, start, length in (
        ("nn.Module: LlamaAttention_0", 0.0, 100.0),
        ("nn.Module: Linear_0", 5.0, 20.0),
        ("nn.Module: LlamaMLP_0", 110.0, 100.0),
        ("nn.Module: Linear_9", 220.0, 50.0),
    ):
        trace.event("python_function", name, start, length)
    for number, at in enumerate((10.0, 120.0, 230.0)):
        ids = {"Sequence number": number, "Fwd thread id": 0}
        trace.event("cpu_op", "aten::linear", at, 8.0, **ids)
        trace.kernel("sm90_xmma_gemm_bf16", at + 20, 10.0 + number, at=at + 1)
    name = "autograd::engine::evaluate_function: MmBackward0"
    trace.event("cpu_op", name, 500.0, 20.0, tid=HOST + 1, **{"Sequence number": 1, "Fwd thread id": 1})
    trace.event("cpu_op", "aten::mm", 502.0, 10.0, tid=HOST + 1)
    ids = {"correlation": 99, "device": 0, "stream": 7}
    trace.event("cuda_runtime", "cudaLaunchKernel", 503.0, 5.0, tid=HOST + 1, correlation=99)
    trace.event("kernel", "sm90_xmma_gemm_bf16", 510.0, 40.0, pid=0, tid=7, **ids)
    return explain_trace([trace.write(tmp_path)])


def test_matmuls_are_told_apart_by_the_modules_around_them(tmp_path):
    found = {(row.phase, row.module): float(row.exposed_s) for row in with_frames(tmp_path).rows}
    assert found == {
        ("forward", "attention projections"): pytest.approx(10e-6),
        ("forward", "mlp"): pytest.approx(11e-6),
        ("forward", "head"): pytest.approx(12e-6),
        ("backward", "mlp"): pytest.approx(40e-6),
    }


def test_matrix_products_have_the_flops_of_their_recorded_shapes(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, 100.0)
    trace.kernel("sm90_xmma_gemm_bf16", 10.0, 90.0, at=0.0, op="aten::addmm")
    trace.events[1]["args"]["Input Dims"] = [[32], [16, 8], [8, 32], [], []]
    row = explain_trace([trace.write(tmp_path)]).rows[0]
    assert (row.operator, row.flops) == ("matmul", 2 * 16 * 8 * 32)
