"""What a config does not state in a form that is known, derived from what it does state, each with a remark.

A model is refused only where a shape is missing. Anything else - the family's name, an activation, the word for a
layer, a number given per layer - is read as the nearest that is known, and `sightline.scenario.Model.assumed` says so.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from sightline.loading.models.family import Family, entry_of, families, family_of, spellings
from sightline.quantities import show

ANY_FAMILY = "_any"
"""The entry of ``families.yaml`` for architectures whose name says nothing: as Llama, with what its config states."""

_COUNTED = (
    *("layer_types", "single_blocks", "block_configs", "mlp_layer_types", "hybrid_layer_pattern"),
    *("compress_ratios", "index_layers"),
)
"""Keys with an entry for each layer, by which a missing number of layers is counted."""

_PER_LAYER = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
"""Widths that a layer may have of its own."""
_UNIFORM = ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "head_dim")
"""Figures that are the same in all layers of any model here."""


def derived_family(model_type: object, config: Mapping[str, Any]) -> tuple[Family | None, str]:
    """Return the family that an unknown ``model_type`` is read as, and its remark; None where nothing names one.

    A name that differs from known ones in its version alone is read as the newest of them that has what the config
    states (``qwen4_moe`` as ``qwen3_moe``); any other as Llama with the blocks that the config describes.
    """
    if model_type is None:
        model_type = _of_architecture(config)
    if not isinstance(model_type, str):
        return None, ""
    if (named := family_of(model_type)) is not None:
        return named, f"the config states no model_type; its class is read as {model_type}"
    stated, features = _stated(config), _features(config)
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


def _of_architecture(config: Mapping[str, Any]) -> str | None:
    """The ``model_type`` of a class such as ``Qwen3MoeForCausalLM``."""
    classes = config.get("architectures")
    if not isinstance(classes, list | tuple) or not classes or not isinstance(classes[0], str):
        return None
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*\d*", re.sub(r"(For|LMHead).*$", "", classes[0]))
    spelled = "_".join(words).lower()
    known = {name.replace("_", ""): name for name in families()}
    return known.get(spelled.replace("_", ""), spelled or None)


def _relatives(model_type: str) -> list[str]:
    """Known names that differ in their version only, newest first."""
    stem = _stem(model_type)
    return sorted((name for name in families() if _stem(name) == stem), key=_version, reverse=True)


def _stem(name: str) -> str:
    return re.sub(r"[\d._-]+|_?text$", "", name.lower())


def _version(name: str) -> tuple[float, ...]:
    """Its numbers; 32 of ``deepseek_v32`` is 3.2."""
    return tuple(float(f"{digits[0]}.{digits[1:] or 0}") for digits in re.findall(r"\d+", name))


def _stated(config: Mapping[str, Any]) -> set[str]:
    """Our names of the keys that a flat config states."""
    ours = {theirs: name for name, others in spellings().spellings.items() for theirs in others}
    return {ours.get(key, key) for key in config}


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
    interleaved = "linear" if "linear_num_value_heads" in stated else family.interleaved
    return replace(family, needs=tuple(needs), interleaved=interleaved)


def _is_plain(config: Mapping[str, Any]) -> bool:
    """Whether MLPs look like GPT's: GELU or ReLU over exactly four times the width, where gates make do with less."""
    ours = {theirs: name for name, others in spellings().spellings.items() for theirs in others}
    named = {ours.get(key, key): value for key, value in config.items()}
    word, width, inner = named.get("hidden_act"), named.get("hidden_size"), named.get("intermediate_size")
    plain = isinstance(word, str) and spellings().activations.get(word, _resembled(word.lower())) in ("gelu", "relu")
    return plain and isinstance(width, int) and inner in (None, 4 * width)


def derive_lists(named: dict[str, Any], remarks: list[str]) -> None:
    """Make a config's lists what the other figures are read from: words of layers, a number per layer, their count."""
    _derive_words(named, remarks)
    _derive_pattern(named, remarks)
    _derive_uniform(named, remarks)
    _derive_widths(named, remarks)
    if named.get("num_hidden_layers") is None:
        counted = next(((k, len(named[k])) for k in _COUNTED if isinstance(named.get(k), list | tuple | str)), None)
        if counted is not None:
            named["num_hidden_layers"] = counted[1]
            remarks.append(f"num_hidden_layers is not stated; {counted[0]} has {counted[1]} entries")


_WORDS = (("slid", "sliding_attention"), ("local", "sliding_attention"), ("window", "sliding_attention"),
    ("chunk", "chunked_attention"), ("linear", "linear_attention"), ("delta", "linear_attention"),
    ("sparse", "indexed_attention"), ("full", "full_attention"), ("global", "full_attention"),
    ("attention", "full_attention"))  # fmt: skip
"""What a part of an unknown word for a layer says."""


def _derive_words(named: dict[str, Any], remarks: list[str]) -> None:
    """Read unknown words of ``layer_types`` as those they resemble."""
    words = named.get("layer_types")
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return
    known = {*spellings().mixers, *spellings().single_blocks}
    for word in dict.fromkeys(word for word in words if word not in known):
        read = next((ours for part, ours in _WORDS if part in word.lower()), None)
        if read is not None:
            words = [read if entry == word else entry for entry in words]
            remarks.append(f"layer_types names {show(word)}, which is unknown; it is read as {read}")
    named["layer_types"] = words


