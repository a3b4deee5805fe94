"""The figures of a ``config.json`` under our names: spellings, defaults of the family, and what follows from others."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from sightline.kinds import FRACTION, is_fraction
from sightline.loading.input.checks import Checked, Complaints, check
from sightline.loading.input.dotted_keys import dotted
from sightline.loading.input.other_words import meant
from sightline.loading.models.derived import derive_lists, derived_activation
from sightline.loading.models.family import Family, spellings
from sightline.loading.models.keys import MODEL, OWN
from sightline.quantities import show

_EMBEDDING_WIDTHS = frozenset({"word_embed_proj_dim", "embedding_size"})
"""Keys of an embedding's own width."""
_READ_APART = frozenset(
    {"model_type", "layer_types", *_EMBEDDING_WIDTHS, "attn_config.attn_type", "same_as", "attention_chunk_size"}
)
"""Keys that are read, but not as a figure."""
_NULL_MEANS_NONE = ("sliding_window", "attention_chunk_size", "attn_logit_softcapping", "final_logit_softcapping")
"""Keys whose null switches off what the family has by default."""


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with the nested mappings that are read laid flat.

    Null means absent, of windows and caps none.
    """
    laid: dict[str, Any] = {}
    nested = spellings().nested
    for key, value in config.items():
        if key in nested and isinstance(value, Mapping):
            laid |= {f"{key}.{k}": v for k, v in value.items() if v is not None}
        elif value is None and key in _NULL_MEANS_NONE:
            laid[key] = 0
        elif value is not None and not (key in nested and not value):
            laid[key] = value
    return laid


def figures_of(
    config: dict[str, Any], family: Family, complaints: Complaints, written: set[str], assumed: list[str]
) -> Checked:
    """Return a flat config under our names with the family's defaults, held to the structure; mistakes noted.

    ``written`` are the keys a person wrote: there a key nobody knows is a mistake. What is derived is remarked in
    ``assumed``.
    """
    keys = OWN if family.states_blocks else MODEL
    named = _renamed(config, complaints, written, assumed)
    if not family.states_blocks:
        derive_lists(named, assumed)
    if "state-space layers" in family.features and _names_blocks(named.get("layer_types"), family):
        named.setdefault("single_blocks", named.pop("layer_types"))
    _note_foreign_features(config, family, complaints)
    theirs = chain.from_iterable(spellings().spellings.values())
    for k in sorted(written & named.keys() - keys.keys()):
        if not _meant(k, family):
            complaints.add(f"{dotted('model', k)} is not a known key{meant(k, [*keys, *theirs])}")
    own = {k: v for k, v in named.items() if k in keys}
    if "dropout" not in own and (parts := _dropouts(config, complaints)):
        own["dropout"] = max(parts)
    defaults = {k: v for k, v in family.defaults.items() if k in keys and k not in own}
    governed = _governed({**defaults, **named}, family)
    return check(keys, defaults | {k: v for k, v in governed.items() if k not in own} | own, "model", complaints)


def _names_blocks(words: object, family: Family) -> bool:
    """Whether ``layer_types`` names the one block that a layer of a hybrid holds."""
    if not isinstance(words, list | tuple):
        return False
    return "single_blocks" in family.needs or any(isinstance(w, str) and w not in spellings().mixers for w in words)


def unread_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of a flat config with numbers or lists of them that nothing here reads."""
    theirs = set(chain.from_iterable(spellings().spellings.values()))
    return [
        key
        for key, value in config.items()
        if isinstance(value, int | list) and not isinstance(value, bool) and key not in MODEL and key not in theirs
        and not key.endswith(("_id", "_per_layer")) and not _meant(key, Family()) and key not in _OF_WIDTHS
    ]  # fmt: skip


_OF_WIDTHS = ("ffn_multipliers", "ffn_dim_divisor")


def _meant(key: str, family: Family) -> bool:
    """Whether a key that is no figure of the structure is one of a config all the same."""
    s = spellings()
    known = (s.features, s.foreign, s.ignored, s.dropouts, _READ_APART, family.switches)
    return any(key in group for group in known) or key.startswith(("_", *s.nested))


