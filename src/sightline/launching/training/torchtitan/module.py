"""The module that adds a scenario's model to torchtitan's, read back."""

import ast
from collections.abc import Mapping
from typing import Any, Final

from sightline.launching.options import without_none

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
    own = _qwen(stated, _arguments(calls.get("experts"))) if name == "qwen3" else _llama(stated)
    return without_none({"name": flavor, **own, **model})


def _arguments(call: ast.expr | None) -> dict[str, Any]:
    """The arguments of a call that are numbers, words or truth values."""
    if not isinstance(call, ast.Call):
        return {}
    return {one.arg: one.value.value for one in call.keywords if one.arg and isinstance(one.value, ast.Constant)}


def _llama(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The width of the MLP is two thirds of four hidden sizes, times a factor, rounded up to a multiple."""
    width = int(int(8 * stated["dim"] / 3) * (stated.get("ffn_dim_multiplier") or 1))
    multiple = stated.get("multiple_of", 256)
    return {"model_type": "llama", "intermediate_size": -(-width // multiple) * multiple}


def _qwen(stated: Mapping[str, Any], experts: Mapping[str, Any]) -> dict[str, Any]:
    plain = {
        "model_type": "qwen3_moe" if experts else "qwen3",
        "intermediate_size": stated.get("hidden_dim"),
        "tie_word_embeddings": stated.get("enable_weight_tying", False),
    }
    if not experts:
        return plain
    counts = {"num_experts": experts.get("num_experts"), "num_experts_per_tok": experts.get("top_k")}
    return {**plain, **counts, "moe_intermediate_size": stated.get("moe_inter_dim")}
