"""Faults that lie in a few steps, in copies and on the host: what a composed trace is explained by."""

import json

import pytest
from kineto import Composed

from sightline.explanation.traced.traced_step import explain_trace

GEMM = "sm90_xmma_gemm_bf16"
STEP = 10_000.0


def job(tmp_path, fill, lengths=(STEP,) * 4, **of):
    """The explanation of a device's job; ``fill`` adds what is in a step by its start and number."""
    trace, at = Composed(**of), 0.0
    for number, length in enumerate(lengths):
        trace.step(number, at, length)
        fill(trace, at, number)
        at += length
    return explain_trace([trace.write(tmp_path)])


def limits(explanation):
    return {one.limit: one.time_s * 1e6 for one in explanation.limits}


def first(explanation):
    return explanation.advice[0].sentence


def copied(trace, at, length, size, name="Memcpy HtoD (Pinned -> Device)"):
    trace.number += 1
    waits = "ageable" in name
    trace.event("cpu_op", "aten::copy_", at, length + 10 if waits else 10)
    trace.event("cuda_runtime", "cudaMemcpyAsync", at + 2, length + 6 if waits else 5, correlation=trace.number)
    ids = {"correlation": trace.number, "device": 0, "stream": 7, "bytes": size}
    trace.event("gpu_memcpy", name, at + 5, length, pid=0, tid=7, **ids)


def test_launches_without_kernels_are_doubted_and_nothing_is_advised(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, STEP)
    trace.event("cpu_op", "aten::mm", 0.0, 9000.0)
    trace.event("cuda_runtime", "cudaLaunchKernel", 10.0, 5.0, correlation=1)
    found = explain_trace([trace.write(tmp_path)])
    assert found.advice == ()
    assert "not recorded" in found.warnings[0]


def test_the_timeline_of_a_prediction_is_called_one(tmp_path):
    ids = {"pid": 0, "tid": 0}
    kernels = (("norm", 0.0), ("norm gradient", 100.0), ("optimizer", 200.0))
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": at, "dur": 90.0, "args": {"device": 0}, **ids}
        for name, at in kernels
    ]
    ranges = [("forward 0", 0.0), ("backward 0", 100.0)]
    events += [
        {"ph": "X", "cat": "gpu_user_annotation", "name": name, "ts": at, "dur": 95.0, **ids} for name, at in ranges
    ]
    place = tmp_path / "step.json"
    place.write_text(json.dumps({"otherData": {"source": "sightline, predicted"}, "traceEvents": events}))
    found = explain_trace([place])
    assert found.source == "predicted"
    assert not found.advice
    assert "timeline of a prediction" in found.warnings[0]
    assert {(row.phase, row.module) for row in found.rows} == {
        ("forward", "norm"),
        ("backward", "norm"),
        ("optimizer", "optimizer"),
    }


def test_a_device_of_which_nothing_is_recorded_is_named(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, STEP)
    trace.event("cpu_op", "aten::mm", 0.0, 6000.0)
    found = explain_trace([trace.write(tmp_path)])
    assert "NVIDIA H100 80GB HBM3" in found.warnings[0]
    assert "H100" not in found.title


def test_a_first_step_that_loads_kernels_at_its_first_launch_is_left_out(tmp_path):
    def fill(trace, at, number):
        if number == 0:
            trace.event("hip_runtime", "hipLaunchKernel", at, 20_000)
        trace.kernel(GEMM, at + (20_010 if number == 0 else 10), 9900, at=at + (20_005 if number == 0 else 0))

    assert job(tmp_path, fill, [30_000.0, STEP, STEP]).whole_s == pytest.approx(STEP / 1e6)


def test_a_last_step_in_which_nothing_begins_is_left_out(tmp_path):
    def fill(trace, at, number):
        if number < 2:
            trace.kernel(GEMM, at + 10, 9900, at=at)

    assert job(tmp_path, fill, [STEP, STEP, 50.0]).whole_s == pytest.approx(STEP / 1e6)


def test_a_call_that_takes_little_of_the_waits_is_not_named(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 1000, at=at)
        trace.event("cpu_op", "aten::ones", at + 1100, 200)

    assert "longest in" not in first(job(tmp_path, fill))


