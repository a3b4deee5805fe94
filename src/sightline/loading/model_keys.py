"""The structure of a model's mapping, under the names `sightline.loading.spellings` gives every config's own keys."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from sightline.loading.fields import choice, flag, fraction, quantity, refused, whole
from sightline.loading.schema import Section, Text
from sightline.quantities import COUNT, show
from sightline.scenario.model import WEIGHT_FORMATS

MIXERS: Mapping[str, str] = {
    "full_attention": "attention",
    "attention": "attention",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "indexed_attention": "sparse",
    "deepseek_sparse_attention": "sparse",
}
"""Our mixer for each word of a config's ``layer_types``."""

SINGLE_BLOCKS: Mapping[str, tuple[str, str]] = {
    "M": ("state-space", "none"),
    "mamba": ("state-space", "none"),
    "linear_attention": ("state-space", "none"),
    "*": ("attention", "none"),
    "attention": ("attention", "none"),
    "full_attention": ("attention", "none"),
    "E": ("none", "experts"),
    "moe": ("none", "experts"),
    "-": ("none", "dense"),
    "mlp": ("none", "dense"),
}
"""Mixer and MLP for each word of a hybrid's pattern, whose layers hold one block each."""


def list_of(*values: str | int) -> BeforeValidator:
    """A list whose items are all one of ``values``; whole numbers of 0 or more when none are given."""
    allowed = f"a list of {', '.join(map(str, values))}" if values else "a list of whole numbers of 0 or more"

    def check(value: Any) -> tuple[str | int, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple) or any(not _fits(item, values) for item in value):
            raise refused(f"is {show(value)}; allowed: {allowed}")
        return tuple(value)

    return BeforeValidator(check)


def _fits(item: Any, values: tuple[str | int, ...]) -> bool:
    if values:
        return any(type(item) is type(v) and item == v for v in values)
    return isinstance(item, int) and not isinstance(item, bool) and item >= 0


def every_or_each() -> BeforeValidator:
    """How often something comes as a whole number, or whether it comes in each layer as a list of 0 and 1."""
    number, each = whole(1).func, list_of(0, 1).func
    return BeforeValidator(lambda value: each(value) if isinstance(value, list | tuple) else number(value))  # type: ignore[call-arg]


def pattern() -> BeforeValidator:
    """A hybrid's pattern: a text of M, *, E and -, or a list of words."""
    words = list_of(*SINGLE_BLOCKS).func
    return BeforeValidator(lambda value: words(list(value) if isinstance(value, str) else value))  # type: ignore[call-arg]


Width: TypeAlias = Annotated[int | None, whole(1, 10**8)]
Heads: TypeAlias = Annotated[int | None, whole(1, 10**6)]
Number: TypeAlias = Annotated[int | None, whole(0, 10**6)]
Flag: TypeAlias = Annotated[bool | None, flag()]


class DenseKeys(Section):
    """The keys of every transformer."""

    name: Text = None
    hidden_size: Width = None
    num_hidden_layers: Heads = None
    num_attention_heads: Heads = None
    num_key_value_heads: Heads = None
    head_dim: Heads = None
    value_head_dim: Heads = None
    intermediate_size: Width = None
    expansion_ratio: Annotated[float | None, quantity(COUNT)] = None
    vocab_size: Width = None
    max_position_embeddings: Annotated[int | None, whole()] = None
    hidden_act: Text = None
    tie_word_embeddings: Flag = None
    attention_bias: Flag = None
    output_bias: Flag = None
    mlp_bias: Flag = None
    norm_bias: Flag = None
    embedding_norm: Flag = None
    norm: Annotated[str | None, choice("layernorm", "rmsnorm")] = None
    positions: Annotated[str | None, choice("learned", "rotary", "alibi")] = None
    position_offset: Annotated[int | None, whole(0)] = None
    enable_bias: Flag = None
    no_bias: Flag = None
    multi_query: Flag = None
    new_decoder_architecture: Flag = None
    alibi: Flag = None
    dropout: Annotated[float | None, fraction()] = None
    sliding_window: Annotated[int | None, whole(0)] = None
    use_sliding_window: Flag = None
    max_window_layers: Number = None
    attention_gate: Flag = None
    qk_norm: Flag = None
    wide_qk_norm: Flag = None
    fp32_router: Flag = None
    parallel_block: Flag = None
    layer_norms: Annotated[int | None, whole(1, 8)] = None
    residual_streams: Annotated[int | None, whole(1, 64)] = None
    prediction_layers: Number = None
    score_cap: Annotated[float | None, quantity(COUNT, zero=True)] = None
    logit_cap: Annotated[float | None, quantity(COUNT, zero=True)] = None
    weights: Annotated[str | None, choice(*WEIGHT_FORMATS)] = None
    kv_cache: Annotated[str | None, choice("bf16", "fp8", "int8")] = None
    weight_exceptions: Any = None


