"""Products below 16 bits: what they change of a program and, at 16 bits, that they change nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_mesh import open_mesh
from training_scenarios import training

from sightline.prediction.training.step_profile import profile_of
from sightline.program import Block, Collective, Elementwise, FlashAttention, Matmul, Program, write_out
from sightline.program.shapes import RECIPES

TOKENS, HIDDEN, QKV, WIDTH = 2048, 4096, 6144, 14336
BOTH_LAYOUTS = {"h100-sxm-80gb": 2.0, "b200-sxm-180gb": 1.0}
"""Copies of an operand with one scale per tensor: Hopper's matrix units take rows alone."""


NARROW_HEADED = {"dtype": "mxfp8", "framework_version": "bridge-26.06", "narrow_head": True}


def program(device: str = "b200-sxm-180gb", devices: int = 1, **plan: Any) -> Program:
    return write_out(scenario(device, devices, **plan))


def scenario(device: str = "b200-sxm-180gb", devices: int = 1, **plan: Any) -> Any:
    return training(
        model="llama-3-8b",
        cluster=f"{devices}x {device}",
        sequence_length=TOKENS,
        global_batch=8,
        plan={"framework": "megatron", "micro_batch": 1, **plan},
    )


def flops(block: Block) -> float:
    return sum(float(op.count * op.flops) for op in (*block.forward, *block.backward))


def casts(block: Block) -> dict[tuple[str, str], float]:
    operators = (*block.forward, *block.backward)
    return {
        (op.module, op.name): op.bytes
        for op in operators
        if isinstance(op, Elementwise) and op.name.endswith("quantization")
    }


def test_sixteen_bits_have_no_quantization() -> None:
    wide = program(dtype="bf16")
    assert not any(casts(block) for block in wide.blocks)
    assert wide.layers[0].low_precision.kept_bytes == wide.layers[0].low_precision.cast_bytes == 0.0


@pytest.mark.parametrize("plan", [{"dtype": "fp8", "fp8_recipe": r} for r in ("delayed", "current", "blockwise")])
@pytest.mark.parametrize("device", sorted(BOTH_LAYOUTS))
def test_a_recipe_does_as_many_flops_and_casts_every_operand_once(plan: dict[str, Any], device: str) -> None:
    narrow, wide = program(device, **plan).layers[0], program(device, dtype="bf16").layers[0]
    assert flops(narrow) == flops(wide)
    recipe = RECIPES[plan["fp8_recipe"]]
    copies = 2.0 if recipe.columns_apart else BOTH_LAYOUTS[device]
    traffic = (recipe.reads + copies * recipe.operand_bytes) * TOKENS
    assert casts(narrow) == {
        ("qkv", "input quantization"): pytest.approx(traffic * HIDDEN),
        ("output projection", "input quantization"): pytest.approx(traffic * HIDDEN),
        ("mlp", "input quantization"): pytest.approx(traffic * WIDTH),
        ("qkv", "gradient quantization"): pytest.approx(traffic * QKV),
        ("output projection", "gradient quantization"): pytest.approx(traffic * HIDDEN),
        ("mlp", "gradient quantization"): pytest.approx(traffic * 2 * WIDTH),
    }


@pytest.mark.parametrize(("dtype", "operand"), [("fp8", 1.0), ("mxfp8", 1.0 + 1.0 / 32.0), ("nvfp4", 0.5 + 1.0 / 16.0)])
def test_only_the_layers_linear_products_are_narrow(dtype: str, operand: float) -> None:
    written = program(dtype=dtype)
    for block in written.blocks:
        for op in (*block.forward, *block.backward):
            if isinstance(op, Matmul):
                assert op.element_bytes == (2.0 if op.module == "head" else operand)
                assert op.dtype == ("bf16" if op.module == "head" else RECIPES.get(dtype, RECIPES["delayed"]).rate)
            if isinstance(op, FlashAttention):
                assert (op.dtype, op.element_bytes) == ("bf16", 2.0)


def test_narrow_inputs_are_kept_beside_the_output_that_attention_keeps() -> None:
    narrow, wide = (
        program(dtype=dtype, framework_version="2022", attention="flash").layers[0] for dtype in ("fp8", "bf16")
    )
    # Two inputs of `hidden` width and the product of unfused gates are halved; attention now keeps its own output in 16
    # bits beside the fourth.
    assert narrow.saved_bytes - wide.saved_bytes == pytest.approx(TOKENS * ((-1 - 1 + 1) * HIDDEN - WIDTH))


def test_ranks_gather_narrow_activations_and_scatter_wide_sums() -> None:
    for dtype, share in (("bf16", 1.0), ("fp8", 0.5), ("nvfp4", 0.5625 / 2)):
        layer = program(devices=4, dtype=dtype, tensor_parallel=4, sequence_parallel=True).layers[0]
        buffers = {
            op.kind: op.buffer_bytes
            for op in (*layer.forward, *layer.backward)
            if isinstance(op, Collective) and op.count
        }
        assert buffers["all_gather"] == pytest.approx(share * buffers["reduce_scatter"])


def test_layers_left_wide_are_a_share_of_the_layers() -> None:
    none, half, all_wide, wide = (
        profile_of(scenario(**plan))
        for plan in (
            {"dtype": "nvfp4"},
            {"dtype": "nvfp4", "bf16_layers": 16},
            {"dtype": "nvfp4", "bf16_layers": 32},
            {"dtype": "bf16"},
        )
    )
    assert all_wide.step_time_s == pytest.approx(wide.step_time_s, rel=1e-12)
    assert all_wide.memory_bytes["total"] == pytest.approx(wide.memory_bytes["total"], rel=1e-12)
    for phase in ("forward", "backward"):
        assert half.phases[phase] == pytest.approx((none.phases[phase] + wide.phases[phase]) / 2, rel=1e-9)


