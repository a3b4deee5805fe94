"""The keys of a model's mapping, under the names that ``spellings.yaml`` gives every config's own keys."""

from typing import Any

from sightline.kinds import anything, choice, flag, fraction, list_of, quantity, text, whole
from sightline.loading.input.checks import Keys, each
from sightline.loading.models.family import spellings
from sightline.quantities import COUNT
from sightline.scenario.precision import CHECKPOINT_FORMATS


def every_or_each(value: Any) -> Any:
    """How often something comes as a whole number, or whether it comes in each layer as a list of 0 and 1."""
    return list_of(0, 1)(value) if isinstance(value, list | tuple) else whole(1)(value)


def layer_types(value: Any) -> Any:
    """A list with the attention of each layer."""
    return list_of(*spellings().mixers)(value)


def pattern(value: Any) -> Any:
    """A hybrid's pattern: a text of M, *, E and -, or a list of words."""
    return list_of(*spellings().single_blocks)(list(value) if isinstance(value, str) else value)


def sentences(value: Any) -> Any:
    """A list of texts."""
    return tuple(text(item) for item in (value if isinstance(value, list | tuple) else [value]))


_WIDTH, _HEADS, _NUMBER = whole(1, 10**8), whole(1, 10**6), whole(0, 10**6)

DENSE: Keys = {
    "name": text,
    "hidden_size": _WIDTH,
    **each(_HEADS, "num_hidden_layers num_attention_heads num_key_value_heads head_dim value_head_dim"),
    "intermediate_size": _WIDTH,
    "expansion_ratio": quantity(COUNT),
    "vocab_size": _WIDTH,
    "max_position_embeddings": whole(),
    "hidden_act": text,
    **each(flag, "tie_word_embeddings attention_bias output_bias mlp_bias norm_bias embedding_norm"),
    "norm": choice("layernorm", "rmsnorm"),
    "positions": choice("learned", "rotary", "alibi"),
    "position_offset": whole(0),
    **each(flag, "enable_bias no_bias multi_query new_decoder_architecture alibi"),
    "dropout": fraction,
    "sliding_window": whole(0),
    "use_sliding_window": flag,
    "max_window_layers": _NUMBER,
    **each(flag, "attention_gate qk_norm wide_qk_norm fp32_router parallel_block"),
    "layer_norms": whole(1, 8),
    "residual_streams": whole(1, 64),
    "prediction_layers": _NUMBER,
    **each(quantity(COUNT, zero=True), "score_cap logit_cap"),
    "weights": choice(*CHECKPOINT_FORMATS),
    "kv_cache": choice("bf16", "fp8", "int8"),
    "weight_exceptions": anything,
    "assumed": sentences,
}
"""The keys of every transformer."""

MODEL: Keys = {
    **DENSE,
    "layer_types": layer_types,
    "full_attention_layers": list_of(),
    "full_attention_interval": whole(1, 10**6),
    "hybrid_layer_pattern": list_of(0, 1),
    "single_blocks": pattern,
    "block_configs": anything,
    **each(
        _HEADS,
        "swa_num_attention_heads swa_num_key_value_heads swa_head_dim swa_v_head_dim global_head_dim "
        "num_global_key_value_heads",
    ),
    "attention_k_eq_v": flag,
    "attention_chunk_size": whole(0),
    **each(_NUMBER, "num_experts num_experts_per_tok"),
    **each(_WIDTH, "moe_intermediate_size dense_intermediate_size"),
    **each(_NUMBER, "n_shared_experts shared_expert_intermediate_size"),
    **each(_HEADS, "moe_latent_size n_group topk_group"),
    "first_k_dense_replace": _NUMBER,
    "moe_layer_freq": every_or_each,
    "mlp_only_layers": list_of(),
    "mlp_layer_types": list_of("dense", "sparse", "moe", "hash_moe"),
    **each(_HEADS, "kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim"),
    "index_topk": whole(),
    **each(_HEADS, "index_n_heads index_head_dim"),
    "index_block_size": whole(),
    "index_layers": list_of(0, 1),
    "indexer_types": list_of("full", "shared"),
    "index_topk_freq": whole(1, 10**6),
    "index_skip_topk_offset": _NUMBER,
    **each(_HEADS, "o_lora_rank o_groups"),
    "compress_ratios": list_of(),
    **each(
        _HEADS,
        "linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim "
        "linear_conv_kernel_dim mamba_num_heads mamba_head_dim n_groups ssm_state_size conv_kernel",
    ),
}
"""All keys of a model: also those of mixed layers, experts and other mixers."""

OWN: Keys = {
    **DENSE,
    **each(anything, "layer_kinds experts latent sparse compressed linear state_space"),
    "window": whole(),
}
"""The keys of model_type ``transformer``, which states every block outright as `sightline.scenario.Model` has it."""
