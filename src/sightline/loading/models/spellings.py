"""How configs spell a figure, what they name an activation, and which of their keys matter not or belong to one feature."""

from collections.abc import Mapping

from sightline.loading.models.family import (
    CHUNKS,
    COMPRESSED,
    EXPERTS,
    GATE,
    HYPER_CONNECTIONS,
    LATENT,
    LINEAR,
    PRUNED,
    SPARSE,
    STATE_SPACE,
    WINDOWS,
)

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": (
        "kv_n_heads",
        "attn_config.kv_n_heads",
        "num_kv_heads",
        "n_head_kv",
        "multi_query_group_num",
    ),
    "head_dim": ("attention_head_dim", "kv_channels"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "model_max_length"),
    "hidden_act": ("activation_function", "hidden_activation", "mlp_hidden_act", "activation"),
    "alibi": ("attn_config.alibi",),
    "attention_bias": ("add_qkv_bias", "qkv_bias", "use_qkv_bias"),
    "output_bias": ("attention_out_bias",),
    "multi_query": ("multi_query_attention",),
    "qk_norm": ("use_qk_norm", "qk_layernorm"),
    "attention_gate": ("attn_output_gate", "attention_output_gate"),
    "parallel_block": ("use_parallel_residual", "parallel_attn"),
    "residual_streams": ("hc_mult",),
    "score_cap": ("attn_logit_softcapping",),
    "logit_cap": ("final_logit_softcapping",),
    "prediction_layers": (
        "num_nextn_predict_layers",
        "mtp_num_hidden_layers",
        "num_mtp_modules",
        "mtp_num_layers",
    ),
    "full_attention_interval": ("sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval"),
    "single_blocks": ("hybrid_override_pattern", "layers_block_type"),
    "linear_num_value_heads": ("linear_num_heads", "linear_attn_config.num_heads"),
    "linear_value_head_dim": ("linear_head_dim", "linear_attn_config.head_dim"),
    "linear_conv_kernel_dim": ("linear_attn_config.short_conv_kernel_size",),
    "full_attention_layers": ("linear_attn_config.full_attn_layers",),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("experts_per_token", "num_experts_per_token", "top_k_experts", "moe_top_k"),
    "moe_intermediate_size": ("expert_intermediate_size",),
    "dense_intermediate_size": ("intermediate_size_mlp",),
    "n_shared_experts": ("num_shared_experts",),
    "shared_expert_intermediate_size": ("moe_shared_expert_intermediate_size", "shared_intermediate_size"),
    "moe_layer_freq": ("decoder_sparse_step", "interleave_moe_layer_step"),
    "index_n_heads": ("sparse_attention_config.sparse_num_index_heads",),
    "index_head_dim": ("sparse_attention_config.sparse_index_dim",),
    "index_topk": ("sparse_attention_config.sparse_topk_blocks",),
    "index_block_size": ("sparse_attention_config.sparse_block_size",),
    "index_layers": ("sparse_attention_config.sparse_attention_freq",),
}
"""Our key for a figure, and other spellings of it in configs."""

NESTED = ("attn_config", "sparse_attention_config", "linear_attn_config")
"""Mappings inside a config that are read as ``outer.inner`` keys."""

_DROPOUTS = """
    attn_pdrop resid_pdrop embd_pdrop emb_pdrop attn_config.attn_pdrop hidden_dropout hidden_dropout_prob
    attention_dropout attention_probs_dropout_prob attn_dropout_prob emb_dropout_prob residual_dropout embedding_dropout
"""
DROPOUTS = tuple(_DROPOUTS.split())
"""Dropout probabilities of parts; the model's one probability is the largest unless ``dropout`` states it."""

ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "swiglu",
    "swish": "swiglu",
    "swiglu": "swiglu",
    "swigluoai": "swiglu",
    "geglu": "geglu",
}
"""Our activation for each name a config may give it; silu is the gate of a swiglu."""

FEATURES: Mapping[str, tuple[tuple[object, ...], str]] = {
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), ((0, 1), EXPERTS)),
    "moe_latent_size": ((), EXPERTS),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), ((), LATENT)),
    **dict.fromkeys(("index_topk", "sparse_attention_config.sparse_topk_blocks"), ((), SPARSE)),
    "compress_ratios": ((), COMPRESSED),
    "attention_chunk_size": ((), CHUNKS),
    **dict.fromkeys(("hybrid_override_pattern", "layers_block_type"), ((), STATE_SPACE)),
    "linear_num_value_heads": ((), LINEAR),
    **dict.fromkeys(("hybrid_layer_pattern", "global_head_dim"), ((), WINDOWS)),
    "block_configs": ((), PRUNED),
    "attn_output_gate": ((False,), GATE),
    "hc_mult": ((1,), HYPER_CONNECTIONS),
}
"""Config keys of one feature each: the values that mean it is off, and its name. A family has it or refuses the key."""

