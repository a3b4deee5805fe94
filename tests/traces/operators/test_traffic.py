"""Rows of operators have the bytes that these read and write, where recorded shapes and types tell them."""

import math

import pytest
from kineto import Composed

from sightline.explanation.traced.traced_step import explain_trace
from sightline.program.operators import FlashAttention, Matmul

BF16, FP32 = "c10::BFloat16", "float"


def rows(tmp_path, *operators):
    """The rows of a device's operators, each of a name, shapes, types and the kernels that it launches."""
    trace = Composed()
    trace.step(1, 0.0, 100.0 * len(operators))
    for place, (name, shapes, types, *kernels) in enumerate(operators):
        at = 100.0 * place
        for kernel in kernels or ["kernel"]:
            trace.kernel(kernel, at + 10, 80.0 / (len(kernels) or 1), at=at, op=name)
            trace.events[-3]["args"] |= {"Input Dims": shapes, "Input type": types}
            at += 1
    return explain_trace([trace.write(tmp_path)]).rows


def bytes_of(tmp_path, name, shapes, types):
    [row] = rows(tmp_path, (name, shapes, types))
    return row.bytes


def test_products_move_what_the_program_counts(tmp_path):
    sizes = {"m": 16, "n": 32, "k": 8}
    counted = Matmul(module="mlp", part="up", dtype="bf16", element_bytes=2.0, output_bytes=2.0, **sizes)
    [row] = rows(tmp_path, ("aten::mm", [[16, 8], [8, 32]], [BF16] * 2))
    assert (row.flops, row.bytes) == (counted.flops, counted.bytes)


@pytest.mark.parametrize("backward", [False, True])
def test_fused_attention_moves_what_the_program_counts(tmp_path, backward):
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "head_dim": 64, "value_dim": 64}
    counted = FlashAttention(
        module="attention core",
        part="attention",
        direction="backward" if backward else "forward",
        query_tokens=128,
        context_tokens=256,
        dtype="bf16",
        element_bytes=2.0,
        **sizes,
    )
    q, kv = [2, 128, 4, 64], [2, 256, 2, 64]
    shapes = [*([q] if backward else []), q, kv, kv, *([q, [2, 4, 128]] if backward else []), [], []]
    types = [*([BF16] if backward else []), BF16, BF16, BF16, *([BF16, FP32] if backward else []), "Scalar", ""]
    name = f"aten::_flash_attention_{'backward' if backward else 'forward'}"
    assert bytes_of(tmp_path, name, shapes, types) == counted.bytes


@pytest.mark.parametrize(
    ("name", "shapes", "types", "expected"),
    [
        ("aten::add", [[4, 8], [4, 8], []], [BF16, BF16, "Scalar"], 3 * 32 * 2),
        ("aten::mul", [[4, 8], [8]], [FP32, FP32], (2 * 32 + 8) * 4),
        ("aten::add_", [[4, 8], [4, 8], []], [FP32, FP32, "Scalar"], 3 * 32 * 4),
        ("aten::gt", [[4, 8], [4, 8]], [FP32, FP32], 2 * 32 * 4 + 32),
        ("aten::copy_", [[4, 8], [4, 8], []], [BF16, FP32, "Scalar"], 32 * (2 + 4)),
        ("aten::fill_", [[4, 8], []], [FP32, "Scalar"], 32 * 4),
        ("aten::silu", [[4, 8]], [BF16], 2 * 32 * 2),
        ("aten::_softmax", [[4, 8], [], []], [BF16, "Scalar", "Scalar"], 2 * 32 * 2),
        ("aten::native_layer_norm", [[4, 8], [], [8], [8], []], [BF16, "ScalarList", BF16, BF16, "Scalar"], 80 * 2),
        ("aten::native_dropout", [[4, 8], [], []], [BF16, "Scalar", "Scalar"], 2 * 32 * 2 + 32),
    ],
)
def test_kernels_bound_by_memory_read_their_operands_and_write_their_result(tmp_path, name, shapes, types, expected):
    assert bytes_of(tmp_path, name, shapes, types) == expected