def _derive_pattern(named: dict[str, Any], remarks: list[str]) -> None:
    """Write a pattern of letters out: L for windowed layers and G for full ones (EXAONE's ``LLLG``)."""
    pattern, layers = named.get("full_attention_interval"), named.get("num_hidden_layers")
    if not isinstance(pattern, str) or not pattern or set(pattern.upper()) - {"L", "G"}:
        return
    del named["full_attention_interval"]
    if isinstance(layers, int) and "layer_types" not in named:
        words = ["full_attention" if letter == "G" else "sliding_attention" for letter in pattern.upper()]
        named["layer_types"] = (words * (layers // len(words) + 1))[:layers]
    remarks.append(f"the pattern {show(pattern)} is read as L for sliding and G for full attention")


def _derive_uniform(named: dict[str, Any], remarks: list[str]) -> None:
    """Take the one value of a list where every layer has the same, or the most frequent one."""
    for key in _UNIFORM:
        values = named.get(key)
        if isinstance(values, list | tuple) and values and all(_is_width(value) for value in values):
            (most, _), *others = Counter(values).most_common()
            named[key] = most
            if others:
                remarks.append(f"{key} differs from layer to layer; all are read as {most}, the most frequent")


def _derive_widths(named: dict[str, Any], remarks: list[str]) -> None:
    """Describe layers of their own widths, where heads or MLPs are lists, block by block."""
    for key in _PER_LAYER:
        if isinstance(listed := named.pop(f"{key}_per_layer", None), list | tuple):
            named[key] = listed
    if (widths := _multiplied(named)) is not None:
        named.setdefault("intermediate_size", widths)
    lists = {key: list(named[key]) for key in _PER_LAYER if _are_widths(named.get(key))}
    if not lists or len({len(values) for values in lists.values()}) > 1 or "block_configs" in named:
        return
    (count,) = {len(values) for values in lists.values()}
    named |= {key: max(values) for key, values in lists.items()}
    if (layers := named.setdefault("num_hidden_layers", count)) != count:
        remarks.append(
            f"{', '.join(lists)} list {count} layers, num_hidden_layers is {show(layers)}; all are read as the largest"
        )
        return
    if all(len(set(values)) == 1 for values in lists.values()):
        return
    named["block_configs"] = list(_blocks(named, lists, count))
    remarks.append(f"{', '.join(lists)} are given per layer; each layer has its own")


def _blocks(named: Mapping[str, Any], lists: Mapping[str, Sequence[int]], count: int) -> Iterator[Mapping[str, Any]]:
    """The widths of each layer as ``block_configs`` state them."""
    for i in range(count):
        heads = lists["num_attention_heads"][i] if "num_attention_heads" in lists else named.get("num_attention_heads")
        kv_heads = (
            lists["num_key_value_heads"][i] if "num_key_value_heads" in lists else named.get("num_key_value_heads")
        )
        width = lists["intermediate_size"][i] if "intermediate_size" in lists else named.get("intermediate_size")
        attention = {"num_attention_heads": heads, "num_key_value_heads": kv_heads or heads}
        yield {"attention": attention, "ffn": {"intermediate_size": width}}


def _multiplied(named: Mapping[str, Any]) -> list[int] | None:
    """Widths of MLPs given as multiples of the hidden size, to the nearest multiple of a divisor (OpenELM)."""
    multiples, hidden = named.get("ffn_multipliers"), named.get("hidden_size")
    divisor = named.get("ffn_dim_divisor", 256)
    if not isinstance(multiples, list) or not isinstance(hidden, int) or not isinstance(divisor, int) or divisor < 1:
        return None
    if len(multiples) != named.get("num_hidden_layers") or not all(isinstance(m, int | float) for m in multiples):
        return None
    nearest = [max(divisor, int(m * hidden + divisor / 2) // divisor * divisor) for m in multiples]
    return [width + divisor * (width < 0.9 * m * hidden) for width, m in zip(nearest, multiples, strict=True)]


def _are_widths(values: object) -> bool:
    return isinstance(values, list | tuple) and bool(values) and all(_is_width(value) for value in values)


def _is_width(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _gates(family: Family) -> bool:
    """Whether MLPs of the family multiply two projections."""
    return bool(set(family.activations) & {"swiglu", "geglu"})


def derived_activation(word: object, family: Family) -> tuple[str, str]:
    """Return our activation for a config's word, and a remark where it is not one that the family is known with.

    What costs time is whether two projections are multiplied, which the family says; the function itself hardly does.
    """
    known = spellings().activations.get(word) if isinstance(word, str) else None
    activation = (
        known or _resembled(str(word).lower()) or spellings().activations[family.defaults.get("hidden_act", "silu")]
    )
    if activation not in family.activations:
        gates = {"gelu": "geglu", "geglu": "geglu"} if _gates(family) else {"swiglu": "gelu", "geglu": "gelu"}
        activation = gates.get(activation, "swiglu" if _gates(family) else family.activations[0])
    if known == activation or (known == "gelu" and family.activations == ("geglu",)):
        return "geglu" if family.activations == ("geglu",) else activation, ""
    unusual = "unknown" if known is None else "not what this model_type is known with"
    return activation, f"hidden_act {show(word)} is {unusual}; it is read as {activation}"


def _resembled(word: str) -> str | None:
    """The activation that an unknown word contains the name of."""
    if "relu" in word and re.search(r"2|squared?|sqr", word):
        return "relu2"
    parts = (("geglu", "geglu"), ("swiglu", "swiglu"), ("silu", "swiglu"), ("swish", "swiglu"), ("gelu", "gelu"))
    return next((ours for part, ours in (*parts, ("relu", "relu")) if part in word), None)