def test_long_steps_of_kernels_are_advised_to_have_batches_alike(tmp_path):
    def fill(trace, at, number):
        trace.kernel(GEMM, at + 10, 29_900 if number == 2 else 9900, at=at)

    said = first(job(tmp_path, fill, [STEP, STEP, 30_000.0, STEP]))
    assert "equalize batches" in said
    assert "checkpoints" not in said


def test_of_two_steps_none_is_called_the_long_one(tmp_path):
    def fill(trace, at, number):
        trace.kernel(GEMM, at + 10, 29_900 if number else 9900, at=at)

    found = job(tmp_path, fill, [STEP, 30_000.0])
    assert not found.advice
    assert any("from 10 ms to 30 ms" in one for one in found.sentences)


@pytest.mark.parametrize("trains", [True, False])
def test_a_job_that_does_not_train_is_not_told_of_optimizers(tmp_path, trains):
    def fill(trace, at, _):
        for place in range(100):
            begin = at + 90 * place
            if trains and place > 50:
                trace.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", begin, 20)
            trace.kernel("vectorized_elementwise_kernel", begin + 10, 5, at=begin, op="aten::add")

    said = first(job(tmp_path, fill))
    assert "launch-bound" in said
    assert ("fused optimizers, or a larger micro-batch" in said) is trains
    assert ("or a larger batch" in said) is not trains


def test_communication_of_every_fourth_step_counts(tmp_path):
    def fill(trace, at, number):
        trace.kernel(GEMM, at + 10, 9000, at=at)
        if number % 4 == 3:
            trace.collective(at + 9020, 20900, at=at + 30)

    found = job(tmp_path, fill, [30_000.0 if n % 4 == 3 else STEP for n in range(8)])
    assert found.whole_s == pytest.approx(15e-3)
    assert found.exposed_communication_s == pytest.approx(5.2e-3, rel=0.05)
    assert any("2 of 8 steps take 30 ms, the others 10 ms" in one for one in found.sentences)
    assert "all-reduce" in first(found)


def test_a_checkpoint_in_one_step_is_the_first_advice(tmp_path):
    def fill(trace, at, number):
        trace.kernel(GEMM, at + 10, 9900, at=at)
        if number == 3:
            trace.event("python_function", "torch/serialization.py(500): save", at + STEP, 200_000)

    found = job(tmp_path, fill, [STEP, STEP, STEP, 210_000.0, STEP, STEP])
    assert found.advice[0].gain_s == pytest.approx(200e-3 / 6)
    assert "Shorten the long steps" in first(found)
    assert "serialization.py(500): save" in first(found)


def test_a_long_first_step_without_start_up_counts(tmp_path):
    def fill(trace, at, number):
        trace.kernel(GEMM, at + 10, 9900, at=at)
        if number == 0:
            trace.event(*of_first, at + STEP, 10_000)

    lengths = [30_000.0, STEP, STEP, STEP]
    of_first = ("cpu_op", "aten::copy_")
    assert job(tmp_path, fill, lengths).whole_s == pytest.approx(15e-3)
    of_first = ("cuda_runtime", "cudaMalloc")
    assert job(tmp_path, fill, lengths).whole_s == pytest.approx(10e-3)


@pytest.mark.parametrize("call", ["cuModuleLoadData", "cudaDeviceGetStreamPriorityRange"])
def test_a_trace_of_a_jobs_start_says_to_profile_later_steps(tmp_path, call):
    def fill(trace, at, _):
        trace.event("cuda_runtime", call, at, 6000)
        trace.kernel(GEMM, at + 6010, 3900, at=at + 6005)

    assert "Profile later steps" in first(job(tmp_path, fill))


def test_weights_that_are_streamed_layer_by_layer_are_no_input(tmp_path):
    def fill(trace, at, _):
        for layer in range(4):
            copied(trace, at + 2500 * layer, 1700, 40_000_000)
            trace.kernel(GEMM, at + 2500 * layer + 1720, 770, at=at + 2500 * layer + 20)

    found = job(tmp_path, fill)
    assert found.input_wait_s == 0
    assert limits(found)["offload"] == pytest.approx(6800)
    assert "Offload less" in first(found)


