"""Kernels of attention and the compiler."""

from sightline.reproduction.asking import Ask
from sightline.reproduction.talk import kernels


def test_fused_attention_and_the_compiler_are_faster_than_eager_ones():
    rows = list(kernels(Ask()).answer.rows)
    steps = {(row["device"], row["kernel"], row["compiler"]): row["step_time_s"] for row in rows}
    for (device, kernel, compiler), seconds in steps.items():
        if compiler == "torch.compile":
            assert seconds < steps[device, kernel, "eager mode"]
        if kernel != "eager":
            assert seconds < steps[device, "eager", compiler]


def test_each_device_starts_from_eager_operators_and_has_its_kernels():
    rows = list(kernels(Ask()).answer.rows)
    assert [row["speedup"] for row in rows if (row["kernel"], row["compiler"]) == ("eager", "eager mode")] == [1.0, 1.0]
    hopper = {row["device"] for row in rows if row["kernel"] == "FlashAttention-3"}
    assert hopper == {"8x h100-sxm-80gb"}
