"""Jobs of several ranks: which of them wait for which, and for what; composed traces."""

import pytest
from kineto import Composed

from sightline.explanation.traced.traced_step import explain_trace

GEMM = "sm90_xmma_gemm_bf16"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
STEP = 10_000.0
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def job(tmp_path, fill, ranks, steps=4):
    """The explanation of a job; ``fill`` adds what is in a step of a rank that begins at an instant."""
    for rank in range(ranks):
        trace = Composed(rank, ranks)
        for number in range(steps):
            trace.step(number, number * STEP, STEP)
            fill(trace, number * STEP, rank)
        trace.write(tmp_path, f"rank{rank}.pt.trace.json.gz")
    return explain_trace([tmp_path])


def first(explanation):
    return explanation.advice[0].sentence


def limits(explanation):
    return {one.limit: one.time_s * 1e6 for one in explanation.limits}


def in_groups(late, named):
    """Two groups of two ranks, of which the second is ``late`` in every other collective, but both members alike."""

    def fill(trace, at, rank):
        group = rank // 2
        members = [2 * group, 2 * group + 1]
        args = {"Process Group Name": f"tp{group}", "Process Group Ranks": str(members)} if named else {}
        for layer in range(8):
            begin = at + 1250 * layer + (late if group and layer % 2 == 0 else 0)
            trace.kernel(GEMM, begin + 10, 500, at=begin)
            trace.kernel(ALL_REDUCE, begin + 515, 280, at=begin + 5, op="c10d::allreduce_", stream=20, **args)

    return fill


@pytest.mark.parametrize("named", [True, False])
def test_collectives_of_different_groups_do_not_wait_for_each_other(tmp_path, named):
    assert "imbalance" not in limits(job(tmp_path, in_groups(400, named), 4))


def test_a_late_member_of_a_named_group_is_found(tmp_path):
    def fill(trace, at, rank):
        args = {"Process Group Name": "1", "Process Group Ranks": [0, 2]}
        late = 3000 if rank == 2 else 0
        trace.kernel(GEMM, at + 10, 2000 + late, at=at)
        if rank != 1:
            trace.kernel(ALL_REDUCE, at + 2015 + late, 3500 - late, at=at + 5, op="c10d::allreduce_", stream=20, **args)

    found = job(tmp_path, fill, 3)
    assert limits(found)["imbalance"] == pytest.approx(1000)
    assert any("for rank 2" in one.sentence for one in found.advice)


def transfer(trace, begin, length, op, at):
    trace.kernel(SEND_RECV, begin, length, at=at, op=op, stream=20)


def backward(trace, begin, length, at):
    trace.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", at - 1, 20)
    trace.kernel(GEMM, begin, length, at=at)


def test_the_first_stage_of_a_pipeline_waits_in_a_bubble(tmp_path):
    def fill(trace, at, _):
        for micro in range(2):
            trace.kernel(GEMM, at + 1000 * micro + 10, 900, at=at + 20 * micro)
            transfer(trace, at + 1000 * micro + 920, 80, "nccl:send 0->1", at + 20 * micro + 10)
        for micro, wait in ((0, 3000), (1, 500)):
            begin = at + 2100 + 4000 * micro
            transfer(trace, begin, wait, "nccl:recv 0<-1", at + 100 + 60 * micro)
            backward(trace, begin + wait + 10, 900, at + 130 + 60 * micro)

    found = job(tmp_path, fill, 1)
    assert found.bubble_s == pytest.approx(2500e-6)
    assert any("pipeline bubble" in one.sentence for one in found.advice)


def middle_stage(trace, at, _):
    """Transfers of a coalesced batch, which name neither direction nor peer: some wait for long, and some do not."""
    for micro in range(2):
        transfer(trace, at + 2000 * micro, 100 + 900 * micro, "nccl:coalesced", at + 40 * micro)
        trace.kernel(GEMM, at + 2000 * micro + 1010, 900, at=at + 40 * micro + 10)
    for micro in range(2):
        transfer(trace, at + 4000 + 3000 * micro, 2000, "nccl:coalesced", at + 100 + 40 * micro)
        backward(trace, at + 6010 + 3000 * micro, 900, at + 120 + 40 * micro)


def test_a_middle_stage_without_named_peers_is_told_what_is_known(tmp_path):
    found = job(tmp_path, middle_stage, 1)
    assert found.bubble_s == 0
    assert limits(found)["transfers"] == pytest.approx(900 + 2 * 1900)
    assert limits(found)["network"] == pytest.approx(400)
    assert found.phases["communication_exposed"] == pytest.approx(5100e-6)
    assert "Find out what sends and receives wait for" in first(found)
    assert "does not show whether" in first(found)
    [overlap] = [one for one in found.advice if "Overlap communication" in one.sentence]
    assert overlap.gain_s == pytest.approx(400e-6)
    assert sum(limits(found).values()) == pytest.approx(STEP)


def of_host(trace, name, at, peer):
    """An operator of a transfer, with its peer as ``record_shapes`` writes it."""
    trace.event("cpu_op", name, at, 0.5, **{"Concrete Inputs": ["", "", str(peer), "0"], "Input Dims": [[[4]], [], []]})


