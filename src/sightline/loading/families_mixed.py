"""Families with experts, latent or sparse attention, linear attention, state spaces, or layers of several widths."""

from collections.abc import Mapping
from typing import Any

from sightline.loading.families_dense import LLAMA, ONE_ATTENTION_BIAS, WIDTH
from sightline.loading.family import (
    CHUNKS,
    EXPERTS,
    GATE,
    GATED,
    GATED_GELU,
    LATENT,
    LINEAR,
    PLAIN,
    SPARSE,
    STATE_SPACE,
    WINDOWS,
    Family,
)

_ROUTING = ("num_experts", "num_experts_per_tok")
_EXPERTS = (*_ROUTING, "moe_intermediate_size")
_LATENT = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_INDEX = ("index_topk", "index_n_heads", "index_head_dim")
_HYBRID: dict[str, Any] = LLAMA | {
    "max_position_embeddings": 32768,
    "head_dim": 256,
    "qk_norm": True,
    "attention_gate": True,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def _experts(
    *features: str,
    needs: tuple[str, ...] = _EXPERTS,
    switches: Mapping[str, tuple[str, ...]] = ONE_ATTENTION_BIAS,
    interleaved: str = "sliding",
    low_rank_gates: bool = False,
    **defaults: Any,
) -> Family:
    return Family(
        defaults=LLAMA | defaults,
        needs=needs,
        switches=switches,
        activations=GATED,
        features=frozenset({EXPERTS, *features}),
        interleaved=interleaved,
        low_rank_gates=low_rank_gates,
    )


MIXED_FAMILIES: Mapping[str, Family] = {
    "mixtral": _experts(WINDOWS, needs=(*WIDTH, *_ROUTING, "num_key_value_heads"), max_position_embeddings=131072),
    "phimoe": Family(
        defaults=LLAMA | {"norm": "layernorm", "norm_bias": True, "max_position_embeddings": 4096},
        needs=(*WIDTH, *_ROUTING),
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({EXPERTS, WINDOWS}),
    ),
    "granitemoe": _experts(needs=(*WIDTH, *_ROUTING)),
    "olmoe": _experts(needs=(*WIDTH, *_ROUTING), max_position_embeddings=4096, qk_norm=True, wide_qk_norm=True),
    "qwen2_moe": _experts(
        WINDOWS, switches={}, max_position_embeddings=32768, attention_bias=True, use_sliding_window=False
    ),
    "qwen3_moe": _experts(
        WINDOWS, max_position_embeddings=32768, qk_norm=True, use_sliding_window=False, num_key_value_heads=4
    ),
    "qwen3_next": Family(
        defaults=_HYBRID,
        needs=_EXPERTS,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({EXPERTS, LINEAR, GATE}),
        interleaved="linear",
    ),
    "qwen3_5_text": Family(
        defaults=_HYBRID,
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({LINEAR, GATE}),
        interleaved="linear",
    ),
    "qwen3_5_moe_text": Family(
        defaults=_HYBRID,
        needs=_EXPERTS,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({EXPERTS, LINEAR, GATE}),
        interleaved="linear",
    ),
    "deepseek": _experts(first_k_dense_replace=0),
    "deepseek_v2": _experts(LATENT, needs=(*_EXPERTS, *_LATENT), first_k_dense_replace=0),
    "deepseek_v3": _experts(LATENT, needs=(*_EXPERTS, *_LATENT), max_position_embeddings=4096),
    "deepseek_v32": _experts(LATENT, SPARSE, needs=(*_EXPERTS, *_LATENT, *_INDEX), max_position_embeddings=163840),
    "deepseek_v4": _experts(
        SPARSE,
        "folded keys and values",
        "hyper-connections",
        LATENT,
        needs=(*_EXPERTS, *_INDEX, "q_lora_rank", "o_lora_rank", "o_groups", "compress_ratios", "sliding_window"),
        num_key_value_heads=1,
        residual_streams=4,
    ),
    "kimi_linear": _experts(
        LATENT,
        LINEAR,
        needs=(*_EXPERTS, *_LATENT, "linear_num_value_heads", "linear_value_head_dim"),
        interleaved="linear",
        low_rank_gates=True,
        max_position_embeddings=1048576,
        linear_conv_kernel_dim=4,
        first_k_dense_replace=1,
    ),
    "glm4_moe": _experts(max_position_embeddings=131072, switches={}),
    "glm4_moe_lite": _experts(
        LATENT, needs=(*_EXPERTS, *_LATENT), max_position_embeddings=202752, first_k_dense_replace=1
    ),
    "glm_moe_dsa": _experts(
        LATENT, SPARSE, needs=(*_EXPERTS, *_LATENT, *_INDEX), max_position_embeddings=202752, first_k_dense_replace=3
    ),
    "dots1": _experts(max_position_embeddings=2048, qk_norm=True),
    "minimax_m2": _experts(
        needs=(*WIDTH, *_ROUTING), max_position_embeddings=196608, qk_norm=True, wide_qk_norm=True, fp32_router=True
    ),
    "minimax_m3": _experts(
        SPARSE,
        GATE,
        needs=(*WIDTH, *_ROUTING, *_INDEX),
        max_position_embeddings=524288,
        qk_norm=True,
    ),
    "mimo_v2_flash": _experts(WINDOWS, CHUNKS, max_position_embeddings=131072, switches={}),
    "gpt_oss": _experts(
        WINDOWS,
        needs=(*WIDTH, *_ROUTING),
        max_position_embeddings=131072,
        head_dim=64,
        attention_bias=True,
        output_bias=True,
        mlp_bias=True,
        sliding_window=128,
        full_attention_interval=2,
    ),
    "llama4_text": Family(
        defaults=LLAMA
        | {
            "max_position_embeddings": 131072,
            "head_dim": 128,
            "qk_norm": True,
            "attention_chunk_size": 8192,
            "full_attention_interval": 4,
            "n_shared_experts": 1,
        },
        needs=(*WIDTH, *_ROUTING),
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({EXPERTS, CHUNKS}),
        interleaved="chunked",
    ),
    "gemma4_text": Family(
        defaults=LLAMA
        | {
            "hidden_act": "gelu_pytorch_tanh",
            "head_dim": 256,
            "global_head_dim": 512,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": True,
            "layer_norms": 4,
            "qk_norm": True,
            "sliding_window": 512,
            "full_attention_interval": 6,
        },
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED_GELU,
        features=frozenset({EXPERTS, WINDOWS}),
        shared_is_dense=True,
    ),
    "nemotron-nas": Family(
        defaults=LLAMA | {"max_position_embeddings": 131072},
        needs=("block_configs",),
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({"layers of their own widths"}),
    ),
    "nemotron_h": Family(
        defaults=LLAMA
        | {"hidden_act": "relu2", "max_position_embeddings": 4096, "positions": "rotary", "head_dim": 128},
        needs=("single_blocks", "num_key_value_heads"),
        switches=ONE_ATTENTION_BIAS,
        activations=PLAIN,
        features=frozenset({EXPERTS, STATE_SPACE}),
    ),
}
