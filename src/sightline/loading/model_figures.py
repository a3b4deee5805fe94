"""Figures of a model that follow from others: head widths, MLP widths, key/value heads, positions, activation."""

from collections.abc import Mapping
from typing import Any

from sightline.loading.family import Family
from sightline.loading.spellings import ACTIVATIONS


def settled(values: Mapping[str, Any], config: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the figures with everything derived; ``config`` is the flat config they were read from."""
    figures = dict(values)
    figures |= _heads(figures, config) | _widths(figures, family)
    if "alibi" in figures:
        figures["positions"] = "alibi" if figures["alibi"] else _without_alibi(figures["positions"])
    if family.low_rank_gates and {"linear_num_value_heads", "linear_value_head_dim"} <= figures.keys():
        figures.setdefault("linear_num_key_heads", figures["linear_num_value_heads"])
        figures.setdefault("linear_key_head_dim", figures["linear_value_head_dim"])
    activation = ACTIVATIONS.get(figures["hidden_act"])
    figures["activation"] = "geglu" if family.activations == ("geglu",) and activation == "gelu" else activation
    return figures


def _heads(figures: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    heads, hidden = figures["num_attention_heads"], figures["hidden_size"]
    kv_heads = figures.get("num_key_value_heads", 1 if _is_multi_query(figures, config) else heads)
    found: dict[str, Any] = {"head_dim": figures.get("head_dim", hidden / heads if hidden % heads else hidden // heads)}
    if figures.get("new_decoder_architecture") is False and figures.get("multi_query"):
        kv_heads = 1  # Falcon 7B states as many as query heads beside multi_query, which is what counts.
        found["layer_norms"] = 1
    if {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"} <= figures.keys():
        found["head_dim"] = figures["qk_nope_head_dim"] + figures["qk_rope_head_dim"]
    elif "v_head_dim" in figures:
        found["value_head_dim"] = figures["v_head_dim"]
    return found | {"num_key_value_heads": kv_heads}


def _is_multi_query(figures: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    return bool(figures.get("multi_query")) or config.get("attn_config.attn_type") == "multiquery_attention"


def _widths(figures: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Widths of the dense MLP and of an expert, which is the one stated width where there is but one."""
    stated = figures.get("intermediate_size")
    expert = figures.get("moe_intermediate_size", stated)
    dense = figures.get("dense_intermediate_size", stated if stated is not None else expert)
    if dense is None:
        dense = figures["hidden_size"] * figures.get("expansion_ratio", 4.0)
    if family.halved_intermediate:
        dense //= 2
    return {"intermediate_size": dense, **({"moe_intermediate_size": expert} if expert is not None else {})}


def _without_alibi(positions: str) -> str:
    return "learned" if positions == "alibi" else positions