@pytest.mark.parametrize(("up", "down", "is_pipeline"), [(3, 1, True), (3, 3, False)])
def test_operators_of_the_host_name_the_peers_of_batched_transfers(tmp_path, up, down, is_pipeline):
    def fill(trace, at, rank):
        middle_stage(trace, at, rank)
        of_host(trace, "c10d::recv_", at + 4, 1)
        of_host(trace, "c10d::send", at + 60, up)
        of_host(trace, "c10d::recv_", at + 115, 3 if is_pipeline else 1)
        of_host(trace, "c10d::send", at + 170, down)

    found = job(tmp_path, fill, 1)
    assert ("bubble" in limits(found)) is is_pipeline
    assert ("transfers" in limits(found)) is not is_pipeline


def test_all_reduces_inside_of_the_forward_pass_are_no_gradients(tmp_path):
    def fill(trace, at, _):
        for layer in range(4):
            begin, launched = at + 2400 * layer, at + 40 * layer
            trace.kernel(GEMM, begin + 10, 1000, at=launched)
            trace.collective(begin + 1015, 1300, at=launched + 10)
        backward(trace, at + 9610, 300, at + 400)

    said = first(job(tmp_path, fill, 1))
    assert "tensor parallelism" in said
    assert "buckets" not in said


def test_a_job_that_sends_buckets_already_is_not_told_to(tmp_path):
    def fill(trace, at, _):
        trace.event("user_annotation", "DistributedDataParallel.forward", at, 100.0)
        backward(trace, at + 10, 4000, at + 1)
        trace.collective(at + 4015, 5800, at=at + 5)
        backward(trace, at + 9820, 150, at + 40)

    said = first(job(tmp_path, fill, 1))
    assert "bf16_compress_hook" in said
    assert "gradient_as_bucket_view" not in said


def test_a_middle_stage_next_to_an_edge_waits_in_a_bubble(tmp_path):
    def fill(trace, at, rank):
        if rank:
            return middle_stage(trace, at, rank)
        trace.kernel(GEMM, at + 10, 900, at=at)
        transfer(trace, at + 920, 80, "nccl:send 0->1", at + 10)
        transfer(trace, at + 2100, 3000, "nccl:recv 0<-1", at + 100)
        return backward(trace, at + 5110, 900, at + 130)

    found = job(tmp_path, fill, 2)
    assert "transfers" not in limits(found)
    assert found.bubble_s == pytest.approx(0.5 * 4700e-6)


@pytest.mark.parametrize("ways", [("batch_isend_irecv",), ("nccl:send 0->1", "nccl:recv 0<-3")])
def test_a_ring_of_context_parallelism_is_no_pipeline(tmp_path, ways):
    def fill(trace, at, _):
        for layer in range(6):
            begin = at + 1200 * layer
            if layer < 3:
                trace.kernel(GEMM, begin + 10, 500, at=begin)
            else:
                backward(trace, begin + 10, 500, begin)
            for way in ways:
                transfer(trace, begin + 515, 600 if layer else 100, way, begin + 5)

    found = job(tmp_path, fill, 1)
    assert found.bubble_s == 0
    assert not any("micro-batches" in one.sentence for one in found.advice)


def test_each_device_of_a_file_is_a_rank(tmp_path):
    trace = Composed()
    for number in range(4):
        at = number * STEP
        trace.step(number, at, STEP)
        trace.kernel(GEMM, at + 10, 9900, at=at)
        trace.number += 1
        trace.event("cuda_runtime", "cudaLaunchKernel", at + 6000, 5, pid=200, tid=200, correlation=trace.number)
        trace.event("kernel", GEMM, at + 6010, 3900, pid=1, tid=7, correlation=trace.number, device=1, stream=7)
    found = explain_trace([trace.write(tmp_path)])
    assert "the mean of 2 ranks" in found.sentences[0]
    assert limits(found)["compute"] == pytest.approx(6900)
    assert any("holds devices 0, 1" in one for one in found.warnings)


def test_waits_for_the_slow_loader_of_one_rank_are_waits_for_input(tmp_path):
    def fill(trace, at, rank):
        wait = 5000 if rank == 1 else 0
        if wait:
            trace.event("user_annotation", LOADER, at, wait)
        trace.kernel(GEMM, at + wait + 20, 4000, at=at + wait + 5)
        trace.collective(at + wait + 4025, 5900 - wait, at=at + wait + 15)

    found = job(tmp_path, fill, 2)
    assert found.input_wait_s == pytest.approx(5000e-6)
    assert "imbalance" not in limits(found)
    assert "Rank 1 waits" in found.advice[0].sentence
    assert sum(limits(found).values()) == pytest.approx(STEP)


def test_one_slow_collective_is_named_and_other_ranks_are_asked_for(tmp_path):
    def fill(trace, at, _):
        for layer in range(8):
            trace.kernel(GEMM, at + 800 * layer + 10, 600, at=at + 20 * layer)
            trace.collective(at + 800 * layer + 615, 150, at=at + 20 * layer + 10)
        trace.kernel(GEMM, at + 6420, 300, at=at + 200)
        trace.collective(at + 6725, 3200, at=at + 210)

    said = job(tmp_path, fill, 1).advice[0].sentence
    assert "4 all-reduces take 3.2 ms each, while the median of its type takes 150 us" in said
    assert "sightline explain rank-*.json.gz" in said


def test_a_collective_that_takes_far_longer_than_its_bytes_need_is_named(tmp_path):
    def fill(trace, at, _):
        trace.kernel(GEMM, at + 10, 4000, at=at)
        trace.collective(at + 4015, 5900, at=at + 5, **{"In msg nelems": 1000})

    assert any("its 1,000 elements" in one for one in job(tmp_path, fill, 1).sentences)
