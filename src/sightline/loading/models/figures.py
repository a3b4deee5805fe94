"""Read the figures of a ``config.json`` under our names: spellings, defaults of the family, and derived values."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from math import prod
from typing import Any

from sightline.errors import nearest
from sightline.loading.checks import Checked, Complaints, check, dotted, meant
from sightline.loading.models.family import MODEL, OWN, Family, class_of, entry_of, families, family_of, spellings
from sightline.loading.models.lists import PER_LAYER, derive_lists
from sightline.quantities import show
from sightline.scenario.model import GATED
from sightline.validators import FRACTION, is_fraction

ANY_FAMILY = "_any"
"""The entry of ``families.yaml`` for architectures whose name says nothing: as Llama, with what its config states."""


def derived_family(model_type: object, config: Mapping[str, Any]) -> tuple[Family | None, str]:
    """Return the family that an unknown ``model_type`` is read as, and its remark; None where nothing names one.

    A name that differs from known ones in its version alone is read as the newest of them that has what the config
    states (``qwen4_moe`` as ``qwen3_moe``); any other as Llama with the blocks that the config describes.
    """
    if model_type is None:
        if class_of(config) is None and {"dim", "n_layers"} <= config.keys():
            return entry_of("params"), ""
        model_type = class_of(config)
    if not isinstance(model_type, str):
        return None, ""
    if (named := family_of(model_type)) is not None:
        return named, f"the config states no model_type; its class is read as {model_type}"
    stated, features = set(_named(config)), _features(config)
    found = [(name, family) for name in _relatives(model_type) if (family := family_of(name)) is not None]
    able = [one for one in found if one[1].features >= features and set(one[1].needs) <= stated]
    if able:
        # Blocks that only a newer relative has, and the config does not mention, are not assumed.
        name, family = min(able, key=lambda one: len(one[1].features - features - _OF_ANY_LAYER))
        return family, f"model_type {show(model_type)} is unknown; it is read as {name}"
    near = "".join(f" - did you mean '{name}'?" for name in get_close_matches(model_type, families(), n=1, cutoff=0.8))
    return _any(config, stated), f"model_type {show(model_type)} is unknown; it is read by what its config states{near}"


_OF_ANY_LAYER = frozenset({"window patterns", "an attention gate"})
"""Features that families have in reserve without a key that says so."""


def _relatives(model_type: str) -> list[str]:
    """Known names that differ in their version only, newest first."""
    stem = _stem(model_type)
    return sorted((name for name in families() if _stem(name) == stem), key=_version, reverse=True)


def _stem(name: str) -> str:
    return re.sub(r"[\d._-]+|_?text$", "", name.lower())


def _version(name: str) -> tuple[float, ...]:
    """Its numbers; 32 of ``deepseek_v32`` is 3.2."""
    return tuple(float(f"{digits[0]}.{digits[1:] or 0}") for digits in re.findall(r"\d+", name))


def _named(config: Mapping[str, Any]) -> dict[str, Any]:
    """A flat config under our names."""
    ours = {theirs: name for name, others in spellings().spellings.items() for theirs in others}
    return {ours.get(key, key): value for key, value in config.items()}


def _features(config: Mapping[str, Any]) -> set[str]:
    """What a flat config's keys switch on."""
    features = spellings().features
    return {
        features[key]["is"]
        for key, value in config.items()
        if key in features and value is not None and value not in features[key].get("off", ())
    }


def _any(config: Mapping[str, Any], stated: set[str]) -> Family:
    """The family of no name: the norm is that of the config's epsilon, and figures of its blocks are needed."""
    family = entry_of(ANY_FAMILY)
    layernorm = not any(k.startswith("rms_norm") for k in config) and (
        any(k.startswith("layer_norm") for k in config) or _is_plain(config)
    )
    blocks = {
        "num_experts": ("num_experts_per_tok",),
        "kv_lora_rank": ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
        "compress_ratios": ("q_lora_rank", "o_lora_rank", "o_groups", "sliding_window"),
    }
    needs = [need for key, found in blocks.items() if key in stated for need in found]
    if "moe_intermediate_size" not in stated and "block_configs" not in stated:
        needs.append("intermediate_size")
    if layernorm:
        # Models with RMSNorm gate their MLPs, those with LayerNorm hardly do.
        activations = ("gelu", *family.activations)
        family = replace(family, defaults={**family.defaults, "norm": "layernorm"}, activations=activations)
    linear = "linear_num_value_heads" in stated or "layer_group_size" in config
    interleaved = "linear" if linear else family.interleaved
    return replace(family, needs=tuple(needs), interleaved=interleaved)


def _is_plain(config: Mapping[str, Any]) -> bool:
    """Whether MLPs look like GPT's: GELU or ReLU over exactly four times the width, where gates make do with less."""
    named = _named(config)
    word, width, inner = named.get("hidden_act"), named.get("hidden_size"), named.get("intermediate_size")
    plain = isinstance(word, str) and spellings().activations.get(word, _resembled(word.lower())) in ("gelu", "relu")
    return plain and isinstance(width, int) and inner in (None, 4 * width)


