"""The model families: what the configs of each ``model_type`` leave unsaid, and what its architecture may hold.

Defaults are those of the family's class in Hugging Face transformers 5, or of the code published with the weights. A
family is data; reading one is in `sightline.loading.models`.
"""

from collections.abc import Mapping

from sightline.loading.families_dense import DENSE_FAMILIES
from sightline.loading.families_mixed import MIXED_FAMILIES
from sightline.loading.family import Family

OWN_FAMILY = "transformer"
"""Ours: every feature stated, so that any `sightline.scenario.Model` can be written down."""

FAMILIES: Mapping[str, Family] = {
    **DENSE_FAMILIES,
    **MIXED_FAMILIES,
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
