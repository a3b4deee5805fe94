"""Names of kernels that only look like those of other operators."""

import pytest

from sightline.traces.operator_names import work_of


@pytest.mark.parametrize(
    ("operator", "kernel", "not_called"),
    [
        ("aten::copy_", "elementwise_kernel<at::native::direct_copy_kernel_cuda(...)::{lambda()#3}>", "update"),
        ("aten::sum", "reduce_kernel<512, 1, ReduceOp<float, sum_functor::{lambda(float)#1}>>", "update"),
        ("fb::offsets_range", "fbgemm_gpu::_offsets_range_cuda_kernel<long>", "matmul"),
    ],
)
def test_parts_of_other_words_say_nothing(operator, kernel, not_called):
    assert work_of(operator, kernel).operator != not_called


def test_the_kernel_of_an_optimizer_is_an_update():
    assert work_of("", "void apex::multi_tensor_apply_kernel<LAMBFunctor>").operator == "update"


@pytest.mark.parametrize("name", ["waiting for the slowest device", "waiting for longer samples"])
def test_waits_of_a_predicted_timeline_are_the_links(name):
    work = work_of("", name)
    assert (work.bound, work.operator) == ("network", "waiting for others")
