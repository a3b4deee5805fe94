"""Kernels belong to the pass in which they were launched; what activation checkpointing runs again is one of its own."""

import sys
from pathlib import Path

import pytest
from kineto import HOST, Composed

from sightline.explanation.traced.traced_step import explain_trace

GEMM = "sm90_xmma_gemm_bf16"
ENGINE = "autograd::engine::evaluate_function: "


def test_a_recorded_job_runs_its_forward_pass_again():
    """Half of its layers are checkpointed by autograd nodes, and half by hooks of saved tensors."""
    recorded = Path(__file__).parents[1] / "recorded" / "recompute.json.gz"
    found = {row.phase: (row.count, row.flops) for row in explain_trace([recorded]).rows if row.operator == "matmul"}
    assert found["recompute"] == pytest.approx(found["forward"])
    # The first layer has no gradient of its input.
    assert found["backward"][1] == pytest.approx(found["forward"][1] * 7 / 4)


@pytest.mark.slow
def test_a_job_that_runs_here_runs_its_forward_pass_again(tmp_path):
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import record

    record.record(tmp_path, ["recompute"])
    flops = {}
    for row in explain_trace([tmp_path]).rows:
        flops[row.phase] = flops.get(row.phase, 0.0) + row.flops
    assert flops["recompute"] == pytest.approx(flops["forward"])


def composed(*launches):
    """A trace of operators that nest, each with a start, a length, and ids; those with a kernel launch one."""
    trace = Composed()
    trace.step(1, 0.0, 1000.0)
    for name, start, length, ids in launches:
        kind = "python_function" if ".py(" in name else "cpu_op"
        trace.event(kind, name, start, length, tid=HOST + 1, **ids)
    return trace


def kernel(trace, at, start, length):
    trace.number += 1
    trace.event("cuda_runtime", "cudaLaunchKernel", at, 2.0, tid=HOST + 1, correlation=trace.number)
    ids = {"correlation": trace.number, "device": 0, "stream": 7}
    trace.event("kernel", GEMM, start, length, pid=0, tid=7, **ids)


def recorded(number):
    return {"Sequence number": number, "Fwd thread id": 0}


def of_backward(number):
    return {"Sequence number": number, "Fwd thread id": 1}


def phases(tmp_path, trace):
    return {row.phase: float(row.exposed_s) * 1e6 for row in explain_trace([trace.write(tmp_path)]).rows}


def test_a_reentrant_checkpoint_runs_forward_and_backward_inside_of_its_node(tmp_path):
    trace = composed(
        (f"{ENGINE}CheckpointFunctionBackward", 100.0, 200.0, of_backward(5)),
        ("CheckpointFunctionBackward", 101.0, 198.0, of_backward(5)),
        ("aten::mm", 110.0, 20.0, recorded(8)),
        (f"{ENGINE}MmBackward0", 150.0, 50.0, of_backward(8)),
        ("MmBackward0", 151.0, 48.0, of_backward(8)),
        ("aten::mm", 155.0, 20.0, {}),
    )
    kernel(trace, 112.0, 400.0, 30.0)
    kernel(trace, 157.0, 430.0, 60.0)
    # A kernel that no operator launches, behind the operators that ran again.
    kernel(trace, 140.0, 490.0, 5.0)
    assert phases(tmp_path, trace) == pytest.approx({"recompute": 35.0, "backward": 60.0})


def test_a_checkpoint_of_hooks_runs_forward_inside_of_the_first_node_that_needs_it(tmp_path):
    trace = composed(
        (f"{ENGINE}MmBackward0", 100.0, 100.0, of_backward(5)),
        ("MmBackward0", 101.0, 98.0, of_backward(5)),
        ("aten::mm", 110.0, 20.0, recorded(8)),
        ("aten::mm", 150.0, 20.0, {}),
    )
    kernel(trace, 112.0, 400.0, 30.0)
    kernel(trace, 152.0, 430.0, 60.0)
    assert phases(tmp_path, trace) == pytest.approx({"recompute": 30.0, "backward": 60.0})


def test_a_frame_of_the_checkpoint_tells_what_operators_do_not(tmp_path):
    trace = composed(
        (f"{ENGINE}MmBackward0", 100.0, 100.0, of_backward(5)),
        ("torch/utils/checkpoint.py(1430): recompute_fn", 110.0, 20.0, {}),
    )
    kernel(trace, 112.0, 400.0, 30.0)
    kernel(trace, 152.0, 430.0, 60.0)
    assert phases(tmp_path, trace) == pytest.approx({"recompute": 30.0, "backward": 60.0})


def test_without_checkpoints_nothing_is_recomputed(tmp_path):
    trace = composed(
        ("aten::mm", 10.0, 20.0, recorded(5)),
        (f"{ENGINE}MmBackward0", 100.0, 100.0, of_backward(5)),
        ("aten::mm", 150.0, 20.0, {}),
    )
    kernel(trace, 12.0, 400.0, 30.0)
    kernel(trace, 152.0, 430.0, 60.0)
    assert phases(tmp_path, trace) == pytest.approx({"forward": 30.0, "backward": 60.0})


def test_modules_of_what_runs_again_are_those_of_its_own_frames(tmp_path):
    trace = composed(
        (f"{ENGINE}CheckpointFunctionBackward", 100.0, 200.0, of_backward(5)),
        ("nn.Module: LlamaMLP_0", 105.0, 40.0, {}),
        ("aten::mm", 110.0, 20.0, recorded(8)),
        (f"{ENGINE}MmBackward0", 150.0, 50.0, of_backward(8)),
        ("aten::mm", 155.0, 20.0, {}),
    )
    trace.events[2]["cat"] = "python_function"
    kernel(trace, 112.0, 400.0, 30.0)
    kernel(trace, 157.0, 430.0, 60.0)
    found = {(row.phase, row.module) for row in explain_trace([trace.write(tmp_path)]).rows}
    assert found == {("recompute", "mlp"), ("backward", "mlp")}
