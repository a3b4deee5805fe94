"""Models of torchtitan: those it knows by name, and a module that adds a scenario's own to them.

Classes and their arguments are those of torchtitan 0.2 (torchtitan/models/*/model/args.py).
"""

import ast
import json
from collections.abc import Mapping
from typing import Any, Final

from sightline.launching.options import without_none
from sightline.scenario import Model

FLAVORS: Final[Mapping[str, tuple[str, str]]] = {
    "llama-3-8b": ("llama3", "8B"),
    "llama-3.1-8b": ("llama3", "8B"),
    "llama-3-70b": ("llama3", "70B"),
    "llama-3.1-70b": ("llama3", "70B"),
    "llama-3.1-405b": ("llama3", "405B"),
    "qwen3-0.6b": ("qwen3", "0.6B"),
    "qwen3-1.7b": ("qwen3", "1.7B"),
    "qwen3-4b": ("qwen3", "4B"),
    "qwen3-8b": ("qwen3", "8B"),
    "qwen3-14b": ("qwen3", "14B"),
    "qwen3-32b": ("qwen3", "32B"),
    "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
    "qwen3-235b-a22b": ("qwen3", "235B-A22B"),
    "deepseek-v2-lite": ("deepseek_v3", "16B"),
    "deepseek-v2": ("deepseek_v3", "236B"),
    "deepseek-v3": ("deepseek_v3", "671B"),
    "gpt-oss-20b": ("gpt_oss", "20b"),
    "gpt-oss-120b": ("gpt_oss", "120b"),
}
"""Name and flavor of torchtitan by our name."""
NAMES: Final[Mapping[tuple[str, str], str]] = {found: name for name, found in FLAVORS.items()}
"""The same the other way round: of several releases of one shape the last that is listed."""
MODULE: Final = "model_shape"
"""Name of the module that adds a flavor."""
UNPIPELINED: Final = ("qwen3", "gpt_oss")
"""Models that torchtitan has no pipeline stages of."""


def named(model: Model) -> tuple[str, str] | None:
    """Return torchtitan's name and flavor of a model, its own or one that is added; None where no class fits."""
    if model.name in FLAVORS:
        return FLAVORS[model.name]
    family = _family(model)
    return None if family is None else (family, model.name)


def _family(model: Model) -> str | None:
    """The class whose layers a model has."""
    plain = model.plain_ends and not (model.parallel_block or model.score_cap or model.logit_cap)
    rare = model.attention_gate or model.attention_bias or model.mlp_bias or model.wide_qk_norm
    usual = plain and model.residual_streams == 1 and not rare
    likely = (model.norm, model.positions, model.layer_norms) == ("rmsnorm", "rotary", 2) and usual
    if not likely or model.activation != "swiglu":
        return None
    kinds = {(kind.mixer, kind.mlp) for kind in model.kinds}
    shaped = any(kind.attention or kind.intermediate_size for kind in model.kinds)
    if shaped or kinds not in ({("attention", "dense")}, {("attention", "experts")}):
        return None
    if model.qk_norm:
        return None if model.experts and model.experts.shared else "qwen3"
    own_width = model.head_dim * model.heads == model.hidden_size
    return "llama3" if own_width and model.experts is None and not model.tied_embeddings else None


def module_text(model: Model) -> str | None:
    """Return the module that adds a model to torchtitan's; None for one that it knows."""
    found = named(model)
    if found is None or model.name in FLAVORS:
        return None
    family, flavor = found
    stated = json.dumps(flavor)
    if family == "llama3":
        head = "from torchtitan.models.llama3 import TransformerModelArgs, llama3_args"
        body = f"llama3_args[{stated}] = TransformerModelArgs(\n{_keywords(_llama(model))})"
    else:
        head = (
            "from torchtitan.models.moe import MoEArgs\nfrom torchtitan.models.qwen3 import Qwen3ModelArgs, qwen3_args"
        )
        body = f"qwen3_args[{stated}] = Qwen3ModelArgs(\n{_keywords(_qwen(model))})"
        if model.experts is not None:
            experts = _keywords(
                {"num_experts": model.experts.count, "num_shared_experts": 0, "top_k": model.experts.per_token}
            )
            body = f"experts = MoEArgs(\n{experts})\n" + body.removesuffix(")") + "    moe_args=experts,\n)"
    return f'"""Adds {model.name} to the models of torchtitan."""\n\n{head}\n\n{body}\n'


