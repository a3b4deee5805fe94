"""Parameters and products of blocks beyond full attention equal those of real model classes, to the last one.

The counter is PyTorch's own and the classes are Hugging Face's, tiny ones on the processor. Counted are matrix products of
linear layers, forward and backward (``mm`` and ``addmm``). Left out on both sides:

- attention cores, scans and grouped projections, whose reference code there is batched products of another algorithm;
- routed experts, which run as grouped products that the counter does not know (their sizes are tested elsewhere);
- what the classes have as parameters beside weights and norms: attention sinks, and the gate of shared experts.
"""

from typing import Any

import pytest
from training_scenarios import training

from sightline.program import Matmul, Program, write_out

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

BATCH, SEQUENCE = 2, 64
TINY = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "hidden_size": 64,
    "vocab_size": 97,
    "intermediate_size": 96,
}
MIXTURE = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = MIXTURE | {
    "n_routed_experts": 8,
    "num_key_value_heads": 8,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4,
    "head_dim": 16,
}
INDEX = {"index_topk": 32, "index_n_heads": 4, "index_head_dim": 16}
MAMBA = {"mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4}
FOLDED = {
    "n_routed_experts": 8,
    "intermediate_size": 32,
    "num_key_value_heads": 1,
    "q_lora_rank": 24,
    "o_lora_rank": 16,
    "o_groups": 2,
    "head_dim": 16,
    "sliding_window": 32,
    "hc_mult": 4,
    "n_shared_experts": 1,
}

CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemma2": ("Gemma2", "Gemma2", TINY | {"head_dim": 16}),
    "gemma3_text": ("Gemma3Text", "Gemma3", TINY | {"num_hidden_layers": 6, "head_dim": 16, "sliding_window": 32}),
    "glm4": ("Glm4", "Glm4", TINY | {"head_dim": 8}),
    "olmo2": ("Olmo2", "Olmo2", TINY),
    "olmo3": ("Olmo3", "Olmo3", TINY),
    "cohere2": ("Cohere2", "Cohere2", TINY),
    "deepseek_v3": ("DeepseekV3", "DeepseekV3", TINY | LATENT),
    "deepseek_v32": ("DeepseekV32", "DeepseekV32", TINY | LATENT | INDEX),
    "deepseek_v4": ("DeepseekV4", "DeepseekV4", TINY | MIXTURE | FOLDED | INDEX),
    "qwen3_next": (
        "Qwen3Next",
        "Qwen3Next",
        TINY | MIXTURE | DELTA | {"num_experts": 8, "shared_expert_intermediate_size": 48},
    ),
    "qwen3_5_text": ("Qwen3_5Text", "Qwen3_5", TINY | DELTA),
    "kimi_linear": (
        "KimiLinear",
        "KimiLinear",
        TINY
        | LATENT
        | {
            "q_lora_rank": None,
            "linear_head_dim": 16,
            "linear_num_heads": 4,
            "num_local_experts": 8,
            "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        },
    ),
    "nemotron_h": (
        "NemotronH",
        "NemotronH",
        TINY | MAMBA | {"hybrid_override_pattern": "M*-M", "head_dim": 16, "mlp_hidden_act": "relu2"},
    ),
}
"""By model_type: configuration class, model class, figures."""

UNWRITTEN = {"deepseek_v4": {"compress_ratios": [128, 128, 128, 4]}}
"""Published keys that the classes keep under other names."""

SINKS = {"deepseek_v4": 4 * 8}
SHARED_GATES = {"qwen3_next": 4 * 64}
UNABSORBED = 32 * 8 * (16 + 12)
"""Elements of a layer's up projection of keys and values, which the class multiplies with and sparse kernels absorb."""


def real_model(family: str) -> Any:
    config_class, model_class, figures = CONFIGS[family]
    config = getattr(transformers, f"{config_class}Config")(
        **figures, bos_token_id=0, eos_token_id=1, pad_token_id=2, attn_implementation="eager"
    )
    return getattr(transformers, f"{model_class}ForCausalLM")(config)


def program(family: str, real: Any) -> tuple[int, Program]:
    """The model's parameters as it was read, and its program."""
    figures = {"model_type": family, "tie_word_embeddings": real.config.tie_word_embeddings}
    scenario = training(
        model=figures | CONFIGS[family][2] | UNWRITTEN.get(family, {}),
        sequence_length=SEQUENCE,
        global_batch=BATCH,
        plan={"micro_batch": BATCH, "attention": "eager"},
    )
    return scenario.model.parameters, write_out(scenario)


def linear_products(program: Program, *, backward: bool = True) -> float:
    """FLOPs of the matmuls of linear layers."""
    total = 0.0
    for block in program.blocks:
        passes = (*block.forward, *block.backward) if backward else block.forward
        matmuls = [op for op in passes if isinstance(op, Matmul)]
        counted = [op for op in matmuls if op.module not in ("attention core", "experts") and op.batch == 1.0]
        total += block.count * sum(float(op.count * op.flops) for op in counted)
    return total


def counted_products(real: Any, *, backward: bool = True) -> int:
    """FLOPs of the same by PyTorch's counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        logits = real(torch.randint(3, 97, (BATCH, SEQUENCE))).logits
        if backward:
            logits.sum().backward()
    counts = counter.get_flop_counts()["Global"]
    return sum(int(counts.get(op, 0)) for op in (torch.ops.aten.mm, torch.ops.aten.addmm))


@pytest.mark.parametrize("family", CONFIGS)
def test_parameters_equal_those_of_the_class(family: str) -> None:
    real = real_model(family)
    counted = sum(p.numel() for p in real.parameters()) - SINKS.get(family, 0) - SHARED_GATES.get(family, 0)
    parameters, written = program(family, real)
    assert parameters == counted
    assert sum(block.count * float(block.parameters) for block in written.blocks) == counted


SPARSE = ("deepseek_v32", "deepseek_v4")


@pytest.mark.parametrize("family", [family for family in CONFIGS if family not in SPARSE])
def test_products_of_both_passes_equal_the_counter(family: str) -> None:
    real = real_model(family)
    counted = counted_products(real)
    gates = 3 * 2 * BATCH * SEQUENCE * SHARED_GATES.get(family, 0)
    assert linear_products(program(family, real)[1]) == counted - gates


@pytest.mark.parametrize("family", SPARSE)
def test_forward_products_of_sparse_attention_equal_the_counter(family: str) -> None:
    # The classes train no indexer, so that their backward pass is another one.
    real = real_model(family)
    elsewhere = 4 * UNABSORBED if family == "deepseek_v32" else 0
    counted = counted_products(real, backward=False) - 2 * BATCH * SEQUENCE * elsewhere
    assert linear_products(program(family, real)[1], backward=False) == counted
