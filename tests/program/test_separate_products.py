"""Products as torchtitan's layers call them, against those of a framework that joins them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_scenarios import behaving, training

from sightline.prediction.training.constants import believed_constants
from sightline.prediction.training.priced import price
from sightline.program import Block, Collective, Elementwise, Matmul, Operator, write_out
from sightline.scenario import Scenario

TOKENS, HIDDEN, WIDTH, KEYS = 2048, 4096, 14336, 1024
BEHAVIOR = ("native.separate_projections", "native.chunked_products", "native.transposes_in_backward")


def scenario(*, without: Sequence[str] = (), **plan: Any) -> Scenario:
    asked = training(
        model="llama-3-8b",
        cluster="8x h100-sxm-80gb",
        sequence_length=TOKENS,
        global_batch=8,
        plan={"framework": "torchtitan", "micro_batch": 1, "compile": True, **plan},
    )
    framework = behaving(asked.plan.framework, {key: frozenset() if "projections" in key else False for key in without})
    return replace(asked, plan=replace(asked.plan, framework=framework))


def layer(**plan: Any) -> Block:
    return write_out(scenario(**plan)).layers[0]


def split(t: int, **plan: Any) -> dict[str, Any]:
    return {"tensor_parallel": t, "sequence_parallel": True, **plan}


def products(operators: Sequence[Operator], module: str, name: str) -> list[Matmul]:
    return [op for op in operators if isinstance(op, Matmul) and (op.module, op.name) == (module, name)]


def flops(block: Block) -> float:
    return sum(float(op.count * op.flops) for op in (*block.forward, *block.backward))


def kept(block: Block) -> float:
    return float(sum(op.count * op.saved_bytes for op in block.forward))


def traffic(operators: Sequence[Operator], name: str) -> float:
    return sum(float(op.count * op.bytes) for op in operators if isinstance(op, Elementwise) and op.name == name)


PLANS = ({}, {"dtype": "fp8"}, split(4), split(4, tensor_overlap="all"), split(4, tensor_overlap="all", dtype="fp8"))


@pytest.mark.parametrize("plan", PLANS)
def test_apart_and_in_chunks_products_have_the_same_flops_and_keep_as_much(plan: dict[str, Any]) -> None:
    own, joined = layer(**plan), layer(without=BEHAVIOR, **plan)
    assert flops(own) == pytest.approx(flops(joined), rel=1e-12)
    assert kept(own) == pytest.approx(kept(joined), rel=1e-12)


def test_queries_keys_and_values_are_three_products_and_their_input_gradients_are_summed() -> None:
    block = layer()
    assert [op.n for op in products(block.forward, "qkv", "matmul")] == pytest.approx([HIDDEN, KEYS, KEYS])
    assert [op.n for op in products(block.forward, "mlp", "up")] == pytest.approx([WIDTH, WIDTH])
    assert [op.k for op in products(block.backward, "qkv", "input gradient")] == pytest.approx([HIDDEN, KEYS, KEYS])
    assert [op.m for op in products(block.backward, "qkv", "weight gradient")] == pytest.approx([HIDDEN, KEYS, KEYS])
    # Three in and one out, and two in and one out, of 16 bits each.
    assert traffic(block.backward, "input gradients summed") == (4 + 3) * 2 * TOKENS * HIDDEN
    assert traffic(layer(without=BEHAVIOR).backward, "input gradients summed") == 0


def test_an_overlapped_collective_cuts_the_product_beside_it_by_rank() -> None:
    plain, cut = layer(**split(4, tensor_overlap="none")), layer(**split(4, tensor_overlap="all"))
    for module, name in (("mlp", "up"), ("mlp", "down"), ("output projection", "matmul")):
        for whole, pieces in zip(
            products(plain.forward, module, name), products(cut.forward, module, name), strict=True
        ):
            assert (pieces.m, pieces.count) == (whole.m / 4, 4)
    down, up, *_ = products(cut.backward, "mlp", "input gradient")
    assert (down.m, up.m) == (TOKENS / 4, TOKENS)
    assert {op.m for op in products(layer(tensor_overlap="all").forward, "mlp", "up")} == {TOKENS}


def test_pieces_of_a_scattered_sum_are_added_up_and_a_sum_of_products_is_scattered_alone() -> None:
    plain, cut = layer(**split(4, tensor_overlap="none")), layer(**split(4, tensor_overlap="all"))
    assert traffic(cut.forward, "pieces summed") == 2 * 2 * TOKENS * HIDDEN * (1 + 1 / 4)
    assert traffic(plain.forward, "pieces summed") == traffic(layer().forward, "pieces summed") == 0
    for block, beside in ((plain, "weight gradient"), (cut, "nothing")):
        scattered = [op for op in block.backward if isinstance(op, Collective) and op.kind == "reduce_scatter"]
        assert [op.overlapped_with for op in scattered] == [beside] * 2
    sizes = [
        sum(float(op.count * op.buffer_bytes) for op in block.backward if isinstance(op, Collective))
        for block in (plain, cut)
    ]
    assert sizes[0] == sizes[1]


def test_what_is_gathered_is_quantized_before_and_turned_over_after() -> None:
    whole, cut = layer(dtype="fp8"), layer(**split(4, dtype="fp8"))

    def cast(block: Block, module: str) -> float:
        return sum(float(op.bytes) for op in block.forward if (op.module, op.name) == (module, "input quantization"))

    def turned(block: Block, module: str) -> float:
        return sum(
            float(op.bytes) for op in block.backward if (op.module, op.name) == (module, "operand transposition")
        )

    # Two reads of 16 bits and one byte out; a rank's own tokens of what is gathered, all of its own columns.
    assert cast(whole, "qkv") == 5 * TOKENS * HIDDEN
    assert cast(cut, "qkv") == cast(whole, "qkv") / 4
    assert cast(cut, "output projection") == cast(whole, "output projection") / 4
    assert turned(cut, "output projection") == 2 * TOKENS * (HIDDEN / 4 + HIDDEN)
    assert turned(layer(dtype="bf16"), "qkv") == 0


def test_a_rope_in_complex_numbers_is_not_compiled() -> None:
    compiled = scenario()
    real = behaving(compiled.plan.framework, {"native.complex_rope": False})
    fused = write_out(replace(compiled, plan=replace(compiled.plan, framework=real))).layers[0]
    assert traffic(write_out(compiled).layers[0].forward, "rope") == 5 * traffic(fused.forward, "rope")


def test_whole_gradients_are_added_up_in_fp32_under_a_pipeline() -> None:
    name, parameters = "gradient accumulation", 2 * HIDDEN * (HIDDEN + KEYS) + 3 * HIDDEN * WIDTH
    assert traffic(layer(zero_stage=2).backward, name) == 6 * parameters
    assert traffic(layer(zero_stage=2, pipeline_parallel=4).backward, name) == 10 * parameters
    piped = scenario(zero_stage=2)
    degrees = np.array([1, 4])
    many = write_out(replace(piped, plan=replace(piped.plan, pipeline_parallel=degrees, data_parallel=8 // degrees)))
    added = [op for op in many.layers[0].backward if op.name == name]
    assert sum(np.asarray(op.count * op.bytes) for op in added) == pytest.approx(np.array([6, 10]) * parameters)


@pytest.mark.parametrize(("dtype", "slower"), [("fp8", 1.3), ("bf16", 1.0)])
def test_exact_sums_slow_the_products_of_gradients_in_fp8(dtype: str, slower: float) -> None:
    asked = scenario(dtype=dtype)
    constants = believed_constants(asked)
    for name, expected in (("input gradient", slower), ("weight gradient", slower), ("up", 1.0)):
        times = []
        for slowdown in (1.0, 1.3):
            priced = price(asked, replace(constants, exact_gradients_slowdown=slowdown))
            block = priced.program.layers[0]
            found = products((*block.forward, *block.backward), "mlp", name)
            times.append(sum(float(op.count * priced.prices[id(op)].time_s) for op in found))
        assert times[1] / times[0] == pytest.approx(expected)


def test_an_uncompiled_loss_is_differentiated_tensor_by_tensor() -> None:
    def moved(t: int, *without: str) -> tuple[float, float]:
        head = write_out(scenario(without=without, **split(t, framework_version="2024"))).head
        per_logit = float(head.logits)
        forward, backward = traffic(head.forward, "cross-entropy"), traffic(head.backward, "cross-entropy gradient")
        return forward / per_logit, backward / per_logit

    assert moved(1) == (22, 26)
    assert moved(4) == (38, 38)
    assert moved(1, "native.loss_by_autograd") == moved(4, "native.loss_by_autograd") == (22, 14)


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_scaling_reduces_gate_and_up_apart_and_gathers_logits(sequence_parallel: bool) -> None:
    program = write_out(scenario(framework="scaling", compile=False, **split(4, sequence_parallel=sequence_parallel)))
    block, head = program.layers[0], program.head

    def reduced(module: str) -> float:
        sent = [op for op in block.backward if isinstance(op, Collective) and op.module == module]
        return sum(float(op.count) for op in sent if op.kind in ("all_reduce", "reduce_scatter"))

    assert len(products(block.forward, "mlp", "up")) == 2
    assert len(products(block.forward, "qkv", "matmul")) == 1
    assert (reduced("qkv"), reduced("mlp")) == (1, 1 if sequence_parallel else 2)
    gathered = [op for op in head.forward if isinstance(op, Collective) and op.overlapped_with == "nothing"]
    assert [float(op.buffer_bytes) for op in gathered] == [4 * 2 * float(head.logits)]
    assert traffic(head.forward, "cross-entropy") == 4 * 22 * float(head.logits)


def test_products_without_parts_stay_whole() -> None:
    plan = {"framework": "torchtitan", "micro_batch": 1}
    x = training(model="deepseek-r1", cluster="8x h100-sxm-80gb", global_batch=8, plan=plan)
    for block in write_out(x).layers:
        assert all(op.k > 0 and op.n > 0 for op in block.operators if isinstance(op, Matmul))
