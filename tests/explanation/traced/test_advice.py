"""The first advice for a traced job names what is wrong with it."""

import re
import sys
from pathlib import Path

import pytest
from kineto import Composed

import sightline as sl
from sightline.explanation.traced.traced_step import explain_trace

RECORDED = Path(__file__).parents[2] / "traces" / "recorded"
SAID = {
    "input": "raise num_workers",
    "launches": "launch-bound",
    "all-reduce": "mostly all-reduce",
    "eager": "Eager attention",
    "uneven": "Balance .* for rank 1",
    "recompute": "Activation checkpointing reruns",
}
"""By planted fault what the advice says."""


def found_in(folder, fault):
    return explain_trace(sorted(folder.glob(f"{fault}*.json.gz")))


def is_whole(explanation):
    """Whether parts sum to the step, and none is negative."""
    parts = (explanation.phases.values(), [one.time_s for one in explanation.limits])
    assert all(value >= 0 for part in parts for value in part)
    return all(sum(part) == pytest.approx(explanation.whole_s) for part in parts)


@pytest.mark.parametrize("fault", SAID)
def test_the_first_advice_names_the_fault_of_a_recorded_job(fault):
    explanation = found_in(RECORDED, fault)
    assert re.search(SAID[fault], explanation.advice[0].sentence)
    assert is_whole(explanation)


@pytest.mark.slow
def test_advice_names_the_faults_of_jobs_that_run_here(tmp_path):
    """The fault is among what is advised: on a machine that others use too, their share may be the larger loss."""
    sys.path.insert(0, str(RECORDED.parent))
    import record

    record.record(tmp_path)
    for fault, said in SAID.items():
        assert re.search(said, " ".join(one.sentence for one in found_in(tmp_path, fault).advice))


@pytest.mark.parametrize("fault", SAID)
def test_a_job_without_an_accelerator_is_spoken_of_as_one_of_the_processor(fault):
    explanation = found_in(RECORDED, fault)
    said = " ".join([*explanation.sentences, *(one.sentence for one in explanation.advice)])
    assert "CPU" in said
    assert not re.search("device|kernels bound|the host|CUDA|pin_memory|flash_attention_2", said)


def test_a_job_with_an_accelerator_is_not(tmp_path):
    trace = Composed()
    for number in range(3):
        trace.step(number, number * 1000.0, 1000.0)
        trace.kernel("sm90_xmma_gemm_bf16", number * 1000.0 + 400, 200.0)
    explanation = explain_trace([trace.write(tmp_path)])
    assert "processor" not in " ".join([*explanation.sentences, *(one.sentence for one in explanation.advice)])


def test_a_processor_that_runs_no_operator_is_said_to(tmp_path):
    trace = Composed()
    for number in range(3):
        at = number * 10_000.0
        trace.step(number, at, 10_000.0)
        trace.event("cpu_op", "aten::mm", at, 4000.0)
        trace.event("python_function", "train.py(30): evaluate", at + 4000, 6000.0)
    first = explain_trace([trace.write(tmp_path)]).advice[0].sentence
    assert "6 ms of 10 ms (60 %), longest in train.py(30): evaluate" in first


def test_advice_is_ranked_by_its_gain_and_says_what_the_step_would_take():
    explanation = found_in(RECORDED, "uneven")
    gains = [one.gain_s for one in explanation.advice]
    assert gains == sorted(gains, reverse=True)
    assert all(one.gain == pytest.approx(one.gain_s / explanation.whole_s) for one in explanation.advice)
    assert all("The step would then take about" in one.sentence for one in explanation.advice)


def job(tmp_path, fill, steps=3, length=1000.0, **of):
    """The explanation of a device's job of equal steps; ``fill`` adds what is in one that begins at an instant."""
    trace = Composed(**of)
    for number in range(steps):
        trace.step(number, number * length, length)
        fill(trace, number * length)
    return explain_trace([trace.write(tmp_path)])