def test_recomputed_operators_of_a_mixture_of_precisions_are_those_of_the_forward_pass() -> None:
    layer = program(dtype="mxfp8", bf16_layers=4, recompute="full").layers[0]
    own = {id(op) for op in layer.forward}
    assert layer.recomputed
    assert all(id(op) in own for op in layer.recomputed)


def test_weights_in_few_bits_replace_wide_ones_or_lie_beside_them() -> None:
    weights = {}
    for version in ("2022", "core"):
        plan = {"framework_version": version} if version else {}
        for dtype in ("bf16", "fp8"):
            weights[version, dtype] = profile_of(scenario(dtype=dtype, **plan)).memory_bytes["weights"]
    layers = 32 * (HIDDEN * (QKV + HIDDEN) + 3 * HIDDEN * WIDTH)
    assert weights["2022", "fp8"] - weights["2022", "bf16"] == pytest.approx(layers)
    assert weights["core", "fp8"] - weights["core", "bf16"] == pytest.approx(-layers)


def test_a_framework_that_keeps_no_copies_casts_weights_in_every_pass() -> None:
    layer = program(framework="fsdp", dtype="fp8").layers[0]
    assert ("mlp", "weight quantization") in casts(layer)
    assert layer.low_precision.kept_bytes == layer.low_precision.cast_bytes == 0.0


def test_frozen_weights_need_no_columns_and_no_new_copies() -> None:
    tuned = training(
        model="llama-3-8b",
        cluster="1x h100-sxm-80gb",
        sequence_length=TOKENS,
        task="finetune",
        plan={
            "framework": "megatron",
            "framework_version": "2022",
            "micro_batch": 1,
            "dtype": "fp8",
            "adapter": "lora",
        },
    )
    layer = write_out(tuned).layers[0]
    assert casts(layer)["qkv", "input quantization"] == 3.0 * TOKENS * HIDDEN
    assert layer.low_precision.cast_bytes == 0.0


def test_a_framework_may_turn_narrow_weights_over_instead_of_keeping_them_twice() -> None:
    plan = {"dtype": "fp8", "adapter": "lora", "framework_version": "mlperf"}
    hopper, blackwell = (
        write_out(
            training(
                model="llama-3-8b",
                cluster=f"1x {device}",
                sequence_length=TOKENS,
                task="finetune",
                plan={"framework": "megatron", "micro_batch": 1, **plan},
            )
        ).layers[0]
        for device in ("h100-sxm-80gb", "b200-sxm-180gb")
    )
    weights = HIDDEN * (QKV + HIDDEN) + 3 * HIDDEN * WIDTH
    turned = [op.bytes for op in hopper.backward if op.name == "weight transposition"]
    assert sum(turned) == 2.0 * weights
    assert hopper.low_precision.kept_bytes == blackwell.low_precision.kept_bytes == (1.0 - 2.0) * weights
    assert not any(op.name == "weight transposition" for op in blackwell.backward)


@given(t=st.sampled_from([1, 2, 4, 8]), micro_batch=st.sampled_from([1, 2]), dtype=st.sampled_from(["fp8", "nvfp4"]))
def test_a_mesh_of_plans_is_its_plans(t: int, micro_batch: int, dtype: str) -> None:
    one = scenario(devices=8, dtype=dtype, tensor_parallel=t, sequence_parallel=True, bf16_layers=2)
    many = profile_of(open_mesh(one, {"tensor_parallel": (1, 2, 4, 8), "micro_batch": (1, 2)}))
    alone = profile_of(replace(one, plan=replace(one.plan, micro_batch=micro_batch)))
    place = ((1, 2, 4, 8).index(t), (1, 2).index(micro_batch))
    assert np.broadcast_to(many.step_time_s, (4, 2))[place] == pytest.approx(alone.step_time_s, rel=1e-12)
    total = np.broadcast_to(many.memory_bytes["total"], (4, 2))
    assert total[place] == pytest.approx(alone.memory_bytes["total"], rel=1e-12)


@pytest.mark.parametrize("fewer", ["fp8", "mxfp8", "nvfp4"])
def test_fewer_bits_are_faster_and_no_faster_than_the_rate(fewer: str) -> None:
    narrow, wide = profile_of(scenario(dtype=fewer)), profile_of(scenario(dtype="bf16"))
    assert narrow.step_time_s < wide.step_time_s
    assert narrow.mfu < 1.0
    assert narrow.model_flops == wide.model_flops


def test_a_narrow_head_computes_as_the_layers_do_and_quantizes_what_it_takes() -> None:
    wide, narrow = (program(**NARROW_HEADED | {"narrow_head": how}).head for how in (False, True))
    products = [op for op in (*narrow.forward, *narrow.backward) if isinstance(op, Matmul)]
    assert [op.kernel for op in products] == ["mxfp8"] * 3
    assert sum(op.flops for op in products) == sum(
        op.flops for op in (*wide.forward, *wide.backward) if isinstance(op, Matmul)
    )
    added = {op.name for op in (*narrow.forward, *narrow.backward)} - {
        op.name for op in (*wide.forward, *wide.backward)
    }
    assert added == {"input quantization", "gradient quantization"}
    assert narrow.low_precision.kept_bytes > 0 == wide.low_precision.kept_bytes


def test_a_narrow_head_is_faster_and_needs_memory_for_its_copies() -> None:
    wide, narrow = (profile_of(scenario(**NARROW_HEADED | {"narrow_head": how})) for how in (False, True))
    assert narrow.step_time_s < wide.step_time_s
    assert narrow.memory_bytes["weights"] > wide.memory_bytes["weights"]