class ModelKeys(DenseKeys):
    """All keys of a model: those of mixed layers, experts and other mixers besides."""

    layer_types: Annotated[Any, list_of(*MIXERS)] = None
    full_attention_layers: Annotated[Any, list_of()] = None
    full_attention_interval: Annotated[int | None, whole(1, 10**6)] = None
    hybrid_layer_pattern: Annotated[Any, list_of(0, 1)] = None
    single_blocks: Annotated[Any, pattern()] = None
    block_configs: Any = None
    swa_num_attention_heads: Heads = None
    swa_num_key_value_heads: Heads = None
    swa_head_dim: Heads = None
    swa_v_head_dim: Heads = None
    global_head_dim: Heads = None
    num_global_key_value_heads: Heads = None
    attention_k_eq_v: Flag = None
    attention_chunk_size: Annotated[int | None, whole(0)] = None

    num_experts: Number = None
    num_experts_per_tok: Number = None
    moe_intermediate_size: Width = None
    dense_intermediate_size: Width = None
    n_shared_experts: Number = None
    shared_expert_intermediate_size: Number = None
    moe_latent_size: Heads = None
    n_group: Heads = None
    topk_group: Heads = None
    first_k_dense_replace: Number = None
    moe_layer_freq: Annotated[Any, every_or_each()] = None
    mlp_only_layers: Annotated[Any, list_of()] = None
    mlp_layer_types: Annotated[Any, list_of("dense", "sparse", "moe", "hash_moe")] = None

    kv_lora_rank: Heads = None
    q_lora_rank: Heads = None
    qk_nope_head_dim: Heads = None
    qk_rope_head_dim: Heads = None
    v_head_dim: Heads = None
    index_topk: Annotated[int | None, whole()] = None
    index_n_heads: Heads = None
    index_head_dim: Heads = None
    index_block_size: Annotated[int | None, whole()] = None
    index_layers: Annotated[Any, list_of(0, 1)] = None
    indexer_types: Annotated[Any, list_of("full", "shared")] = None
    index_topk_freq: Annotated[int | None, whole(1, 10**6)] = None
    index_skip_topk_offset: Number = None
    o_lora_rank: Heads = None
    o_groups: Heads = None
    compress_ratios: Annotated[Any, list_of()] = None

    linear_num_key_heads: Heads = None
    linear_num_value_heads: Heads = None
    linear_key_head_dim: Heads = None
    linear_value_head_dim: Heads = None
    linear_conv_kernel_dim: Heads = None
    mamba_num_heads: Heads = None
    mamba_head_dim: Heads = None
    n_groups: Heads = None
    ssm_state_size: Heads = None
    conv_kernel: Heads = None


class OwnKeys(DenseKeys):
    """The keys of model_type ``transformer``, which states every block outright as `sightline.scenario.Model` has it."""

    layer_kinds: Any = None
    experts: Any = None
    latent: Any = None
    sparse: Any = None
    compressed: Any = None
    linear: Any = None
    state_space: Any = None
    window: Annotated[int | None, whole()] = None
