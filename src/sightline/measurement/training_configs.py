"""A model's architecture as a Hugging Face configuration, so that the real classes run with its shapes."""

from collections.abc import Callable, Mapping
from typing import Any

from sightline.measurement.outcome import UnsupportedCaseError
from sightline.scenario import Model

ACTIVATIONS: Mapping[str, str] = {"swiglu": "silu", "geglu": "gelu_pytorch_tanh", "gelu": "gelu", "relu": "relu"}


def transformers_config(model: Model) -> Any:
    """Return the configuration whose model has this one's layers; dropout is off.

    Raises:
        UnsupportedCaseError: No class known here has such layers.
    """
    import transformers

    for fits, family, keys in _FAMILIES:
        if fits(model):
            config = getattr(transformers, family)(**_common(model), **keys(model))
            config.use_cache = False
            return config
    raise UnsupportedCaseError(
        f"{model.name} has layers that are not measured: of models with learned positions those like GPT-2, with ALiBi "
        "those like BLOOM, with rotary positions those like Llama, Qwen2, Qwen3, Mixtral and GPT-NeoX"
    )


def _common(model: Model) -> dict[str, Any]:
    return {
        "vocab_size": model.vocab_size,
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "tie_word_embeddings": model.tied_embeddings,
        # Random tokens have no beginning and no end; the classes' own numbers may lie beyond a small vocabulary.
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def _llama_like(model: Model) -> dict[str, Any]:
    return {
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.intermediate_size,
        "hidden_act": ACTIVATIONS[model.activation],
        "max_position_embeddings": model.max_positions,
        "sliding_window": None,
    }


def _llama(model: Model) -> dict[str, Any]:
    keys = _llama_like(model) | {"attention_bias": model.attention_bias, "mlp_bias": model.mlp_bias}
    del keys["sliding_window"]
    return keys


def _experts(model: Model) -> dict[str, Any]:
    assert model.experts is not None  # noqa: S101 - the family fits
    return _llama_like(model) | {
        "intermediate_size": model.experts.width,
        "num_local_experts": model.experts.count,
        "num_experts_per_tok": model.experts.per_token,
    }


def _neox(model: Model) -> dict[str, Any]:
    return {
        "intermediate_size": model.intermediate_size,
        "max_position_embeddings": model.max_positions,
        "hidden_act": ACTIVATIONS[model.activation],
        "use_parallel_residual": model.parallel_block,
        "attention_bias": model.attention_bias,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    }


def _gpt2(model: Model) -> dict[str, Any]:
    return {
        "n_inner": model.intermediate_size,
        "n_positions": model.max_positions,
        "activation_function": {"gelu": "gelu_new", "relu": "relu"}[model.activation],
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    }


def _bloom(_: Model) -> dict[str, Any]:
    return {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def _equal_layers(m: Model) -> bool:
    """Every layer is full attention with a dense MLP, and nothing rarer."""
    rarer = m.residual_streams > 1 or m.attention_gate or m.score_cap or m.logit_cap
    return not m.layer_kinds and m.experts is None and not rarer


def _is_llama_like(m: Model) -> bool:
    return (m.norm, m.positions, m.parallel_block, m.layer_norms) == ("rmsnorm", "rotary", False, 2) and m.gated


def _is_gpt_like(m: Model) -> bool:
    return _equal_layers(m) and m.norm == "layernorm" and m.activation in ("gelu", "relu") and m.kv_heads == m.heads


def _has_only_experts(m: Model) -> bool:
    kinds = m.layer_kinds
    return (
        m.experts is not None
        and not m.experts.shared
        and all((kind.mixer, kind.mlp) == ("attention", "experts") for kind in kinds)
    )


_FAMILIES: tuple[tuple[Callable[[Model], bool], str, Callable[[Model], dict[str, Any]]], ...] = (
    (lambda m: _equal_layers(m) and _is_llama_like(m) and m.qk_norm, "Qwen3Config", _llama_like),
    (
        lambda m: _equal_layers(m) and _is_llama_like(m) and m.attention_bias and not m.output_bias,
        "Qwen2Config",
        _llama_like,
    ),
    (lambda m: _equal_layers(m) and _is_llama_like(m), "LlamaConfig", _llama),
    (lambda m: _is_llama_like(m) and _has_only_experts(m), "MixtralConfig", _experts),
    (lambda m: _is_gpt_like(m) and m.positions == "rotary", "GPTNeoXConfig", _neox),
    (lambda m: _is_gpt_like(m) and m.positions == "learned", "GPT2Config", _gpt2),
    (lambda m: _is_gpt_like(m) and m.positions == "alibi", "BloomConfig", _bloom),
)
"""Whether a model is of a family, the family's configuration class, and its keys; the first that fits is taken."""