def _renamed(config: dict[str, Any], complaints: Complaints, written: set[str], assumed: list[str]) -> dict[str, Any]:
    """The config under our names; of two spellings of one figure what a person wrote counts, then the usual one."""
    named, by_hand = dict(config), {ours: ours in written for ours in config}
    for ours, others in spellings().spellings.items():
        for theirs in others:
            if theirs not in named:
                continue
            value, both = named.pop(theirs), by_hand.get(ours, False) and theirs in written
            if ours not in named or (theirs in written and not both):
                named[ours], by_hand[ours] = value, theirs in written
            elif named[ours] != value and both:
                complaints.add(
                    f"{dotted('model', theirs)} is {show(value)} but model.{ours}, another spelling of it, "
                    f"is {show(named[ours])}; give one"
                )
            elif named[ours] != value and not by_hand.get(ours, False):
                other = f"{theirs}, another spelling of it, is {show(value)}"
                assumed.append(f"{ours} is {show(named[ours])} but {other}; {ours} counts")
    return named


def _governed(values: dict[str, Any], family: Family) -> dict[str, Any]:
    """What the family's switches say about the keys they govern."""
    return {
        target: (not values[switch]) if switch.startswith("no_") else values[switch]
        for switch, targets in family.switches.items()
        for target in targets
        if isinstance(values.get(switch), bool)
    }


def _dropouts(config: Mapping[str, Any], complaints: Complaints) -> list[float]:
    stated = {k: config[k] for k in spellings().dropouts if k in config}
    wrong = {k: v for k, v in stated.items() if not is_fraction(v)}
    complaints.add(*(f"{dotted('model', k)} is {show(v)}; allowed: {FRACTION}" for k, v in wrong.items()))
    return [float(v) for k, v in stated.items() if k not in wrong]


def _note_foreign_features(config: Mapping[str, Any], family: Family, complaints: Complaints) -> None:
    s = spellings()
    for feature, stated in {**s.features, **s.foreign}.items():
        value, what = config.get(feature), stated["is"]
        if value is not None and what not in family.features and value not in stated.get("off", ()):
            unknown = "which this version does not predict" if feature in s.foreign else "which this model_type has not"
            complaints.add(f"model.{feature} is {show(value)}: {what}, {unknown}")
    width = config.get("hidden_size")
    for key in _EMBEDDING_WIDTHS & config.keys() if width is not None else ():
        if config[key] in (None, width):
            continue
        complaints.add(
            f"model.{key} is {show(config[key])}: an embedding of another width than hidden_size "
            f"{show(width)}, which this version does not predict"
        )


def settled(values: Mapping[str, Any], config: Mapping[str, Any], family: Family, assumed: list[str]) -> dict[str, Any]:
    """Return the figures with everything derived; ``config`` is the flat config they were read from."""
    figures = dict(values)
    figures |= _heads(figures, config) | _widths(figures, family)
    if "alibi" in figures:
        figures["positions"] = "alibi" if figures["alibi"] else _without_alibi(figures["positions"])
    if family.low_rank_gates and {"linear_num_value_heads", "linear_value_head_dim"} <= figures.keys():
        figures.setdefault("linear_num_key_heads", figures["linear_num_value_heads"])
        figures.setdefault("linear_key_head_dim", figures["linear_value_head_dim"])
    figures["activation"], remark = derived_activation(figures["hidden_act"], family)
    assumed += [remark] if remark else []
    return figures


def _heads(figures: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    heads, hidden = figures["num_attention_heads"], figures["hidden_size"]
    kv_heads = figures.get("num_key_value_heads", 1 if _is_multi_query(figures, config) else heads)
    found: dict[str, Any] = {"head_dim": figures.get("head_dim", hidden / heads if hidden % heads else hidden // heads)}
    if figures.get("new_decoder_architecture") is False and figures.get("multi_query"):
        kv_heads = 1  # Falcon 7B states 71 key/value heads and multi_query; multi_query counts.
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
