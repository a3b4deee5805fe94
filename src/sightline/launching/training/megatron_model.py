"""A model's architecture as arguments of ``pretrain_gpt.py``, and back (megatron/training/arguments.py, 2026-08)."""

import re
from collections import Counter
from typing import Any, Final

from sightline.launching.options import Options, without_none
from sightline.scenario import Model

Arguments = dict[str, Any]
"""Options in order; True for one that stands alone."""

_ACTIVATIONS: Final = {"swiglu": "--swiglu", "relu2": "--squared-relu", "gelu": ""}
_POSITIONS: Final = {"rotary": "rope", "learned": "learned_absolute"}
POSITIONS: Final = {
    "learned_absolute": "learned",
    "rope": "rotary",
    "rotary": "rotary",
    "yarn": "rotary",
    "alibi": "alibi",
}
"""Positions by the words of ``--position-embedding-type``; others are read as rotary, and named."""
_NORMS: Final = 2
"""Of a layer."""


def model_problems(model: Model) -> list[str]:
    """Return a sentence for everything of a model that ``pretrain_gpt.py`` has no argument for."""
    mixers = {kind.mixer for kind in model.kinds}
    whole = {"attention"}, {"latent"}, {"sliding"}
    named = {
        f"{model.activation} activations": model.activation not in _ACTIVATIONS,
        f"{model.positions} positions": model.positions not in _POSITIONS,
        f"layers of {' and '.join(sorted(mixers))}": mixers not in whole,
        "layers of several shapes": any(kind.attention or kind.intermediate_size for kind in model.kinds),
        "a parallel block": model.parallel_block,
        f"{model.residual_streams} residual streams": model.residual_streams > 1,
        f"{model.layer_norms} norms a layer": model.layer_norms != _NORMS,
        "soft caps": bool(model.score_cap or model.logit_cap),
        "experts that alternate with dense layers": not _dense_first(model),
        "biases of some projections": model.mlp_bias != model.output_bias,
        "norms over all heads together": model.wide_qk_norm,
        "weights beside its blocks": not model.plain_ends,
    }
    return [
        f"{model.name} has {what}, for which pretrain_gpt.py has no argument" for what, is_so in named.items() if is_so
    ]


def _dense_first(model: Model) -> bool:
    return len({kind.mlp for kind in model.kinds}) == 1 or all(k.leading for k in model.kinds if k.mlp == "dense")


def model_arguments(model: Model, sequence_length: int) -> Arguments:
    """Return the arguments of a model's architecture."""
    written: Arguments = {
        "--num-layers": model.layers,
        "--hidden-size": model.hidden_size,
        "--ffn-hidden-size": model.intermediate_size,
        "--num-attention-heads": model.heads,
        "--seq-length": sequence_length,
        "--max-position-embeddings": max(model.max_positions, sequence_length),
        "--position-embedding-type": _POSITIONS[model.positions],
        "--normalization": "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm",
        "--hidden-dropout": model.dropout,
        "--attention-dropout": model.dropout,
    }
    if model.positions == "rotary" and model.rope_theta is not None:
        written["--rotary-base"] = round(model.rope_theta)
    if model.norm_eps is not None:
        written["--norm-epsilon"] = model.norm_eps
    flags = {
        _ACTIVATIONS[model.activation]: True,
        "--disable-bias-linear": not model.mlp_bias,
        "--add-qkv-bias": model.attention_bias and not model.mlp_bias,
        "--untie-embeddings-and-output-weights": not model.tied_embeddings,
        "--qk-layernorm": model.qk_norm,
        "--attention-output-gate": model.attention_gate,
    }
    written |= {name: True for name, is_set in flags.items() if name and is_set}
    return {**written, **_attention(model), **_experts(model)}


def _attention(model: Model) -> Arguments:
    latent = model.latent
    if latent is not None:
        return {
            "--multi-latent-attention": True,
            **({"--q-lora-rank": latent.query_rank} if latent.query_rank else {}),
            "--kv-lora-rank": latent.kv_rank,
            "--qk-head-dim": latent.nope_head_dim,
            "--qk-pos-emb-head-dim": latent.rope_head_dim,
            "--v-head-dim": latent.value_head_dim,
        }
    grouped = {"--group-query-attention": True, "--num-query-groups": model.kv_heads}
    window = {"--window-size": f"{model.window - 1},0"} if model.window and model.layer_kinds else {}
    return {"--kv-channels": model.head_dim, **(grouped if model.kv_heads != model.heads else {}), **window}