@pytest.mark.parametrize(
    ("name", "shapes", "types"),
    [
        ("aten::sum", [[4, 8], [1], []], [BF16, "ScalarList", "Scalar"]),
        ("aten::cat", [[[4, 8], [4, 8]], []], ["TensorList", "Scalar"]),
        ("aten::add", [[4, 8], [4, 8], []], []),
        ("aten::mul", [[4, 8], [4, 8]], ["c10::Unheard", FP32]),
        ("aten::mul", [[4, 8], [3, 5]], [FP32, FP32]),
        ("aten::mul", [[-4, "8"], [3, 5]], [FP32, FP32]),
        ("aten::mul", [[4, 8], [4, 8]], [[FP32], {"type": FP32}]),
        ("aten::mul", [[10**400], [10**400]], [FP32, FP32]),
        ("aten::mul", [20 * [10**18], 20 * [10**18]], [FP32, FP32]),
    ],
)
def test_what_shapes_and_types_do_not_tell_stays_empty(tmp_path, name, shapes, types):
    assert math.isnan(bytes_of(tmp_path, name, shapes, types))


def test_a_row_of_which_one_operator_is_unknown_stays_empty(tmp_path):
    known, unknown = ("aten::silu", [[4, 8]], [BF16]), ("aten::gelu", [], [])
    [row] = rows(tmp_path, known, unknown)
    assert math.isnan(row.bytes)


def test_an_operator_of_several_kernels_moves_its_bytes_once(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, 100.0)
    trace.kernel("sm90_xmma_gemm_bf16", 20.0, 40.0, at=0.0)
    trace.events[1]["args"] |= {"Input Dims": [[4, 8], [8, 4]], "Input type": [BF16, BF16]}
    trace.events[1]["dur"] = 20
    ids = {"correlation": 9, "device": 0, "stream": 7}
    trace.event("cuda_runtime", "cudaLaunchKernel", 10.0, 5.0, correlation=9)
    trace.event("kernel", "splitKreduce_kernel", 60.0, 40.0, pid=0, tid=7, **ids)
    [row] = explain_trace([trace.write(tmp_path)]).rows
    assert (row.count, row.bytes) == (2, (2 * 32 + 16) * 2)


def test_copies_within_a_device_say_their_bytes_themselves(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, 100.0)
    trace.kernel("Memcpy DtoD (Device -> Device)", 10.0, 90.0, at=0.0, op="aten::clone", cat="gpu_memcpy", bytes=640)
    [row] = explain_trace([trace.write(tmp_path)]).rows
    assert row.bytes == 2 * 640


def test_on_the_host_what_an_operator_calls_is_counted_once(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, 1000.0)
    for name, start, length, shapes, types in (
        ("aten::linear", 0.0, 1000.0, [[4, 8], [16, 8], [16]], [FP32] * 3),
        ("aten::addmm", 10.0, 980.0, [[16], [4, 8], [8, 16], [], []], [FP32] * 3 + ["Scalar"] * 2),
        ("aten::copy_", 100.0, 200.0, [[4, 16], [4, 16], []], [FP32, FP32, "Scalar"]),
    ):
        trace.event("cpu_op", name, start, length, **{"Input Dims": shapes, "Input type": types})
    found = [row for row in explain_trace([trace.write(tmp_path)]).rows if row.operator == "matmul"]
    assert sum(row.bytes for row in found) == (16 + 32 + 8 * 16 + 4 * 16) * 4


def test_unknown_bytes_are_null_in_json(tmp_path):
    trace = Composed()
    trace.step(1, 0.0, 100.0)
    trace.kernel("vectorized_elementwise_kernel", 10.0, 90.0, at=0.0, op="aten::add")
    assert explain_trace([trace.write(tmp_path)]).to_dict()["rows"][0]["bytes"] is None