def test_batches_of_micro_batches_are_input(tmp_path):
    def fill(trace, at, _):
        for begin in (at, at + 5000):
            trace.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, 100)
            copied(trace, begin + 110, 2000, 1_000_000)
            trace.kernel(GEMM, begin + 2200, 2700, at=begin + 2190)

    found = job(tmp_path, fill)
    assert found.input_wait_s == pytest.approx(4200e-6, rel=0.03)


def test_an_optimizer_on_the_processor_is_named_and_no_synchronization(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 3000, at=at)
        copied(trace, at + 3005, 1500, 40_000_000, "Memcpy DtoH (Device -> Pinned)")
        trace.event("cuda_runtime", "cudaStreamSynchronize", at + 3020, 1495)
        trace.event("cpu_op", "DeepSpeedCPUAdam", at + 4530, 2900)
        copied(trace, at + 7450, 2400, 40_000_000)

    said = [one.sentence for one in job(tmp_path, fill).advice]
    assert "(DeepSpeedCPUAdam)" in said[0]
    assert "longest in DeepSpeedCPUAdam" in said[1]
    assert not any("Synchronize less" in one for one in said)


def test_pageable_copies_in_the_middle_of_a_step_are_advised_to_be_pinned(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 5000, at=at)
        copied(trace, at + 5010, 3000, 77_000, "Memcpy HtoD (Pageable -> Device)")
        trace.kernel(GEMM, at + 8040, 1900, at=at + 8030)

    said = first(job(tmp_path, fill))
    assert "Pin the memory" in said
    assert "DataLoader" not in said


def test_a_step_without_synchronization_takes_as_long_as_its_host(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 2000, at=at)
        trace.event("cuda_runtime", "cudaStreamSynchronize", at + 36, 1978)
        trace.event("python_function", "train.py(30): tokenize", at + 2020, 7900)

    found = job(tmp_path, fill)
    assert "Move other work" in first(found)
    assert "tokenize" in first(found)
    [less] = [one for one in found.advice if "Synchronize less" in one.sentence]
    assert less.gain_s <= 2000e-6


def test_gaps_of_python_between_launches_are_not_launch_bound(tmp_path):
    def fill(trace, at, _):
        for layer in range(8):
            trace.kernel(GEMM, at + 1250 * layer + 910, 330, at=at + 1250 * layer + 900)

    found = job(tmp_path, fill)
    assert limits(found)["host"] == pytest.approx(7360, rel=0.03)
    assert "launch-bound" not in first(found)


def test_gaps_that_nothing_explains_are_advised_on(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 5, 3000, at=at)
        trace.event("cuda_runtime", "cudaStreamWaitEvent", at + 8, 2)
        trace.kernel(GEMM, at + 7000, 2990, at=at + 10)

    said = first(job(tmp_path, fill))
    assert "Record the cause" in said
    assert "with_stack=True" in said


def test_softmax_of_a_router_next_to_flash_attention_is_no_eager_attention(tmp_path):
    def fill(trace, at, _):
        trace.kernel("flash_fwd_kernel", at + 10, 3000, at=at, op="aten::_flash_attention_forward")
        trace.kernel("softmax_warp_forward", at + 3020, 900, at=at + 10, op="aten::_softmax")
        trace.kernel(GEMM, at + 3930, 6000, at=at + 20, op="aten::bmm")

    assert not any("flash attention" in one.sentence for one in job(tmp_path, fill).advice)


@pytest.mark.parametrize(("experts", "is_attention"), [(8, False), (64, True)])
def test_softmax_between_batched_products_of_other_shapes_is_no_attention(tmp_path, experts, is_attention):
    def product(trace, start, at, batch):
        trace.kernel(GEMM, start, 3000, at=at, op="aten::bmm")
        trace.events[-3]["args"]["Input Dims"] = [[batch, 16, 16], [batch, 16, 16]]

    def fill(trace, at, _):
        product(trace, at + 10, at, 64)
        trace.kernel("softmax_warp_forward", at + 3020, 3000, at=at + 10, op="aten::_softmax")
        product(trace, at + 6030, at + 20, experts)

    said = [one.sentence for one in job(tmp_path, fill).advice]
    assert any("Eager attention" in one for one in said) is is_attention