def _keywords(values: Mapping[str, Any]) -> str:
    return "".join(f"    {name}={value!r},\n" for name, value in values.items())


def _llama(model: Model) -> dict[str, Any]:
    width = model.intermediate_size
    return {
        "dim": model.hidden_size,
        "n_layers": model.layers,
        "n_heads": model.heads,
        "n_kv_heads": model.kv_heads,
        "vocab_size": model.vocab_size,
        # Two thirds of four hidden sizes, times the factor, rounded up to a multiple: the model's own width.
        "ffn_dim_multiplier": width / int(8 * model.hidden_size / 3),
        "multiple_of": width,
        "max_seq_len": model.max_positions,
        **_constants(model),
    }


def _constants(model: Model) -> dict[str, Any]:
    return without_none({"rope_theta": model.rope_theta, "norm_eps": model.norm_eps})


def _qwen(model: Model) -> dict[str, Any]:
    experts = model.experts
    return {
        "dim": model.hidden_size,
        "n_layers": model.layers,
        "n_heads": model.heads,
        "n_kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "hidden_dim": model.intermediate_size,
        "vocab_size": model.vocab_size,
        "max_seq_len": model.max_positions,
        "qk_norm": True,
        "enable_weight_tying": model.tied_embeddings,
        **_constants(model),
        **({} if experts is None else {"moe_enabled": True, "moe_inter_dim": experts.width}),
    }


_SHARED: Final[Mapping[str, str]] = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
    "max_seq_len": "max_position_embeddings",
    "rope_theta": "rope_theta",
    "norm_eps": "rms_norm_eps",
}
"""Keys of a ``config.json`` by arguments of torchtitan's classes."""


def model_in(text: str, name: str, flavor: str) -> dict[str, Any] | None:
    """Return the model that a module adds under a name and flavor, as a ``config.json`` has it; None where it has none.

    Only arguments that are written out are read.
    """
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return None
    calls = {ast.unparse(one.targets[0]): one.value for one in statements if isinstance(one, ast.Assign)}
    stated = _arguments(calls.get(f"{name}_args[{flavor!r}]"))
    if "dim" not in stated or "n_layers" not in stated:
        return None
    model = {ours: stated.get(theirs) for theirs, ours in _SHARED.items()}
    own = _stated_qwen(stated, _arguments(calls.get("experts"))) if name == "qwen3" else _stated_llama(stated)
    return without_none({"name": flavor, **own, **model})


def _arguments(call: ast.expr | None) -> dict[str, Any]:
    """The arguments of a call that are numbers, words or truth values."""
    if not isinstance(call, ast.Call):
        return {}
    return {one.arg: one.value.value for one in call.keywords if one.arg and isinstance(one.value, ast.Constant)}


def _stated_llama(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The width of the MLP is two thirds of four hidden sizes, times a factor, rounded up to a multiple."""
    width = int(int(8 * stated["dim"] / 3) * (stated.get("ffn_dim_multiplier") or 1))
    multiple = stated.get("multiple_of", 256)
    return {"model_type": "llama", "intermediate_size": -(-width // multiple) * multiple}


def _stated_qwen(stated: Mapping[str, Any], experts: Mapping[str, Any]) -> dict[str, Any]:
    plain = {
        "model_type": "qwen3_moe" if experts else "qwen3",
        "intermediate_size": stated.get("hidden_dim"),
        "tie_word_embeddings": stated.get("enable_weight_tying", False),
    }
    if not experts:
        return plain
    counts = {"num_experts": experts.get("num_experts"), "num_experts_per_tok": experts.get("top_k")}
    return {**plain, **counts, "moe_intermediate_size": stated.get("moe_inter_dim")}
