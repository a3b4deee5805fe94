"""Inference passes: weights, caches and FLOPs of every model, and what parallelism leaves of them."""

from typing import Any

import numpy as np
import pytest
from generation_scenarios import generation

from sightline import catalog
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import PricedGeneration, price_generation
from sightline.program import Batch, Collective, GroupedMatmul, Matmul, Program, inference_kernels, prompts, write
from sightline.program.blocks.layer import cached_bytes
from sightline.program.formats import formats_of


def plain(model: str, **changes: object) -> PricedGeneration:
    """A model in 16 bits on one large device."""
    plan = {"quantization": "none", "dtype": "bf16"}
    return price_generation(generation(model=model, cluster="1x b200-sxm-180gb", plan=plan, **changes))  # type: ignore[arg-type]


def projected_flops(of: Program) -> float:
    """FLOPs of products with weights, all layers together."""
    kinds = (Matmul, GroupedMatmul)
    return float(
        sum(block.count * op.count * op.flops for block in of.blocks for op in block.operators if isinstance(op, kinds))
    )


@pytest.mark.parametrize("name", catalog.names("models"))
def test_a_decode_step_reads_the_model_s_parameters(name: str):
    priced = plain(name)
    weights = generation_memory(priced, priced, priced.scenario.workload)["weights"]
    assert weights / 2 == pytest.approx(priced.scenario.model.parameters, rel=0.01)


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3.1-70b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-120b"])
def test_a_token_costs_two_flops_per_active_parameter(name: str):
    priced = plain(name)
    model = priced.scenario.model
    active = model.active_parameters - model.vocab_size * model.hidden_size * (not model.tied_embeddings)
    assert projected_flops(priced.decode.program) == pytest.approx(2 * active, rel=0.01)


def test_absorbed_and_expanded_latent_attention_use_the_same_weights():
    """A prompt of one token without context expands what a decode step absorbs."""
    priced = plain("deepseek-v2-lite", prompt_tokens=1)
    prompt = inference_kernels(priced.scenario, priced.worker.formats, Batch.of(prompts(1.0, 1.0)))
    assert projected_flops(write(prompt)) == pytest.approx(projected_flops(priced.decode.program), rel=1e-9)


def test_cached_bytes_are_the_published_ones():
    llama = generation(model="llama-2-7b")
    formats = formats_of(llama.model, (), "fp16", llama.cluster.device)
    assert cached_bytes(llama.model, formats, 1.0) == 524_288  # 2407.14645 and others: 0.5 MiB per token
    deepseek = generation(model="deepseek-v3", cluster="8x h200-sxm-141gb")
    formats = formats_of(deepseek.model, (), "bf16", deepseek.cluster.device)
    assert cached_bytes(deepseek.model, formats, 1.0) == 61 * 576 * 2
    assert cached_bytes(deepseek.model, formats, 1.0, 8.0) == 61 * 576 * 2  # whole on every rank


def test_a_window_caps_the_cache():
    model = generation(model="gpt-oss-20b").model
    formats = formats_of(model, (), "bf16", generation().cluster.device)
    short, long = (float(cached_bytes(model, formats, tokens)) for tokens in (128.0, 4096.0))
    assert long < 20 * short
    assert float(cached_bytes(model, formats, 8192.0)) < 2 * long


@pytest.mark.parametrize("model", ["llama-2-70b", "qwen3-30b-a3b", "deepseek-v3", "bloom-176b"])
def test_tensor_parallel_ranks_share_the_work_and_meet_twice_a_layer(model: str):
    one = price_generation(generation(model=model, plan={"quantization": "none"}, cluster="1x h200-sxm-141gb"))
    many = price_generation(
        generation(model=model, plan={"quantization": "none", "tensor_parallel": 4}, cluster="4x h200-sxm-141gb")
    )
    share = projected_flops(many.decode.program) / projected_flops(one.decode.program)
    assert 0.25 <= share < 0.32  # what is not split (routers, latents, few key heads) stays whole
    sums = [op for op in many.decode.program.layers[-1].operators if isinstance(op, Collective)]
    assert [op.kind for op in sums] == ["all_reduce", "all_reduce"]
    assert not any(isinstance(op, Collective) for block in one.decode.program.blocks for op in block.operators)