def _gates(family: Family) -> bool:
    """Whether MLPs of the family multiply two projections."""
    return bool(set(family.activations) & GATED)


_GATES = {"gelu": "geglu", "geglu": "geglu", "relu2": "reglu2"}
"""Our word for the gate of an activation, where that is not the default one."""


def derived_activation(word: object, family: Family) -> tuple[str, str]:
    """Return our activation for a config's word, and a remark where it is not one that the family is known with.

    What costs time is whether two projections are multiplied, which the family says; the function itself hardly does.
    """
    known = spellings().activations.get(word) if isinstance(word, str) else None
    activation = (
        known or _resembled(str(word).lower()) or spellings().activations[family.defaults.get("hidden_act", "silu")]
    )
    if activation not in family.activations:
        gates = _GATES if _gates(family) else {"swiglu": "gelu", "geglu": "gelu"}
        activation = gates.get(activation, "swiglu" if _gates(family) else family.activations[0])
    if known == activation or family.activations == (_GATES.get(str(known)),):
        return activation, ""
    unusual = "unknown" if known is None else "not what this model_type is known with"
    return activation, f"hidden_act {show(word)} is {unusual}; it is read as {activation}"


def _resembled(word: str) -> str | None:
    """The activation that an unknown word contains the name of."""
    if "relu" in word and re.search(r"2|squared?|sqr", word):
        return "relu2"
    parts = (("geglu", "geglu"), ("swiglu", "swiglu"), ("silu", "swiglu"), ("swish", "swiglu"), ("gelu", "gelu"))
    return next((ours for part, ours in (*parts, ("relu", "relu")) if part in word), None)


_READ_APART = frozenset({"model_type", "layer_types", "attn_config.attn_type", "same_as", "attention_chunk_size"})
"""Keys that are read, but not as a figure."""
NULL_MEANS_NONE = ("sliding_window", "attention_chunk_size", "attn_logit_softcapping", "final_logit_softcapping")
"""Keys whose null switches off what the family has by default."""

