"""A model as plain values, with the keys that load back as the same model."""

from dataclasses import MISSING, asdict, fields
from typing import Any

from sightline.loading.families import OWN_FAMILY
from sightline.scenario import Model

_BLOCKS = ("experts", "latent", "sparse", "compressed", "linear", "state_space")
_WHERE_OTHER = (
    "value_head_dim",
    "window",
    "attention_gate",
    "qk_norm",
    "wide_qk_norm",
    "fp32_router",
    "parallel_block",
    "layer_norms",
    "residual_streams",
    "score_cap",
    "logit_cap",
    "prediction_layers",
    "weights",
    "kv_cache",
)
"""Fields written only where they are not the default, under their own names."""


def model_mapping(model: Model) -> dict[str, Any]:
    """Return every figure of ``model`` under the keys of model_type ``transformer``."""
    return {
        "name": model.name,
        "model_type": OWN_FAMILY,
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.intermediate_size,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_positions,
        "norm": model.norm,
        "hidden_act": model.activation,
        "positions": model.positions,
        "tie_word_embeddings": model.tied_embeddings,
        "attention_bias": model.attention_bias,
        "output_bias": model.output_bias,
        "mlp_bias": model.mlp_bias,
        "norm_bias": model.norm_bias,
        "embedding_norm": model.embedding_norm,
        "position_offset": model.position_offset,
        "dropout": model.dropout,
        **_others(model),
        **{name: _stated(getattr(model, name)) for name in _BLOCKS if getattr(model, name) is not None},
        **({"layer_kinds": [_stated(kind) for kind in model.layer_kinds]} if model.layer_kinds else {}),
        **({"weight_exceptions": dict(model.weight_exceptions)} if model.weight_exceptions else {}),
    }


def _others(model: Model) -> dict[str, Any]:
    defaults = {f.name: f.default for f in fields(model)}
    return {name: getattr(model, name) for name in _WHERE_OTHER if getattr(model, name) != defaults[name]}


def _stated(block: Any) -> dict[str, Any]:
    """A block's fields that are needed or not the default."""
    whole = asdict(block)
    return {f.name: whole[f.name] for f in fields(block) if f.default is MISSING or whole[f.name] != f.default}