def _experts(model: Model) -> Arguments:
    experts = model.experts
    if experts is None:
        return {}
    dense = sum(kind.count for kind in model.kinds if kind.mlp == "dense")
    pattern = {"--moe-layer-freq": f"([0]*{dense}+[1]*{model.layers - dense})"} if dense else {}
    shared = {"--moe-shared-expert-intermediate-size": experts.shared * experts.shared_width} if experts.shared else {}
    groups = {"--moe-router-num-groups": experts.groups, "--moe-router-group-topk": experts.chosen_groups}
    return {
        "--num-experts": experts.count,
        "--moe-router-topk": experts.per_token,
        "--moe-ffn-hidden-size": experts.width,
        "--moe-grouped-gemm": True,
        **shared,
        **pattern,
        **(groups if experts.groups > 1 else {}),
    }


NEEDED: Final = ("num-layers", "hidden-size", "num-attention-heads")


def model_of(options: Options, vocabulary: int | None) -> dict[str, Any] | None:
    """Return the model that arguments state, as a scenario's ``model``; None where they do not state one."""
    layers, hidden, heads = (options.number(name) for name in NEEDED)
    pattern = _pattern(options)
    layers = len(pattern) if pattern else layers
    if layers is None or hidden is None or heads is None:
        return None
    gated = options.has("swiglu")
    norm = "rmsnorm" if options.text("normalization", "LayerNorm") == "RMSNorm" else "layernorm"
    biased = not options.has("disable-bias-linear")
    latent = options.has("multi-latent-attention")
    grouped = options.number("num-query-groups", heads) if options.has("group-query-attention") else heads
    rotary = options.has("use-rotary-position-embeddings")
    positions = "rope" if rotary else options.text("position-embedding-type", "learned_absolute")
    plain = {
        "model_type": "transformer",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": grouped,
        "head_dim": _latent_width(options) if latent else options.number("kv-channels", hidden // heads),
        "intermediate_size": options.number("ffn-hidden-size", _mlp_width(hidden, gated=gated)),
        "vocab_size": vocabulary,
        "max_position_embeddings": options.number("max-position-embeddings"),
        "norm": norm,
        "norm_bias": norm == "layernorm",
        "hidden_act": "swiglu" if gated else "relu2" if options.has("squared-relu") else "gelu",
        "positions": POSITIONS.get(positions, "rotary"),
        "tie_word_embeddings": not options.has("untie-embeddings-and-output-weights"),
        "attention_bias": options.has("add-qkv-bias") or biased,
        "output_bias": biased,
        "mlp_bias": biased,
        "qk_norm": options.has("qk-layernorm"),
        "attention_gate": options.has("attention-output-gate"),
        "rope_theta": options.number("rotary-base", 10000) if positions in ("rope", "rotary") else None,
        "norm_eps": options.decimal("norm-epsilon"),
        "dropout": options.decimal("hidden-dropout") if options.has("hidden-dropout") else 0.1,
        "num_nextn_predict_layers": options.number("mtp-num-layers", least=0),
    }
    options.has("attention-dropout")
    return without_none({**plain, **_blocks_of(options, layers), **_hybrid(options, pattern, hidden)})


def _mlp_width(hidden: int, *, gated: bool) -> int:
    """The width of an MLP that is not stated."""
    return hidden * 8 // 3 // 64 * 64 if gated else 4 * hidden


def _latent_width(options: Options) -> int:
    return (options.number("qk-head-dim", 128) or 0) + (options.number("qk-pos-emb-head-dim", 64) or 0)


def _blocks_of(options: Options, layers: int) -> dict[str, Any]:
    """Experts, latent attention, windows and the kinds of layers."""
    blocks: dict[str, Any] = {}
    mixer = "attention"
    if options.has("multi-latent-attention"):
        mixer = "latent"
        blocks["latent"] = without_none(
            {
                "query_rank": options.number("q-lora-rank"),
                "kv_rank": options.number("kv-lora-rank", 32),
                "nope_head_dim": options.number("qk-head-dim", 128),
                "rope_head_dim": options.number("qk-pos-emb-head-dim", 64),
                "value_head_dim": options.number("v-head-dim", 128),
            }
        )
    window = re.match(r"\(?(\d+),", options.text("window-size") or "")
    if window:
        mixer, blocks["window"] = "sliding", int(window[1]) + 1
    experts = _experts_of(options)
    if experts:
        blocks["experts"] = experts
    if experts or mixer != "attention":
        blocks["layer_kinds"] = _kinds_of(options, layers, mixer, has_experts=bool(experts))
    return blocks


_HYBRID: Final = {
    "M": ("state-space", "none"),
    "*": ("attention", "none"),
    "-": ("none", "dense"),
    "E": ("none", "experts"),
}
"""Mixer and MLP by the letter of a hybrid's layer (megatron/core/ssm/mamba_hybrid_layer_allocation.py)."""


def _pattern(options: Options) -> str:
    """The letters of a hybrid's layers, without the bounds of stages and the layers that predict further tokens."""
    text = options.text("hybrid-layer-pattern") or options.text("hybrid-override-pattern")
    letters = text.partition("/")[0].replace("|", "")
    if unknown := sorted({*letters} - {*_HYBRID}):
        known = ", ".join(_HYBRID)
        options.problems.append(f"--hybrid-layer-pattern has the layer {unknown[0]}, which is not read; read: {known}")
    return "" if unknown else letters


def _hybrid(options: Options, pattern: str, hidden: int) -> dict[str, Any]:
    """Layers of one block each, and what their state spaces are."""
    if not pattern:
        return {}
    width = options.number("mamba-head-dim", 64) or 64
    space = {
        "heads": options.number("mamba-num-heads", 2 * hidden // width),
        "head_dim": width,
        "groups": options.number("mamba-num-groups", 8),
        "state": options.number("mamba-state-dim", 128),
        "conv_width": 4,
    }
    counted = Counter(_HYBRID[letter] for letter in pattern)
    kinds = [{"mixer": mixer, "mlp": mlp, "count": count} for (mixer, mlp), count in counted.items()]
    return {"layer_kinds": kinds, **({"state_space": space} if "M" in pattern else {})}


def _experts_of(options: Options) -> dict[str, Any]:
    count = options.number("num-experts", least=0)
    if not count:
        return {}
    shared = options.number("moe-shared-expert-intermediate-size", least=0)
    options.has("moe-grouped-gemm")
    return without_none(
        {
            "count": count,
            "per_token": options.number("moe-router-topk", 2),
            "width": options.number("moe-ffn-hidden-size", options.number("ffn-hidden-size")),
            "shared": 1 if shared else None,
            "shared_width": shared,
            "groups": options.number("moe-router-num-groups", least=0),
            "chosen_groups": options.number("moe-router-group-topk", least=0),
        }
    )


def _kinds_of(options: Options, layers: int, mixer: str, *, has_experts: bool) -> list[dict[str, Any]]:
    """Layers by kind: those with experts are every so many, or follow a pattern of zeros and ones."""
    with_experts = _expert_layers(options, layers) if has_experts else 0
    dense = layers - with_experts
    counts = (("dense", dense), ("experts", with_experts))
    # Of the order only leading dense layers matter, which is what patterns are for.
    return [
        {"mixer": mixer, "mlp": mlp, "count": count, **({"leading": True} if mlp == "dense" and with_experts else {})}
        for mlp, count in counts
        if count
    ]


def _expert_layers(options: Options, layers: int) -> int:
    """How many layers have experts, by an interval or a list of zeros and ones, perhaps with factors."""
    frequency = options.text("moe-layer-freq", "1") or "1"
    if frequency.isdecimal():
        return -(-layers // (options.number("moe-layer-freq", 1) or 1))
    total = 0
    for ones, factor in re.findall(r"\[([01,\s]*)\](?:\s*\*\s*(\d{1,9}))?", frequency):
        total += ones.count("1") * int(factor or 1)
    whole = re.fullmatch(r"\((.*)\)\s*\*\s*(\d{1,9})", frequency.strip())
    return min(total * (int(whole[2]) if whole else 1), layers)