_NOTHING_MEANS_NONE = (
    *("n_group", "topk_group", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
)
"""Figures whose 0 or false means that there are none."""


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with the nested mappings that are read laid flat.

    Null and "auto" mean absent, null of windows and caps none.
    """
    laid: dict[str, Any] = {}
    nested = spellings().nested
    for key, value in config.items():
        if key in nested and isinstance(value, Mapping):
            laid |= {f"{key}.{k}": v for k, v in value.items() if v is not None}
        elif (value is None or value is False) and key in NULL_MEANS_NONE:
            laid[key] = 0
        elif not value and key in _NOTHING_MEANS_NONE:
            continue
        elif value is not None and value != "auto" and not (key in nested and not value):
            laid[key] = value
    if False in (laid.get("is_moe"), laid.get("enable_moe_block")):
        return {key: value for key, value in laid.items() if key not in _EXPERTS}
    return laid


_EXPERTS = ("num_experts", "num_local_experts", "num_experts_per_tok", "top_k_experts", "moe_intermediate_size")
"""Keys without meaning where a model could have experts and has none."""


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
        derive_lists(named, family, assumed)
    if "state-space layers" in family.features and _names_blocks(named.get("layer_types"), family):
        named.setdefault("single_blocks", named.pop("layer_types"))
    elif isinstance(words := named.get("single_blocks"), list) and not _names_blocks(words, family):
        named.setdefault("layer_types", named.pop("single_blocks"))
    _note_foreign_features(config, family, complaints)
    theirs = chain.from_iterable(spellings().spellings.values())
    for k in sorted(written & named.keys() - keys.keys()):
        if not _meant(k, family):
            complaints.add(f"{dotted('model', k)} is not a known key{meant(k, [*keys, *theirs])}")
    own = {k: v for k, v in named.items() if k in keys}
    if "dropout" not in own and (parts := _dropouts(config, complaints)):
        own["dropout"] = max(parts)
    defaults = {k: v for k, v in family.defaults.items() if k in keys and k not in own}
    sizes = _sizes(family, named, complete=True)
    defaults |= {k: size for k, size in sizes.items() if k in keys and k not in own}
    governed = _governed({**defaults, **named}, family)
    return check(keys, defaults | {k: v for k, v in governed.items() if k not in own} | own, "model", complaints)


_NAMES = re.compile(r"[a-z]\w*")
"""The keys in the text of a size."""


def _names_blocks(words: object, family: Family) -> bool:
    """Whether ``layer_types`` names the one block that a layer of a hybrid holds."""
    if not isinstance(words, list | tuple):
        return False
    known = spellings()
    return "single_blocks" in family.needs or any(
        isinstance(w, str) and w in known.single_blocks and w not in known.mixers for w in words
    )


def unread_keys(config: Mapping[str, Any], family: Family, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a flat config nothing here reads and no list says to matter not, given the figures read of it."""
    s, keys = spellings(), OWN if family.states_blocks else MODEL
    numbers = (f"{key}{end}" for key in s.numbered for end in ("", "_period", "_offset"))
    lists = (f"{key}_per_layer" for key in PER_LAYER)
    sizes = chain.from_iterable(_NAMES.findall(text) for text in family.sizes.values())
    read = {*keys, *chain.from_iterable(s.spellings.values()), *numbers, *lists, *sizes, *s.coded, *s.derived}
    repeated = {key for key, text in s.repeats.items() if config.get(key) == size_of(text, values)}
    return {
        key: value
        for key, value in config.items()
        if key not in read and key not in repeated and not key.endswith("_token_id") and not _meant(key, family)
    }


_STRUCTURE = re.compile(r"layer|head|expert|window|quant")
"""What a key names that decides shapes or formats."""


def structural_problems(unread: Mapping[str, Any], layers: object) -> Iterator[str]:
    """Yield which keys that nothing reads give numbers, lists or mappings to what decides shapes or formats."""
    theirs = chain.from_iterable(spellings().spellings.values())
    known = [*MODEL, *theirs]
    for key, value in unread.items():
        listed = isinstance(value, list | tuple) and len(value) == layers and not isinstance(value[0], float)
        inside = [f"{key}.{inner}" for inner in value] if isinstance(value, Mapping) else []
        names = [name for name in (key, *inside) if _STRUCTURE.search(name)]
        if value and not isinstance(value, bool | float | str) and (names or listed):
            what = "it has an entry for each layer" if not names else f"{names[0]} names what decides shapes or formats"
            yield f"{key} is {show(value)}: {what}, and nothing reads it; null leaves it out{nearest(key, known)}"


def _meant(key: str, family: Family) -> bool:
    """Whether a key that is no figure of the structure is one of a config all the same."""
    s = spellings()
    known = (s.features, s.foreign, s.harmless, s.dropouts, _READ_APART, family.switches)
    return any(key in group for group in known) or key.rpartition(".")[2] in s.harmless


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
        has = feature not in s.foreign and what in family.features
        if value is not None and not has and value not in stated.get("off", ()):
            who = "this version does not predict" if feature in s.foreign else "this model_type does not have"
            complaints.add(f"model.{feature} is {show(value)}: {what}, which {who}")


def settled(values: Mapping[str, Any], config: Mapping[str, Any], family: Family, assumed: list[str]) -> dict[str, Any]:
    """Return the figures with everything derived; ``config`` is the flat config they were read from."""
    figures = dict(values)
    figures |= _heads(figures, config) | _widths(figures, family)
    figures["num_hidden_layers"] *= 3 if family.shortcut else 1
    if "alibi" in figures:
        others = "learned" if figures["positions"] == "alibi" else figures["positions"]
        figures["positions"] = "alibi" if figures["alibi"] else others
    if family.low_rank_gates and {"linear_num_value_heads", "linear_value_head_dim"} <= figures.keys():
        figures.setdefault("linear_num_key_heads", figures["linear_num_value_heads"])
        figures.setdefault("linear_key_head_dim", figures["linear_value_head_dim"])
    figures["activation"], remark = derived_activation(figures["hidden_act"], family)
    assumed += [remark] if remark else []
    return _sizes(family, {**config, **figures}, complete=False) | figures


def _sizes(family: Family, stated: Mapping[str, Any], *, complete: bool) -> dict[str, int]:
    """The family's sizes, ``complete``: those whose keys are all known; else a key that is not counts 0."""
    known = {key: value for key, value in {**family.defaults, **stated}.items() if isinstance(value, int | float)}
    sizes: dict[str, int] = {}
    for key, text in family.sizes.items():
        if not complete or known.keys() >= {*_NAMES.findall(text)}:
            sizes[key] = size_of(text, known)
            known.setdefault(key, sizes[key])
    return sizes


def size_of(text: str, known: Mapping[str, Any]) -> int:
    """Return the sum of a text's words, each a product or quotient of keys and numbers; what is not known counts 0."""

    def product(word: str) -> int:
        return int(prod(known.get(key, 0) if key[0].isalpha() else int(key) for key in word.split("*")))

    def size(word: str) -> int:
        over, *under = (product(part) for part in word.split("/"))
        return over // max(prod(under), 1)

    return sum(size(word) for word in text.split())


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
    if figures.get("num_experts") == 0 and figures.get("shared_expert_intermediate_size"):
        dense = figures["shared_expert_intermediate_size"]  # Granite 4 keeps its shared expert alone.
    if dense is None:
        dense = figures["hidden_size"] * figures.get("expansion_ratio", 4.0)
    if family.halved_intermediate:
        dense //= 2
    return {"intermediate_size": dense, **({"moe_intermediate_size": expert} if expert is not None else {})}
