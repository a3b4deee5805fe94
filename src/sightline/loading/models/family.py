"""What one model family is made of, and the families that others are like."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

GATED, GATED_GELU, PLAIN = ("swiglu",), ("geglu",), ("gelu", "relu", "relu2")
"""Activations that the MLP of a family may have."""

WINDOWS = "window patterns"
CHUNKS = "chunked attention"
EXPERTS = "a mixture of experts"
LATENT = "multi-head latent attention"
SPARSE = "sparse attention"
COMPRESSED = "folded keys and values"
LINEAR = "linear attention"
STATE_SPACE = "state-space layers"
GATE = "an attention gate"
HYPER_CONNECTIONS = "hyper-connections"
PRUNED = "layers of their own widths"

WIDTH = ("intermediate_size",)
ROUTING = ("num_experts", "num_experts_per_tok")
EXPERT_SIZES = (*ROUTING, "moe_intermediate_size")
LATENT_SIZES = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
INDEXER_SIZES = ("index_topk", "index_n_heads", "index_head_dim")
LINEAR_BIASES = ("attention_bias", "output_bias", "mlp_bias")
ONE_ATTENTION_BIAS = {"attention_bias": ("output_bias",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the configs of one ``model_type`` leave out; keys as in `sightline.loading.models.keys.MODEL`."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A key that governs others: they take its value (the opposite of it for ``no_...``) unless stated themselves."""
    needs: tuple[str, ...] = ()
    """Figures that a config must state in addition to those every family needs."""
    activations: tuple[str, ...] = ("gelu", "relu", "swiglu")
    features: frozenset[str] = frozenset()
    """What its layers may hold beyond full attention and a dense MLP, as `sightline.loading.models.spellings.FEATURES`
    names it."""
    interleaved: str = "sliding"
    """Mixer of the layers between those of full attention where ``full_attention_interval`` counts."""
    shared_is_dense: bool = False
    """Each layer runs the dense MLP next to the experts, so it is their shared expert."""
    low_rank_gates: bool = False
    """Linear attention has a decay for every key channel; it and the output gate pass through a head's width (Kimi)."""
    halved_intermediate: bool = False
    """``intermediate_size`` counts both input projections."""


def like(base: Family, *features: str, **changes: Any) -> Family:
    """Return a family like ``base`` with more features; changes are fields of `Family` or defaults of configs."""
    own = {f.name: changes.pop(f.name) for f in fields(Family) if f.name in changes}
    return replace(base, defaults={**base.defaults, **changes}, features=base.features | set(features), **own)


LLAMA = Family(
    defaults={
        "norm": "rmsnorm",
        "hidden_act": "silu",
        "positions": "rotary",
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
    needs=WIDTH,
    switches=ONE_ATTENTION_BIAS,
    activations=GATED,
)
"""RMSNorm, rotary positions, a gated MLP, no biases."""

GPT = Family(
    defaults={
        "norm": "layernorm",
        "hidden_act": "gelu",
        "positions": "learned",
        "expansion_ratio": 4.0,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        **dict.fromkeys((*LINEAR_BIASES, "norm_bias"), True),
    },
    activations=PLAIN,
)
GEMMA = like(
    LLAMA,
    activations=GATED_GELU,
    hidden_act="gelu_pytorch_tanh",
    head_dim=256,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
)
MOE = like(LLAMA, EXPERTS, needs=EXPERT_SIZES)
HYBRID = like(
    LLAMA,
    LINEAR,
    GATE,
    interleaved="linear",
    max_position_embeddings=32768,
    head_dim=256,
    qk_norm=True,
    attention_gate=True,
    full_attention_interval=4,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
)
"""Three layers of gated linear attention, then one of full attention."""