def limits(explanation):
    return {one.limit: one.time_s * 1e6 for one in explanation.limits}


def test_a_device_that_waits_for_the_loader_waits_for_input(tmp_path):
    def fill(trace, at):
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        trace.event("user_annotation", name, at, 600.0)
        trace.kernel("sm90_xmma_gemm_bf16", at + 620, 380.0, at=at + 605)

    explanation = job(tmp_path, fill)
    assert limits(explanation)["input"] == pytest.approx(600)
    assert limits(explanation)["compute"] == pytest.approx(380)
    assert "Load the input" in explanation.advice[0].sentence
    assert is_whole(explanation)


def test_a_loader_that_the_device_does_not_wait_for_costs_nothing(tmp_path):
    def fill(trace, at):
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        trace.kernel("sm90_xmma_gemm_bf16", at + 10, 990.0, at=at)
        trace.event("user_annotation", name, at + 20, 600.0)

    assert job(tmp_path, fill).input_wait_s == 0


def test_kernels_that_begin_when_they_are_launched_are_launch_bound(tmp_path):
    def fill(trace, at):
        for place in range(20):
            trace.kernel("vectorized_elementwise_kernel", at + 50 * place + 10, 5.0, op="aten::add")

    explanation = job(tmp_path, fill)
    assert limits(explanation)["launches"] == pytest.approx(900, rel=0.02)
    assert "launch-bound" in explanation.advice[0].sentence
    assert "20 launches per step" in explanation.advice[0].sentence


def test_gaps_behind_kernels_that_were_launched_long_ago_are_idle(tmp_path):
    def fill(trace, at):
        trace.kernel("sm90_xmma_gemm_bf16", at + 5, 400.0, at=at)
        trace.kernel("sm90_xmma_gemm_bf16", at + 700, 300.0, at=at + 10)

    found = limits(job(tmp_path, fill))
    assert found["idle"] == pytest.approx(295)
    assert found["compute"] == pytest.approx(700)


def test_communication_counts_only_where_nothing_computes(tmp_path):
    def fill(trace, at):
        trace.kernel("sm90_xmma_gemm_bf16", at + 5, 500.0, at=at)
        trace.collective(at + 205, 795.0, at=at + 100)

    explanation = job(tmp_path, fill)
    assert explanation.exposed_communication_s == pytest.approx(495e-6)
    assert explanation.hidden_communication_s == pytest.approx(300e-6)
    assert any(one.startswith("300 us of ") for one in explanation.sentences)
    assert is_whole(explanation)


def test_a_device_that_drains_while_the_host_waits_for_it_was_synchronized(tmp_path):
    def fill(trace, at):
        trace.kernel("sm90_xmma_gemm_bf16", at + 5, 300.0, at=at)
        trace.event("cuda_runtime", "cudaStreamSynchronize", at + 10, 300.0)
        trace.kernel("sm90_xmma_gemm_bf16", at + 805, 195.0, at=at + 800)

    explanation = job(tmp_path, fill)
    assert limits(explanation)["host"] == pytest.approx(500, abs=10)
    assert "Synchronize less" in explanation.advice[0].sentence


def test_the_rank_that_comes_last_is_named_and_others_wait_for_it(tmp_path):
    places = []
    for rank, work in enumerate((200.0, 200.0, 800.0)):
        trace = Composed(rank, 3)
        for number in range(3):
            at = number * 1000.0
            trace.step(number, at, 1000.0)
            trace.kernel("sm90_xmma_gemm_bf16", at + 5, work, at=at)
            trace.collective(at + work + 5, 995.0 - work, at=at + 1)
        places.append(trace.write(tmp_path, f"rank{rank}.pt.trace.json.gz"))
    explanation = explain_trace([tmp_path])
    assert limits(explanation)["imbalance"] == pytest.approx(400)
    assert limits(explanation)["network"] == pytest.approx(195)
    assert "for rank 2" in explanation.advice[0].sentence
    assert is_whole(explanation)