FOREIGN: Mapping[str, tuple[tuple[object, ...], str]] = {
    "ffn_config": ((), "an MLP of its own kind"),
    "is_encoder_decoder": ((False,), "an encoder and a decoder"),
    "add_cross_attention": ((False,), "cross-attention"),
    "do_layer_norm_before": ((True,), "norms after the residual addition"),
    "attn_config.qk_ln": ((False,), "norms of queries and keys"),
    "attn_config.prefix_lm": ((False,), "a prefix that attends to itself both ways"),
    "attn_config.rope": ((False,), "rotary positions in an MPT"),
    "attn_config.sliding_window_size": ((-1,), "sliding-window attention"),
    "hidden_size_per_layer_input": ((0,), "embeddings for every layer"),
    "num_kv_shared_layers": ((0,), "layers that share keys and values"),
    "use_mamba": ((False,), STATE_SPACE),
}
"""Config keys of architectures that no family here has, as `FEATURES`."""

_IGNORED = """
    architectures torch_dtype dtype transformers_version bos_token_id eos_token_id pad_token_id unk_token_id
    use_cache initializer_range init_std rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps
    rope_theta rope_scaling rope_parameters rotary_emb_base rotary_pct partial_rotary_factor rotary_dim pretraining_tp
    attention_softmax_in_fp32 bias_dropout_fusion apply_residual_connection_post_layernorm masked_softmax_fusion
    offset_alibi slow_but_exact skip_bias_add skip_bias_add_qkv quantization_config n_ctx summary_type
    summary_use_proj summary_activation summary_first_dropout summary_proj_to_labels task_specific_params
    scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn prefix layerdrop
    layer_norm_elementwise_affine _remove_final_layer_norm classifier_dropout is_decoder
    logit_scale embedding_fraction norm_type init_device init_config tokenizer_name verbose custom_bias_fusion
    auto_map attn_config.attn_impl attn_config.softmax_scale attn_config.clip_qkv attn_config.attn_uses_sequence_id
    attn_config.alibi_bias_max attn_config.rope_theta learned_pos_emb generation_config gradient_checkpointing
    parameters active_parameters source date evidence sources evidences note
    add_full_attention_sink_bias add_swa_attention_sink_bias attention_value_scale aux_loss_alpha chunk_size
    compress_rope_theta ep_size expand expert_dtype
    query_pre_attn_scalar for_llm_compressor hc_eps hc_sinkhorn_iters index_share_for_mtp_iteration
    index_topk_pattern indexer_rope_interleave initial_context_length mamba_hidden_act mamba_proj_bias
    mamba_ssm_cache_dtype mamba_ssm_dtype moe_router_dtype moe_shared_expert_overlap mtp_hybrid_override_pattern
    mtp_layers_block_type mtp_transformer_layers mtp_use_dedicated_embeddings topk_method
    no_rope_layers norm_topk_prob num_hash_layers num_logits_to_keep output_router_logits qk_head_dim qk_norm_type
    rescale_prenorm_residual residual_in_fp32 rope_interleave routed_scaling_factor router_aux_loss_coef
    router_jitter_noise input_jitter_noise scoring_func seq_aux sliding_window_size swa_rope_theta swiglu_alpha
    swiglu_limit time_step_floor time_step_limit time_step_max time_step_min time_step_rank use_bias use_conv_bias
    use_gemma_norm use_mamba_kernels use_mtp use_routing_bias use_double_wide_mlp use_bidirectional_attention
    vocab_size_per_layer_input enable_moe_block expand rope_local_base_freq attention_multiplier
    embedding_multiplier residual_multiplier logits_scaling lm_head_bias original_max_position_embeddings
    vision_config audio_config image_token_id use_dynamic_ntk use_logn_attn use_flash_attn bf16 fp16 fp32
    rotary_base original_rope clip_qkv moe_layers tf_legacy_loss bias add_bias_linear rmsnorm post_layer_norm
    apply_query_key_layer_scaling fp32_residual_connection pre_seq_len prefix_projection
    image_token_index boi_token_index eoi_token_index mm_tokens_per_image cache_implementation
    onnx_safe num_ln_in_parallel_attn
"""

IGNORED = frozenset(_IGNORED.split())
"""Keys that change nothing a prediction of time and memory looks at."""
