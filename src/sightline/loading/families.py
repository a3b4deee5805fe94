"""The model families read so far: how each spells its keys, and what its architecture is where a config is silent.

Defaults are those of the family's class in Hugging Face transformers 5. A family is data; reading one is in
`sightline.loading.models`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("kv_n_heads", "attn_config.kv_n_heads"),
    "intermediate_size": ("n_inner", "ffn_dim"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length"),
    "hidden_act": ("activation_function", "hidden_activation"),
    "alibi": ("attn_config.alibi",),
}
"""Our key for a figure, and how configs spell it besides."""

DROPOUTS = (
    "attn_pdrop",
    "resid_pdrop",
    "embd_pdrop",
    "emb_pdrop",
    "attn_config.attn_pdrop",
    "hidden_dropout",
    "hidden_dropout_prob",
    "attention_dropout",
    "attention_probs_dropout_prob",
)
"""Dropout probabilities of parts; the model's one probability is the largest unless ``dropout`` states it."""

ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "silu": "swiglu",
    "swish": "swiglu",
    "swiglu": "swiglu",
}
"""Our activation for each name a config may give it; silu is the gate of a swiglu."""

FEATURES: Mapping[str, tuple[tuple[object, ...], str]] = {
    "num_experts": ((0, 1), "a mixture of experts"),
    "num_local_experts": ((0, 1), "a mixture of experts"),
    "n_routed_experts": ((0, 1), "a mixture of experts"),
    "ffn_config": ((), "an MLP of its own kind"),
    "kv_lora_rank": ((), "multi-head latent attention"),
    "q_lora_rank": ((), "multi-head latent attention"),
    "text_config": ((), "a model of several modalities"),
    "vision_config": ((), "a model of several modalities"),
    "is_encoder_decoder": ((False,), "an encoder and a decoder"),
    "add_cross_attention": ((False,), "cross-attention"),
    "parallel_attn": ((False,), "attention and MLP in parallel"),
    "use_parallel_residual": ((False,), "attention and MLP in parallel"),
    "do_layer_norm_before": ((True,), "norms after the residual addition"),
    "qk_norm": ((False,), "norms of queries and keys"),
    "use_qk_norm": ((False,), "norms of queries and keys"),
    "qk_layernorm": ((False,), "norms of queries and keys"),
    "attn_config.qk_ln": ((False,), "norms of queries and keys"),
    "attn_config.prefix_lm": ((False,), "a prefix that attends to itself both ways"),
    "attn_config.rope": ((False,), "rotary positions in an MPT"),
    "attn_config.sliding_window_size": ((-1,), "sliding-window attention"),
    "attention_chunk_size": ((), "chunked attention"),
    "index_topk": ((), "sparse attention"),
    "hybrid_override_pattern": ((), "layers of several kinds"),
    "num_nextn_predict_layers": ((0,), "multi-token prediction"),
}
"""Config keys of architectures unknown to this version: values that switch the feature off, and what it is."""

_IGNORED = """
    architectures torch_dtype dtype transformers_version bos_token_id eos_token_id pad_token_id unk_token_id
    use_cache initializer_range init_std rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps rope_theta
    rope_scaling rope_parameters rotary_emb_base rotary_pct partial_rotary_factor pretraining_tp
    attention_softmax_in_fp32 bias_dropout_fusion apply_residual_connection_post_layernorm masked_softmax_fusion
    offset_alibi slow_but_exact skip_bias_add skip_bias_add_qkv quantization_config n_ctx summary_type
    summary_use_proj summary_activation summary_first_dropout summary_proj_to_labels task_specific_params
    scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn prefix layerdrop
    layer_norm_elementwise_affine _remove_final_layer_norm max_window_layers classifier_dropout is_decoder
    logit_scale embedding_fraction norm_type init_device init_config tokenizer_name verbose custom_bias_fusion
    auto_map attn_config.attn_impl attn_config.softmax_scale attn_config.clip_qkv attn_config.attn_uses_sequence_id
    attn_config.alibi_bias_max attn_config.rope_theta learned_pos_emb generation_config gradient_checkpointing
    parameters source date evidence sources evidences note
"""

IGNORED = frozenset(_IGNORED.split())
"""Keys that change nothing a prediction of time and memory looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the configs of one ``model_type`` leave unsaid; keys as in `sightline.loading.schema.ModelKeys`."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A key that governs others: they take its value (the opposite of it for ``no_...``) unless stated themselves."""
    needs: tuple[str, ...] = ()
    """Figures that a config must state besides those every family needs."""
    activations: tuple[str, ...] = ("gelu", "relu", "swiglu")


_LLAMA: dict[str, Any] = {
    "norm": "rmsnorm",
    "hidden_act": "silu",
    "positions": "rotary",
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_GPT: dict[str, Any] = {
    "norm": "layernorm",
    "hidden_act": "gelu",
    "positions": "learned",
    "expansion_ratio": 4.0,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "attention_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "norm_bias": True,
}
_GATED = ("swiglu",)
_PLAIN = ("gelu", "relu")
_LINEAR_BIASES = ("attention_bias", "output_bias", "mlp_bias")
_ONE_ATTENTION_BIAS = {"attention_bias": ("output_bias",)}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(defaults=_LLAMA, needs=("intermediate_size",), switches=_ONE_ATTENTION_BIAS, activations=_GATED),
    "mistral": Family(
        defaults=_LLAMA | {"max_position_embeddings": 131072, "sliding_window": 4096},
        needs=("intermediate_size", "num_key_value_heads"),
        activations=_GATED,
    ),
    "qwen2": Family(
        defaults=_LLAMA | {"max_position_embeddings": 32768, "attention_bias": True, "use_sliding_window": False},
        needs=("intermediate_size",),
        activations=_GATED,
    ),
    "gpt2": Family(defaults=_GPT | {"max_position_embeddings": 1024, "dropout": 0.1}, activations=_PLAIN),
    "opt": Family(
        defaults=_GPT | {"hidden_act": "relu", "position_offset": 2, "dropout": 0.1},
        switches={"enable_bias": _LINEAR_BIASES},
        activations=_PLAIN,
    ),
    "bloom": Family(defaults=_GPT | {"positions": "alibi", "embedding_norm": True}, activations=_PLAIN),
    "mpt": Family(
        defaults=_GPT | {"positions": "alibi", "no_bias": True},
        switches={"no_bias": (*_LINEAR_BIASES, "norm_bias")},
        activations=_PLAIN,
    ),
    "gpt_neox": Family(
        defaults=_GPT | {"positions": "rotary", "tie_word_embeddings": False, "use_parallel_residual": True},
        switches=_ONE_ATTENTION_BIAS,
        activations=_PLAIN,
    ),
    "transformer": Family(needs=("norm", "hidden_act", "positions", "intermediate_size", "max_position_embeddings")),
}
"""By ``model_type``. ``transformer`` is ours: every feature stated, so that any `Model` can be written down."""