def test_experts_spread_over_data_parallel_ranks():
    plan = {"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": 8}
    priced = price_generation(generation(model="deepseek-v3", cluster="8x h200-sxm-141gb", batch=64, plan=plan))
    grouped = next(op for op in priced.decode.program.layers[-1].operators if isinstance(op, GroupedMatmul))
    assert grouped.experts == 256 / 8
    assert np.asarray(grouped.rows) >= 64 * 8 / 8  # at least the mean share of the assignments
    kinds = {op.kind for op in priced.decode.program.layers[-1].operators if isinstance(op, Collective)}
    assert kinds in ({"all_gather", "reduce_scatter"}, {"all_to_all"})


def test_checkpoints_keep_their_formats_unless_told_otherwise():
    device = generation(cluster="1x b200-sxm-180gb").cluster.device
    oss = generation(model="gpt-oss-120b").model
    assert formats_of(oss, None, "bf16", device).parts["experts"] == "mxfp4"
    assert formats_of(oss, None, "bf16", device).parts["attention"] == "16-bit"
    assert formats_of(oss, (), "bf16", device).parts["experts"] == "16-bit"
    llama = generation().model
    assert formats_of(llama, ("w4a16", "kv-fp8"), "fp16", device).cache_bytes == 1.0
    assert formats_of(llama, ("w4a16",), "fp16", device).parts["head"] == "16-bit"
    assert formats_of(llama, ("q4_0",), "fp16", device, whole_model=True).parts["head"] == "q4_0"


def test_a_router_in_fp32_has_its_input_widened():
    """MiniMax M2: six bytes for each input element, and all operands of the product in four."""

    def router(name: str, quantization: list[str]) -> list[Any]:
        plan = {"framework": "vllm", "quantization": quantization}
        priced = price_generation(generation(model=name, cluster="1x b300-sxm", batch=32, plan=plan))
        return [op for op in priced.decode.program.layers[0].operators if op.module == "router" and op.name != "choice"]

    widened, product = router("minimax-m2.5", ["nvfp4", "kv-fp8"])
    assert (widened.traffic_bytes, widened.kernels) == (32 * 3072 * (2 + 4), 1.0)
    assert (product.dtype, product.element_bytes, product.weight_bytes, product.output_bytes) == ("fp32", 4, 4, 4)
    assert router("minimax-m2.5", ["nvfp4", "router-tf32"])[1].dtype == "tf32"
    (usual,) = router("qwen3-30b-a3b", ["nvfp4"])
    assert (usual.dtype, usual.element_bytes) == ("bf16", 2)


def test_norms_over_all_heads_add_up_squares_of_the_ranks():
    """MiniMax M2: two numbers of fp32 per token and layer, whatever the width."""

    def squares(name: str, ranks: int) -> list[Collective]:
        plan = {"tensor_parallel": ranks, "framework": "vllm"}
        priced = price_generation(generation(model=name, cluster=f"{ranks}x b200-sxm-180gb", batch=16, plan=plan))
        layer = priced.decode.program.layers[0].operators
        return [op for op in layer if isinstance(op, Collective) and op.module == "qkv"]

    (found,) = squares("minimax-m2.5", 4)
    assert (found.kind, found.buffer_bytes) == ("all_reduce", 16 * 2 * 4)
    assert squares("minimax-m2.5", 1) == squares("qwen3-30b-a3b", 4) == []


def test_tokens_that_are_alike_choose_the_same_experts():
    found = plain("mixtral-8x7b", batch=64, prompt_tokens=128, repeated_token=True)
    mixed = plain("mixtral-8x7b", batch=64, prompt_tokens=128)
    for one, other, rows in (
        (found.prefill.program, mixed.prefill.program, 64 * 128),
        (found.decode.program, mixed.decode.program, 64),
    ):
        alike = [op for block in one.layers for op in block.operators if isinstance(op, GroupedMatmul)]
        apart = [op for block in other.layers for op in block.operators if isinstance(op, GroupedMatmul)]
        assert [(float(op.active), float(op.rows)) for op in alike] == [(2, 2 * rows)] * 2
        assert [float(op.active) for op in apart] == pytest.approx([8, 8], rel=0.05)
        assert sum(op.flops for op in alike) == pytest.approx(sum(op.flops for op in apart))


def test_chosen_experts_of_tokens_that_are_alike_lie_on_different_ranks():
    found = price_generation(
        generation(
            model="mixtral-8x7b",
            cluster="4x h100-sxm-80gb",
            plan={"framework": "vllm", "tensor_parallel": 4, "expert_parallel": 4},
            batch=16,
            repeated_token=True,
        )
    )
    grouped = [op for block in found.decode.program.layers for op in block.operators if isinstance(op, GroupedMatmul)]
    assert {(float(op.active), float(op.rows)) for op in grouped} == {(1, 16)}
