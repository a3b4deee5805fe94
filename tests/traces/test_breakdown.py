"""Whatever runs when: every instant of a step has exactly one reason."""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kineto import Composed

from sightline.explanation.answer import Explanation
from sightline.explanation.traced.traced_step import explain_trace

NAMES = (
    "sm90_xmma_gemm_bf16",
    "vectorized_elementwise_kernel",
    "ncclDevKernel_AllReduce",
    "ncclDevKernel_SendRecv",
    "q",
)
TIMES = st.integers(0, 3000)
KERNELS = st.lists(
    st.tuples(st.sampled_from(NAMES), TIMES, st.integers(0, 400), st.integers(0, 500), st.sampled_from((7, 20))),
    max_size=25,
)
ON_HOST = (
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "aten::item",
    "Optimizer.step#SGD.step",
    "aten::mm",
)
CALLS = st.lists(st.tuples(st.sampled_from(ON_HOST), TIMES, st.integers(1, 800)), min_size=1, max_size=10)
OFTEN = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def composed(kernels, calls, steps, rank=0):
    trace = Composed(rank, 2)
    for number in range(steps):
        trace.step(number, number * 1000, 1000)
    for name, start, length, before, stream in kernels:
        trace.kernel(name, start, length, at=start - before, stream=stream)
    for name, start, length in calls:
        trace.event("cpu_op" if name.startswith("aten") else "user_annotation", name, start, length, tid=101)
    return trace


def told_s(explanation: Explanation) -> float:
    """Return the seconds that parts are told of: none where every step's kernels are flawed, which a warning says."""
    return 0.0 if any("figures are doubtful" in one for one in explanation.warnings) else explanation.whole_s


@OFTEN
@given(KERNELS, CALLS, st.integers(0, 3))
def test_parts_of_any_job_sum_to_its_step_and_none_is_negative(tmp_path, kernels, calls, steps):
    explanation = explain_trace([composed(kernels, calls, steps).write(tmp_path)])
    for part in ([one.time_s for one in explanation.limits], explanation.phases.values()):
        assert sum(part) == pytest.approx(told_s(explanation), rel=1e-9, abs=1e-12)
        assert all(value >= 0 for value in part)
    assert all(row.exposed_s >= 0 and row.time_s >= 0 for row in explanation.rows)


@OFTEN
@given(KERNELS, KERNELS, CALLS)
def test_parts_of_any_two_ranks_sum_to_their_step(tmp_path, first, second, calls):
    places = [
        composed(kernels, calls, 2, rank).write(tmp_path, f"{rank}.json")
        for rank, kernels in enumerate((first, second))
    ]
    explanation = explain_trace(places)
    assert sum(one.time_s for one in explanation.limits) == pytest.approx(told_s(explanation), rel=1e-9, abs=1e-12)


@settings(OFTEN, max_examples=30, phases=(Phase.generate,))
@given(KERNELS, CALLS, st.randoms(use_true_random=False))
def test_the_order_of_events_in_the_file_does_not_matter(tmp_path, kernels, calls, order):
    trace = composed(kernels, calls, 2)
    before = explain_trace([trace.write(tmp_path)])
    order.shuffle(trace.events)
    after = explain_trace([trace.write(tmp_path)])
    assert after.phases == pytest.approx(before.phases)
    assert after.sentences == before.sentences


def test_steps_in_another_order_of_kernels_have_the_same_parts(tmp_path):
    numbers = list(range(30))
    kernels = [(NAMES[n % 2], 100 * n, 60, 5, 7) for n in numbers]
    calls = [("aten::mm", 0, 1)]
    before = explain_trace([composed(kernels, calls, 3).write(tmp_path)])
    random.Random(1).shuffle(kernels)
    assert explain_trace([composed(kernels, calls, 3).write(tmp_path)]).phases == pytest.approx(before.phases)
