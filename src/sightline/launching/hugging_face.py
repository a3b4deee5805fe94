"""Write a model's architecture as a Hugging Face configuration, and name the repository of a catalog model.

With the configuration the real classes run with the model's shapes.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from sightline import catalog
from sightline.scenario import Model

_REPOSITORY = re.compile(
    r"(?:(?:config\.json|model card|tensors) of |^)([\w.-]+/[\w.-]+)(?=$|[;,]| \()(?!, the same shapes)"
)
"""A repository in a source, other than one in another number format that has the same shapes."""


def repository_of(model: str) -> str:
    """Return the Hugging Face repository of a catalog model, from its source; empty where the catalog knows none.

    Models of papers and of other frameworks' examples have none.
    """
    if model not in catalog.names("models"):
        return ""
    found = _REPOSITORY.search(str(catalog.entry("models", model).get("source", "")))
    return found[1] if found else ""


def model_of(written: str) -> str:
    """Return the catalog's name of a repository or of a path that ends in a repository's name; empty for none.

    Variants of the same shapes count as the model: of ``meta-llama/Llama-3.1-8B-Instruct`` it is ``llama-3.1-8b``.
    """
    asked = written.rstrip("/")
    for name in (asked, asked.rpartition("/")[2]):
        if (found := catalog.name_of("models", name)) in catalog.names("models"):
            return found
    return _by_repository().get(asked.lower()) or _by_repository().get(asked.lower().rpartition("/")[2], "")


@cache
def _by_repository() -> dict[str, str]:
    """Catalog models by their repositories in lower case, with and without owner; of several names of one the first."""
    named = [(repository_of(name).lower(), name) for name in reversed(catalog.names("models"))]
    return {key: name for written, name in named if written for key in (written, written.rpartition("/")[2])}


_GATED = {"swiglu": "silu", "geglu": "gelu_pytorch_tanh", "reglu2": "relu2"}
ACTIVATIONS: Mapping[str, str] = {**_GATED, "gelu": "gelu", "relu": "relu"}
KNOWN: Final = (
    "of models with learned positions those like GPT-2, with ALiBi those like BLOOM, with rotary positions those like "
    "Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen3-MoE, Gemma 2, Gemma 3, DeepSeek V2 and V3 and GPT-NeoX"
)
"""Models whose configuration is written, in words."""


def configuration(model: Model) -> tuple[str, dict[str, Any]] | None:
    """Return the name of the configuration class whose model has this one's layers, and its keys; dropout is off.

    None where no class known here has such layers.
    """
    for fits, family, keys in _FAMILIES:
        if fits(model):
            return family, {**_common(model, family), **keys(model), "use_cache": False}
    return None


def configuration_file(model: Model) -> str | None:
    """Return the same as the text of a ``config.json``."""
    found = configuration(model)
    if found is None:
        return None
    family, keys = found
    architecture = _ARCHITECTURES.get(family, family.removesuffix("Config") + "ForCausalLM")
    named = {"architectures": [architecture], "model_type": _MODEL_TYPES[family]}
    return json.dumps({**named, **keys}, indent=2) + "\n"


KEYS: Mapping[str, Callable[[Model], Any]] = {
    "vocab_size": lambda m: m.vocab_size,
    "hidden_size": lambda m: m.hidden_size,
    "num_hidden_layers": lambda m: m.layers,
    "num_attention_heads": lambda m: m.heads,
    "tie_word_embeddings": lambda m: m.tied_embeddings,
    "num_key_value_heads": lambda m: m.kv_heads,
    "head_dim": lambda m: m.head_dim,
    "intermediate_size": lambda m: m.intermediate_size,
    "hidden_act": lambda m: ACTIVATIONS[m.activation],
    "max_position_embeddings": lambda m: m.max_positions,
    "attention_bias": lambda m: m.attention_bias,
    "mlp_bias": lambda m: m.mlp_bias,
}
"""What a configuration says of the model by its keys."""
COMMON = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings")
DENSE = ("intermediate_size", "hidden_act", "max_position_embeddings")
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
HEADS = ("num_key_value_heads", "head_dim")


def _stated(model: Model, *keys: str) -> dict[str, Any]:
    return {key: KEYS[key](model) for key in keys}


def _common(model: Model, family: str) -> dict[str, Any]:
    # Random tokens have no beginning and no end; the classes' own numbers may lie beyond a small vocabulary.
    keys = _stated(model, *COMMON) | dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    if model.norm_eps is not None:
        keys[_EPSILONS.get(family, "rms_norm_eps")] = model.norm_eps
    if model.rope_theta is not None and model.positions == "rotary":
        keys["rotary_emb_base" if family == "GPTNeoXConfig" else "rope_theta"] = model.rope_theta
    return keys


def _llama(model: Model) -> dict[str, Any]:
    return _stated(model, *HEADS, *DENSE, "attention_bias", "mlp_bias")


def _llama_like(model: Model) -> dict[str, Any]:
    return _stated(model, *HEADS, *DENSE) | {"sliding_window": None}


def _experts(model: Model, width: str = "intermediate_size", count: str = "num_local_experts") -> dict[str, Any]:
    """``width`` and ``count`` are what the family calls those of its experts."""
    assert model.experts is not None  # noqa: S101 - the family fits
    of = model.experts
    return _llama_like(model) | {width: of.width, count: of.count, "num_experts_per_tok": of.per_token}


def _many_experts(model: Model) -> dict[str, Any]:
    return _experts(model, "moe_intermediate_size", "num_experts")


def _windows(model: Model) -> dict[str, Any]:
    return _llama_like(model) | {"sliding_window": model.window}


def _gemma(model: Model) -> dict[str, Any]:
    keys = _windows(model) | {"attention_bias": model.attention_bias, "layer_types": _window_layers(model)}
    keys["hidden_activation"] = keys.pop("hidden_act")
    return keys | {"query_pre_attn_scalar": model.head_dim}


def _capped(model: Model) -> dict[str, Any]:
    caps = {"attn_logit_softcapping": model.score_cap, "final_logit_softcapping": model.logit_cap}
    return _gemma(model) | {name: cap or None for name, cap in caps.items()}


def _window_layers(model: Model) -> list[str]:
    """Which layers see a window: as many as the model has, in any order."""
    named = {"sliding": "sliding_attention", "attention": "full_attention"}
    return [named[kind.mixer] for kind in model.kinds for _ in range(kind.count)]


def _latent(model: Model) -> dict[str, Any]:
    assert model.latent is not None  # noqa: S101 - the family fits
    keys = _stated(model, *DENSE, "attention_bias") | {
        "num_key_value_heads": model.heads,
        "q_lora_rank": model.latent.query_rank,
        "kv_lora_rank": model.latent.kv_rank,
        "qk_nope_head_dim": model.latent.nope_head_dim,
        "qk_rope_head_dim": model.latent.rope_head_dim,
        "v_head_dim": model.latent.value_head_dim,
        "first_k_dense_replace": sum(kind.count for kind in model.kinds if kind.mlp == "dense"),
    }
    if model.experts is not None:
        keys |= {
            "moe_intermediate_size": model.experts.width,
            "n_routed_experts": model.experts.count,
            "n_shared_experts": model.experts.shared,
            "num_experts_per_tok": model.experts.per_token,
            "n_group": model.experts.groups,
            "topk_group": model.experts.chosen_groups,
        }
    return keys


def _neox(model: Model) -> dict[str, Any]:
    return {**_stated(model, *DENSE, "attention_bias"), **NO_DROPOUT, "use_parallel_residual": model.parallel_block}


def _gpt2(model: Model) -> dict[str, Any]:
    return {
        "n_inner": model.intermediate_size,
        "n_positions": model.max_positions,
        "activation_function": {"gelu": "gelu_new", "relu": "relu"}[model.activation],
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    }


def _is_plain(m: Model) -> bool:
    """Nothing rare stands around the layers or in their attention."""
    rare = m.attention_gate or m.score_cap or m.logit_cap or m.wide_qk_norm
    return m.residual_streams == 1 and m.plain_ends and not rare


def _equal_layers(m: Model) -> bool:
    """Every layer is full attention with a dense MLP, and nothing rarer."""
    return not m.layer_kinds and m.experts is None and _is_plain(m)


def _is_llama_like(m: Model, norms: int = 2) -> bool:
    return (m.norm, m.positions, m.parallel_block, m.layer_norms) == ("rmsnorm", "rotary", False, norms) and m.gated


def _has_windows(m: Model) -> bool:
    """Dense layers of one width, of which some or all see a window."""
    makes = {(kind.mlp, kind.mixer, kind.attention, kind.intermediate_size) for kind in m.layer_kinds}
    allowed = {("dense", mixer, None, None) for mixer in ("sliding", "attention")}
    return bool(makes) and makes <= allowed and m.value_head_dim in (None, m.head_dim)


def _only_windows(m: Model) -> bool:
    return all(kind.mixer == "sliding" for kind in m.kinds)


def _is_latent(m: Model) -> bool:
    """Latent attention everywhere, dense layers first, routed and shared experts of one width in the others."""
    of = m.experts
    same = of is None or (of.shared > 0 and of.shared_width == of.width and of.latent_width is None)
    dense_first = all(kind.leading for kind in m.kinds if kind.mlp == "dense") or len(m.kinds) == 1
    ours = all(kind.mixer == "latent" and kind.intermediate_size is None for kind in m.kinds)
    return _is_plain(m) and _is_llama_like(m) and m.latent is not None and ours and same and dense_first


def _is_gpt_like(m: Model) -> bool:
    return _equal_layers(m) and m.norm == "layernorm" and m.activation in ("gelu", "relu") and m.kv_heads == m.heads


def _has_only_experts(m: Model) -> bool:
    only = all((kind.mixer, kind.mlp) == ("attention", "experts") for kind in m.layer_kinds)
    return m.experts is not None and not m.experts.shared and _is_plain(m) and only


_FAMILIES: tuple[tuple[Callable[[Model], bool], str, Callable[[Model], dict[str, Any]]], ...] = (
    (lambda m: _equal_layers(m) and _is_llama_like(m) and m.qk_norm, "Qwen3Config", _llama_like),
    (
        lambda m: _equal_layers(m) and _is_llama_like(m) and m.attention_bias and not m.output_bias,
        "Qwen2Config",
        _llama_like,
    ),
    (lambda m: _equal_layers(m) and _is_llama_like(m), "LlamaConfig", _llama),
    (lambda m: _is_llama_like(m) and _has_only_experts(m) and m.qk_norm, "Qwen3MoeConfig", _many_experts),
    (lambda m: _is_llama_like(m) and _has_only_experts(m), "MixtralConfig", _experts),
    (_is_latent, "DeepseekV3Config", _latent),
    (lambda m: _is_llama_like(m, 4) and _has_windows(m) and _is_plain(m) and m.qk_norm, "Gemma3TextConfig", _gemma),
    (lambda m: _is_llama_like(m, 4) and _has_windows(m) and not m.qk_norm, "Gemma2Config", _capped),
    (lambda m: _is_llama_like(m) and _has_windows(m) and _only_windows(m) and _is_plain(m), "MistralConfig", _windows),
    (lambda m: _is_gpt_like(m) and m.positions == "rotary", "GPTNeoXConfig", _neox),
    (lambda m: _is_gpt_like(m) and m.positions == "learned", "GPT2Config", _gpt2),
    (lambda m: _is_gpt_like(m) and m.positions == "alibi", "BloomConfig", lambda _: NO_DROPOUT),
)
"""Whether a model is of a family, the family's configuration class, and its keys; the first that fits is taken."""

_ARCHITECTURES: Final = {"GPT2Config": "GPT2LMHeadModel", "Gemma3TextConfig": "Gemma3ForCausalLM"}
"""Classes that are not called after their configuration."""
_EPSILONS: Final = {
    "GPTNeoXConfig": "layer_norm_eps",
    **dict.fromkeys(("GPT2Config", "BloomConfig"), "layer_norm_epsilon"),
}
"""What families without RMSNorm call the epsilon of their norms."""
_MODEL_TYPES: Final[Mapping[str, str]] = {
    "Qwen3Config": "qwen3",
    "Qwen2Config": "qwen2",
    "LlamaConfig": "llama",
    "Qwen3MoeConfig": "qwen3_moe",
    "MixtralConfig": "mixtral",
    "DeepseekV3Config": "deepseek_v3",
    "Gemma3TextConfig": "gemma3_text",
    "Gemma2Config": "gemma2",
    "MistralConfig": "mistral",
    "GPTNeoXConfig": "gpt_neox",
    "GPT2Config": "gpt2",
    "BloomConfig": "bloom",
}
"""``model_type`` of each family, by which transformers finds its classes."""
