"""The model families: what the configs of each ``model_type`` leave unsaid, and what its architecture may hold.

Defaults are those of the family's class in Hugging Face transformers 5, or of the code published with the weights. A
family is data: reading one is in `sightline.loading.models.config`.
"""

from collections.abc import Mapping

from sightline.loading.models.family import (
    CHUNKS,
    COMPRESSED,
    EXPERT_SIZES,
    EXPERTS,
    GATE,
    GEMMA,
    GPT,
    HYBRID,
    HYPER_CONNECTIONS,
    INDEXER_SIZES,
    LATENT,
    LATENT_SIZES,
    LINEAR,
    LINEAR_BIASES,
    LLAMA,
    MOE,
    ONE_ATTENTION_BIAS,
    PLAIN,
    PRUNED,
    ROUTING,
    SPARSE,
    STATE_SPACE,
    WIDTH,
    WINDOWS,
    Family,
    like,
)

OWN_FAMILY = "transformer"
"""Ours: every feature stated, so that any `sightline.scenario.Model` can be written down."""

FAMILIES: Mapping[str, Family] = {
    # Equal layers with a dense MLP, some with sliding windows.
    "llama": LLAMA,
    "mistral": like(
        LLAMA,
        WINDOWS,
        needs=(*WIDTH, "num_key_value_heads"),
        switches={},
        max_position_embeddings=131072,
        sliding_window=4096,
    ),
    "qwen": like(LLAMA, switches={}, halved_intermediate=True, max_position_embeddings=8192, attention_bias=True),
    "qwen2": like(
        LLAMA, WINDOWS, switches={}, max_position_embeddings=32768, attention_bias=True, use_sliding_window=False
    ),
    "qwen3": like(LLAMA, WINDOWS, max_position_embeddings=32768, head_dim=128, qk_norm=True, use_sliding_window=False),
    "mimo": like(LLAMA, switches={}, max_position_embeddings=32768, attention_bias=True, use_sliding_window=False),
    "seed_oss": like(LLAMA, switches={}, max_position_embeddings=524288, head_dim=128, attention_bias=True),
    "internlm": like(LLAMA, attention_bias=True),
    "internlm2": like(LLAMA, switches={"bias": LINEAR_BIASES}),
    "internlm3": like(LLAMA, max_position_embeddings=32768, head_dim=128),
    "baichuan": like(LLAMA, max_position_embeddings=4096),
    "granite": LLAMA,
    "smollm3": like(LLAMA, max_position_embeddings=32768, tie_word_embeddings=True),
    "chatglm": like(LLAMA, switches={}, attention_bias=True, multi_query=True),
    "glm": like(LLAMA, switches={}, max_position_embeddings=131072, head_dim=128, attention_bias=True),
    "glm4": like(LLAMA, switches={}, max_position_embeddings=131072, head_dim=128, attention_bias=True, layer_norms=4),
    "phi3": like(LLAMA, WINDOWS, switches={}, max_position_embeddings=4096),
    "phi": like(GPT, positions="rotary", tie_word_embeddings=False, parallel_block=True, layer_norms=1),
    "gemma": GEMMA,
    "gemma2": like(
        GEMMA, WINDOWS, layer_norms=4, sliding_window=4096, full_attention_interval=2, score_cap=50.0, logit_cap=30.0
    ),
    "gemma3_text": like(
        GEMMA,
        WINDOWS,
        max_position_embeddings=131072,
        layer_norms=4,
        sliding_window=4096,
        full_attention_interval=6,
        qk_norm=True,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=262208,
    ),
    "cohere": like(
        LLAMA,
        norm="layernorm",
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        parallel_block=True,
        layer_norms=1,
    ),
    "cohere2": like(
        LLAMA,
        WINDOWS,
        norm="layernorm",
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        parallel_block=True,
        layer_norms=1,
        sliding_window=4096,
        full_attention_interval=4,
    ),
    "olmo": like(LLAMA, norm="layernorm"),
    "olmo2": like(LLAMA, qk_norm=True, wide_qk_norm=True),
    "olmo3": like(LLAMA, WINDOWS, qk_norm=True, wide_qk_norm=True, sliding_window=4096, full_attention_interval=4),
    "stablelm": like(LLAMA, switches={}, norm="layernorm", max_position_embeddings=4096, norm_bias=True),
    "nemotron": like(
        LLAMA, activations=PLAIN, norm="layernorm", hidden_act="relu2", max_position_embeddings=4096, norm_bias=True
    ),
    "starcoder2": like(
        GPT,
        WINDOWS,
        needs=("num_key_value_heads",),
        switches={"use_bias": LINEAR_BIASES},
        positions="rotary",
        max_position_embeddings=4096,
    ),
    "gpt_bigcode": like(GPT, max_position_embeddings=1024, multi_query=True, dropout=0.1),
    "gpt2": like(GPT, max_position_embeddings=1024, dropout=0.1),
    "gptj": like(
        GPT,
        positions="rotary",
        tie_word_embeddings=False,
        attention_bias=False,
        output_bias=False,
        parallel_block=True,
        layer_norms=1,
    ),
    "opt": like(GPT, switches={"enable_bias": LINEAR_BIASES}, hidden_act="relu", position_offset=2, dropout=0.1),
    "bloom": like(GPT, positions="alibi", embedding_norm=True),
    "mpt": like(GPT, switches={"no_bias": (*LINEAR_BIASES, "norm_bias")}, positions="alibi", no_bias=True),
    "gpt_neox": like(
        GPT, switches=ONE_ATTENTION_BIAS, positions="rotary", tie_word_embeddings=False, parallel_block=True
    ),
    "falcon": like(
        GPT,
        switches={"bias": LINEAR_BIASES},
        positions="rotary",
        attention_bias=False,
        output_bias=False,
        mlp_bias=False,
        parallel_block=True,
        multi_query=True,
    ),
    # Experts, latent or sparse attention, linear attention, state spaces, or layers of several widths.
    "mixtral": like(MOE, WINDOWS, needs=(*WIDTH, *ROUTING, "num_key_value_heads"), max_position_embeddings=131072),
    "phimoe": like(
        MOE, WINDOWS, needs=(*WIDTH, *ROUTING), norm="layernorm", max_position_embeddings=4096, norm_bias=True
    ),
    "granitemoe": like(MOE, needs=(*WIDTH, *ROUTING)),
    "olmoe": like(MOE, needs=(*WIDTH, *ROUTING), max_position_embeddings=4096, qk_norm=True, wide_qk_norm=True),
    "qwen2_moe": like(
        MOE, WINDOWS, switches={}, max_position_embeddings=32768, attention_bias=True, use_sliding_window=False
    ),
    "qwen3_moe": like(
        MOE, WINDOWS, max_position_embeddings=32768, qk_norm=True, use_sliding_window=False, num_key_value_heads=4
    ),
    "qwen3_next": like(HYBRID, EXPERTS, needs=EXPERT_SIZES),
    "qwen3_5_text": HYBRID,
    "qwen3_5_moe_text": like(HYBRID, EXPERTS, needs=EXPERT_SIZES),
    "deepseek": like(MOE, first_k_dense_replace=0),
    "deepseek_v2": like(MOE, LATENT, needs=(*EXPERT_SIZES, *LATENT_SIZES), first_k_dense_replace=0),
    "deepseek_v3": like(MOE, LATENT, needs=(*EXPERT_SIZES, *LATENT_SIZES), max_position_embeddings=4096),
    "deepseek_v32": like(
        MOE, LATENT, SPARSE, needs=(*EXPERT_SIZES, *LATENT_SIZES, *INDEXER_SIZES), max_position_embeddings=163840
    ),
    "deepseek_v4": like(
        MOE,
        COMPRESSED,
        LATENT,
        SPARSE,
        HYPER_CONNECTIONS,
        needs=(
            *EXPERT_SIZES,
            *INDEXER_SIZES,
            "q_lora_rank",
            "o_lora_rank",
            "o_groups",
            "compress_ratios",
            "sliding_window",
        ),
        num_key_value_heads=1,
        residual_streams=4,
    ),
    "kimi_linear": like(
        MOE,
        LATENT,
        LINEAR,
        needs=(*EXPERT_SIZES, *LATENT_SIZES, "linear_num_value_heads", "linear_value_head_dim"),
        interleaved="linear",
        low_rank_gates=True,
        max_position_embeddings=1048576,
        linear_conv_kernel_dim=4,
        first_k_dense_replace=1,
    ),
    "glm4_moe": like(MOE, switches={}, max_position_embeddings=131072),
    "glm4_moe_lite": like(
        MOE, LATENT, needs=(*EXPERT_SIZES, *LATENT_SIZES), max_position_embeddings=202752, first_k_dense_replace=1
    ),
    "glm_moe_dsa": like(
        MOE,
        LATENT,
        SPARSE,
        needs=(*EXPERT_SIZES, *LATENT_SIZES, *INDEXER_SIZES),
        max_position_embeddings=202752,
        first_k_dense_replace=3,
    ),
    "dots1": like(MOE, qk_norm=True),
    "minimax_m2": like(
        MOE, needs=(*WIDTH, *ROUTING), max_position_embeddings=196608, qk_norm=True, wide_qk_norm=True, fp32_router=True
    ),
    "minimax_m3": like(
        MOE, GATE, SPARSE, needs=(*WIDTH, *ROUTING, *INDEXER_SIZES), max_position_embeddings=524288, qk_norm=True
    ),
    "mimo_v2_flash": like(MOE, CHUNKS, WINDOWS, switches={}, max_position_embeddings=131072),
    "gpt_oss": like(
        MOE,
        WINDOWS,
        needs=(*WIDTH, *ROUTING),
        max_position_embeddings=131072,
        head_dim=64,
        attention_bias=True,
        output_bias=True,
        mlp_bias=True,
        sliding_window=128,
        full_attention_interval=2,
    ),
    "llama4_text": like(
        MOE,
        CHUNKS,
        needs=(*WIDTH, *ROUTING),
        interleaved="chunked",
        max_position_embeddings=131072,
        head_dim=128,
        qk_norm=True,
        attention_chunk_size=8192,
        full_attention_interval=4,
        n_shared_experts=1,
    ),
    "gemma4_text": like(
        GEMMA,
        EXPERTS,
        WINDOWS,
        shared_is_dense=True,
        max_position_embeddings=131072,
        global_head_dim=512,
        layer_norms=4,
        qk_norm=True,
        sliding_window=512,
        full_attention_interval=6,
    ),
    "nemotron-nas": like(LLAMA, PRUNED, needs=("block_configs",), max_position_embeddings=131072),
    "nemotron_h": like(
        MOE,
        STATE_SPACE,
        needs=("single_blocks", "num_key_value_heads"),
        activations=PLAIN,
        hidden_act="relu2",
        max_position_embeddings=4096,
        head_dim=128,
    ),
    OWN_FAMILY: Family(
        needs=("norm", "hidden_act", "positions", "intermediate_size", "max_position_embeddings"),
        activations=("gelu", "relu", "relu2", "swiglu", "geglu"),
    ),
}
"""By ``model_type``."""

ALIASES: Mapping[str, str] = {
    "code_llama": "llama",
    "Yi": "llama",
    "ministral3": "mistral",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "kimi_k2": "deepseek_v3",
    "kimi_k25": "deepseek_v3",
    "deepseek_ref": "deepseek_v4",
    "minimax_m3_vl": "minimax_m3",
    "minimax_m3_vl_text": "minimax_m3",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "mistral3": "mistral",
}
"""Other names of the same architecture; those of several modalities stand for their language model."""


def family_of(model_type: object) -> Family | None:
    """Return the family of a ``model_type``, or None."""
    return FAMILIES.get(ALIASES.get(model_type, model_type)) if isinstance(model_type, str) else None
