"""Families of equal layers with a dense MLP, some with sliding windows."""

from collections.abc import Mapping
from typing import Any

from sightline.loading.family import GATED, GATED_GELU, PLAIN, WINDOWS, Family

LLAMA: dict[str, Any] = {
    "norm": "rmsnorm",
    "hidden_act": "silu",
    "positions": "rotary",
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
"""RMSNorm, rotary positions, a gated MLP, no biases."""

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
_LAYERNORM: dict[str, Any] = {"norm": "layernorm", "norm_bias": True}
_NO_BIASES: dict[str, Any] = dict.fromkeys(("attention_bias", "output_bias", "mlp_bias"), False)
_GEMMA: dict[str, Any] = LLAMA | {
    "hidden_act": "gelu_pytorch_tanh",
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_LINEAR_BIASES = ("attention_bias", "output_bias", "mlp_bias")
ONE_ATTENTION_BIAS = {"attention_bias": ("output_bias",)}
WIDTH = ("intermediate_size",)


def _llama(**defaults: Any) -> Family:
    return Family(defaults=LLAMA | defaults, needs=WIDTH, switches=ONE_ATTENTION_BIAS, activations=GATED)


DENSE_FAMILIES: Mapping[str, Family] = {
    "llama": _llama(),
    "mistral": Family(
        defaults=LLAMA | {"max_position_embeddings": 131072, "sliding_window": 4096},
        needs=(*WIDTH, "num_key_value_heads"),
        activations=GATED,
        features=frozenset({WINDOWS}),
    ),
    "qwen": Family(
        defaults=LLAMA | {"max_position_embeddings": 8192, "attention_bias": True},
        needs=WIDTH,
        activations=GATED,
        halved_intermediate=True,
    ),
    "qwen2": Family(
        defaults=LLAMA | {"max_position_embeddings": 32768, "attention_bias": True, "use_sliding_window": False},
        needs=WIDTH,
        activations=GATED,
        features=frozenset({WINDOWS}),
    ),
    "qwen3": Family(
        defaults=LLAMA
        | {"max_position_embeddings": 32768, "head_dim": 128, "qk_norm": True, "use_sliding_window": False},
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({WINDOWS}),
    ),
    "mimo": Family(
        defaults=LLAMA | {"max_position_embeddings": 32768, "attention_bias": True, "use_sliding_window": False},
        needs=WIDTH,
        activations=GATED,
    ),
    "seed_oss": Family(
        defaults=LLAMA | {"max_position_embeddings": 524288, "head_dim": 128, "attention_bias": True},
        needs=WIDTH,
        activations=GATED,
    ),
    "internlm": _llama(attention_bias=True),
    "internlm2": Family(defaults=LLAMA, needs=WIDTH, switches={"bias": _LINEAR_BIASES}, activations=GATED),
    "internlm3": _llama(max_position_embeddings=32768, head_dim=128),
    "baichuan": _llama(max_position_embeddings=4096),
    "granite": _llama(),
    "smollm3": _llama(max_position_embeddings=32768, tie_word_embeddings=True),
    "chatglm": Family(defaults=LLAMA | {"attention_bias": True, "multi_query": True}, needs=WIDTH, activations=GATED),
    "glm": Family(
        defaults=LLAMA | {"max_position_embeddings": 131072, "head_dim": 128, "attention_bias": True},
        needs=WIDTH,
        activations=GATED,
    ),
    "glm4": Family(
        defaults=LLAMA | {"max_position_embeddings": 131072, "head_dim": 128, "attention_bias": True, "layer_norms": 4},
        needs=WIDTH,
        activations=GATED,
    ),
    "phi3": Family(
        defaults=LLAMA | {"max_position_embeddings": 4096},
        needs=WIDTH,
        activations=GATED,
        features=frozenset({WINDOWS}),
    ),
    "phi": Family(
        defaults=_GPT | {"positions": "rotary", "tie_word_embeddings": False, "parallel_block": True, "layer_norms": 1},
        activations=PLAIN,
    ),
    "gemma": Family(defaults=_GEMMA, needs=WIDTH, switches=ONE_ATTENTION_BIAS, activations=GATED_GELU),
    "gemma2": Family(
        defaults=_GEMMA
        | {
            "layer_norms": 4,
            "sliding_window": 4096,
            "full_attention_interval": 2,
            "score_cap": 50.0,
            "logit_cap": 30.0,
        },
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED_GELU,
        features=frozenset({WINDOWS}),
    ),
    "gemma3_text": Family(
        defaults=_GEMMA
        | {
            "layer_norms": 4,
            "sliding_window": 4096,
            "full_attention_interval": 6,
            "qk_norm": True,
            "max_position_embeddings": 131072,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "vocab_size": 262208,
        },
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED_GELU,
        features=frozenset({WINDOWS}),
    ),
    "cohere": Family(
        defaults=LLAMA
        | {
            "norm": "layernorm",
            "max_position_embeddings": 8192,
            "tie_word_embeddings": True,
            "parallel_block": True,
            "layer_norms": 1,
        },
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
    ),
    "cohere2": Family(
        defaults=LLAMA
        | {
            "norm": "layernorm",
            "max_position_embeddings": 8192,
            "tie_word_embeddings": True,
            "parallel_block": True,
            "layer_norms": 1,
            "sliding_window": 4096,
            "full_attention_interval": 4,
        },
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({WINDOWS}),
    ),
    "olmo": _llama(norm="layernorm"),
    "olmo2": _llama(qk_norm=True, wide_qk_norm=True),
    "olmo3": Family(
        defaults=LLAMA | {"qk_norm": True, "wide_qk_norm": True, "sliding_window": 4096, "full_attention_interval": 4},
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=GATED,
        features=frozenset({WINDOWS}),
    ),
    "stablelm": Family(defaults=LLAMA | _LAYERNORM | {"max_position_embeddings": 4096}, needs=WIDTH, activations=GATED),
    "nemotron": Family(
        defaults=LLAMA | _LAYERNORM | {"hidden_act": "relu2", "max_position_embeddings": 4096},
        needs=WIDTH,
        switches=ONE_ATTENTION_BIAS,
        activations=PLAIN,
    ),
    "starcoder2": Family(
        defaults=_GPT | {"positions": "rotary", "max_position_embeddings": 4096},
        needs=("num_key_value_heads",),
        switches={"use_bias": _LINEAR_BIASES},
        activations=PLAIN,
        features=frozenset({WINDOWS}),
    ),
    "gpt_bigcode": Family(
        defaults=_GPT | {"max_position_embeddings": 1024, "multi_query": True, "dropout": 0.1}, activations=PLAIN
    ),
    "gpt2": Family(defaults=_GPT | {"max_position_embeddings": 1024, "dropout": 0.1}, activations=PLAIN),
    "gptj": Family(
        defaults=_GPT
        | {
            "positions": "rotary",
            "tie_word_embeddings": False,
            "parallel_block": True,
            "layer_norms": 1,
            "attention_bias": False,
            "output_bias": False,
        },
        activations=PLAIN,
    ),
    "opt": Family(
        defaults=_GPT | {"hidden_act": "relu", "position_offset": 2, "dropout": 0.1},
        switches={"enable_bias": _LINEAR_BIASES},
        activations=PLAIN,
    ),
    "bloom": Family(defaults=_GPT | {"positions": "alibi", "embedding_norm": True}, activations=PLAIN),
    "mpt": Family(
        defaults=_GPT | {"positions": "alibi", "no_bias": True},
        switches={"no_bias": (*_LINEAR_BIASES, "norm_bias")},
        activations=PLAIN,
    ),
    "gpt_neox": Family(
        defaults=_GPT | {"positions": "rotary", "tie_word_embeddings": False, "parallel_block": True},
        switches=ONE_ATTENTION_BIAS,
        activations=PLAIN,
    ),
    "falcon": Family(
        defaults=_GPT | _NO_BIASES | {"positions": "rotary", "parallel_block": True, "multi_query": True},
        switches={"bias": _LINEAR_BIASES},
        activations=PLAIN,
    ),
}