def test_softmax_behind_a_linear_layer_is_no_attention(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 2000, at=at, op="aten::bmm")
        trace.kernel(GEMM, at + 2020, 2000, at=at + 10, op="aten::mm")
        trace.kernel("softmax_warp_forward", at + 4030, 3000, at=at + 20, op="aten::_softmax")
        trace.kernel(GEMM, at + 7040, 2000, at=at + 30, op="aten::bmm")

    assert not any("Eager attention" in one.sentence for one in job(tmp_path, fill).advice)


def flawed(tmp_path, spoil):
    """The explanation of four sound steps of 10 ms, of which ``spoil`` may change the events."""
    trace = Composed()
    for number in range(4):
        at = number * STEP
        trace.step(number, at, STEP - 10)
        for place in range(9):
            trace.kernel(GEMM, at + 1030 + 1000 * place, 900, at=at + 1000 + 1000 * place)
    kernels = [event for event in trace.events if event["cat"] == "kernel"]
    spoil(trace, kernels)
    return explain_trace([trace.write(tmp_path)])


@pytest.mark.parametrize("place", [2, 11, 20, 35])
@pytest.mark.parametrize("length", [1100.0, 30_000.0, 3_400_000.0])
def test_a_kernel_that_its_stream_leaves_no_time_for_is_named_and_its_step_left_out(tmp_path, place, length):
    def spoil(_, kernels):
        kernels[place]["dur"] = length

    found = flawed(tmp_path, spoil)
    if place == 35 and length < STEP:
        assert not found.warnings
        return
    assert found.whole_s == pytest.approx(10e-3, rel=0.01)
    assert any(f"ProfilerStep#{place // 9} (1 impossible kernel)" in warning for warning in found.warnings)
    assert not any(GEMM in one.sentence for one in found.advice)


def test_of_steps_that_all_lack_kernels_there_is_no_breakdown(tmp_path):
    def spoil(_, kernels):
        for kernel in kernels:
            kernel["dur"] = 1100.0

    found = flawed(tmp_path, spoil)
    assert [*found.limits, *found.phases, *found.rows, *found.advice, *found.sentences] == []
    assert (found.hidden_communication_s, found.bubble_s, found.unmatched_s) == (0.0, 0.0, 0.0)
    assert found.whole_s == pytest.approx(10e-3, rel=0.01)
    assert any("doubtful" in warning for warning in found.warnings)
    assert all(f"ProfilerStep#{number} (8 impossible" in found.warnings[1] for number in (0, 1, 2))


@pytest.mark.parametrize(("first", "lost"), [(9, 9), (13, 1), (27, 9)])
def test_a_step_whose_launches_have_no_kernels_is_named_and_left_out(tmp_path, first, lost):
    whole = flawed(tmp_path, lambda *_: None)

    def spoil(trace, kernels):
        for kernel in kernels[first : first + lost]:
            trace.events.remove(kernel)

    found = flawed(tmp_path, spoil)
    assert limits(found) == pytest.approx(limits(whole), rel=0.01, abs=20)
    assert f"ProfilerStep#{first // 9} ({lost} of 9" in found.warnings[0]


def test_where_every_step_has_impossible_kernels_nothing_is_advised(tmp_path):
    def spoil(_, kernels):
        for kernel in kernels[::9]:
            kernel["dur"] = 5000.0

    found = flawed(tmp_path, spoil)
    assert not found.advice
    assert "no change is recommended" in found.warnings[-1]


def test_a_kernel_that_begins_in_the_last_lines_of_the_one_before_is_possible(tmp_path):
    def spoil(_, kernels):
        for kernel in kernels[::2]:
            kernel["dur"] = 1010.0

    found = flawed(tmp_path, spoil)
    assert not found.warnings
    assert found.whole_s == pytest.approx(10e-3, rel=0.01)


@pytest.mark.parametrize(
    "frame",
    [
        "torch/utils/data/dataloader.py(630): __next__",
        "multiprocessing/queues.py(103): get",
        "<built-in method poll of select.poll object at 0x7f>",
    ],
)
@pytest.mark.parametrize("launches", [True, False])
def test_a_host_that_waits_for_input_is_told_to_load_it_earlier(tmp_path, frame, launches):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 5000, at=at)
        trace.event("python_function", frame, at + 5010, 4900, tid=100 if launches else 101)

    found = job(tmp_path, fill)
    assert ("Load the input earlier" in first(found)) is launches
    assert ("Move other work" in first(found)) is not launches