def test_eager_attention_on_a_device_is_named(tmp_path):
    def fill(trace, at):
        trace.kernel("ampere_bf16_s16816gemm", at + 5, 200.0, at=at, op="aten::bmm")
        trace.kernel("softmax_warp_forward", at + 205, 500.0, at=at + 6, op="aten::_softmax")
        trace.kernel("ampere_bf16_s16816gemm", at + 705, 295.0, at=at + 12, op="aten::bmm")

    explanation = job(tmp_path, fill)
    assert explanation.advice[0].set == {"plan.attention": "flash"}
    assert {row.module for row in explanation.rows} == {"attention core"}


def test_kernels_of_unknown_names_are_shown_as_such(tmp_path):
    def fill(trace, at):
        trace.kernel("quux_9000", at + 5, 995.0, at=at, op="mylib::quux")

    explanation = job(tmp_path, fill)
    assert explanation.unmatched_s == pytest.approx(995e-6)
    assert any("'quux_9000'" in one for one in explanation.sentences)


def test_a_first_step_that_warms_up_is_left_out(tmp_path):
    trace = Composed()
    for number, (at, length) in enumerate(((0.0, 9000.0), (9000.0, 1000.0), (10000.0, 1000.0), (11000.0, 1000.0))):
        trace.step(number, at, length)
        trace.kernel("sm90_xmma_gemm_bf16", at + 5, length - 5, at=at)
    trace.event("cuda_runtime", "cudaMalloc", 100.0, 50.0)
    assert explain_trace([trace.write(tmp_path)]).whole_s == pytest.approx(1e-3)


def test_a_device_behind_its_host_is_given_the_steps_of_its_kernels(tmp_path):
    trace = Composed()
    for number in range(4):
        trace.step(number, number * 100.0, 100.0)
        trace.kernel("sm90_xmma_gemm_bf16", number * 500.0 + 50, 500.0, at=number * 100.0 + 1)
    explanation = explain_trace([trace.write(tmp_path)])
    assert explanation.whole_s == pytest.approx(500e-6, rel=0.1)


def test_a_trace_without_steps_counts_as_one(tmp_path):
    trace = Composed()
    trace.kernel("sm90_xmma_gemm_bf16", 5, 95.0, at=0)
    explanation = explain_trace([trace.write(tmp_path)])
    assert explanation.whole_s == pytest.approx(100e-6)
    assert "no ProfilerStep" in explanation.warnings[-1]


def test_with_its_scenario_a_trace_is_held_against_the_prediction(tmp_path):
    place = Path(__file__).parents[3] / "examples" / "llama-2-7b-zero2-8xa800.yaml"
    scenario = sl.load(place, {"plan.zero_stage": 2, "plan.offload": "optimizer"})
    step_us = 2e6 * sl.predict(scenario).step_time_s
    trace = Composed()
    trace.step(1, 0.0, step_us)
    trace.event("python_function", "nn.Module: LlamaMLP_0", 0.0, 100.0)
    trace.kernel("sm90_xmma_gemm_bf16", 5.0, step_us - 5.0, at=0.0)
    explanation = explain_trace([trace.write(tmp_path)], scenario=scenario)
    assert any("2.00 x" in one for one in explanation.sentences)
    assert any("by phases: forward" in one for one in explanation.sentences)
    assert any("by modules: mlp" in one for one in explanation.sentences)
    assert explanation.scenario["plan"]["zero_stage"] == 2
    assert explanation.advice[0].set["plan.offload"] == "none"
    assert "plan.offload=none" in explanation.advice[0].command


def test_a_cut_trace_is_doubted_and_advises_nothing(tmp_path):
    whole = (RECORDED / "eager.json.gz").read_bytes()
    place = tmp_path / "cut.json.gz"
    place.write_bytes(whole[:3000])
    explanation = explain_trace([place])
    assert explanation.advice == ()
    assert "no change is recommended" in explanation.warnings[1]
