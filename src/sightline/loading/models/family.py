"""Read what a model family is made of and how configs spell it, from ``families.yaml`` and ``spellings.yaml``."""

import re
from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sightline.catalog.yaml12 import parse
from sightline.content import record
from sightline.errors import InputError
from sightline.loading.checks import each
from sightline.quantities import COUNT, show
from sightline.scenario import Model
from sightline.validators import Keys, anything, flag, keys_of, list_of, quantity, whole

OWN_FAMILY = "transformer"
"""Ours: every feature stated, so that any `sightline.scenario.Model` can be written down."""


@record
class Family:
    """What the configs of one ``model_type`` leave out; keys as in `sightline.loading.models.family.MODEL`."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A key that governs others: they take its value (the opposite of it for ``no_...``) unless stated themselves."""
    needs: tuple[str, ...] = ()
    """Figures that a config must state in addition to those every family needs."""
    activations: tuple[str, ...] = ("gelu", "relu", "swiglu")
    features: frozenset[str] = frozenset()
    """What its layers may hold beyond full attention and a dense MLP, as ``spellings.yaml`` names it."""
    interleaved: str = "sliding"
    """Mixer of the layers between those of full attention where ``full_attention_interval`` counts."""
    shared_is_dense: bool = False
    """Each layer runs the dense MLP next to the experts, so it is their shared expert."""
    decay: str = "head"
    """What has a decay of its own in its linear attention, as in `sightline.scenario.LinearAttention`."""
    shortcut: bool = False
    """A layer is two of attention and MLP, and experts beside the second (LongCat)."""
    low_rank_gates: bool = False
    """Linear attention has a decay for every key channel; it and the output gate pass through a head's width (Kimi)."""
    halved_intermediate: bool = False
    """``intermediate_size`` counts both input projections."""
    sizes: Mapping[str, str] = field(default_factory=dict)
    """Figures that a config leaves out: the sum of a text's words, each a product or quotient of keys and numbers."""
    assumption: str = ""
    """What is predicted in place of what its layers do."""
    states_blocks: bool = False
    """Its mapping states every block outright, under the names of `sightline.scenario.Model`."""


class Spellings(NamedTuple):
    """How configs spell what families have; ``spellings.yaml`` says what each part is."""

    spellings: Mapping[str, tuple[str, ...]]
    nested: tuple[str, ...]
    dropouts: tuple[str, ...]
    activations: Mapping[str, str]
    features: Mapping[str, Mapping[str, Any]]
    foreign: Mapping[str, Mapping[str, Any]]
    harmless: Mapping[str, str]
    repeats: Mapping[str, str]
    derived: tuple[str, ...]
    needed: Mapping[str, str]
    numbered: Mapping[str, str]
    coded: Mapping[str, tuple[str, ...]]
    blocks: Mapping[str, Mapping[str, str]]
    mixers: Mapping[str, str]
    single_blocks: Mapping[str, tuple[str, str]]
    formats: Mapping[str, str]
    quantization: tuple[str, ...]


@cache
def families() -> tuple[str, ...]:
    """Return the ``model_type`` of every family."""
    return tuple(name for name, stated in _table("families").items() if isinstance(stated, dict) and name[0] != "_")


@cache
def other_names() -> tuple[str, ...]:
    """Return other values of ``model_type`` for the same architectures."""
    return tuple(name for name, stated in _table("families").items() if isinstance(stated, str))


def family_of(model_type: object) -> Family | None:
    """Return the family of a ``model_type``, or None."""
    if model_type in other_names():
        model_type = _table("families")[model_type]
    return _family(str(model_type)) if model_type in families() else None


def entry_of(name: str) -> Family:
    """Return an entry of ``families.yaml`` by its name, also one that is no family."""
    return _family(name)


def refusal(config: Mapping[str, Any]) -> str:
    """Return which key says that a model cannot be predicted, and what it is; empty where it may be."""
    model_type, classes = config.get("model_type"), config.get("architectures")
    named, first = class_of(config), classes[0] if isinstance(classes, list | tuple) and classes else ""
    reason = _refused("_refused").get(str(model_type).lower(), "")
    if config.get("is_encoder_decoder"):
        reason = "an encoder-decoder"
    elif config.get("mask_token_id") is not None and model_type is not None and family_of(model_type) is None:
        reason = "a diffusion language model, whose tokens replace a mask"
    if reason:
        return f"model.model_type is {show(model_type)}: {reason}, which is not predicted"
    reason = _refused("_refused").get(str(named), "") or _refused("_refused_tasks").get(
        str(first).rpartition("For")[2], ""
    )
    return f"model.architectures is {show(first)}: {reason}, which is not predicted" if reason else ""


@cache
def _refused(part: str) -> Mapping[str, str]:
    """What models are that cannot be predicted, by their ``model_type``, or by the task of their class."""
    return {name: reason for reason, names in _table("families")[part].items() for name in names.split()}


def class_of(config: Mapping[str, Any]) -> str | None:
    """Return the ``model_type`` of a class such as ``Qwen3MoeForCausalLM``."""
    classes = config.get("architectures")
    if not isinstance(classes, list | tuple) or not classes or not isinstance(classes[0], str):
        return None
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*\d*", re.sub(r"(For|LMHead|Model).*$", "", classes[0]))
    spelled = "_".join(words).lower()
    known = {name.replace("_", ""): name for name in (*families(), *_refused("_refused"))}
    return known.get(spelled.replace("_", ""), spelled or None)


@cache
def _family(name: str) -> Family:
    """An entry on top of the one that it is like: features add up, other fields and defaults take their place."""
    stated = dict(_table("families")[name])
    base = _family(stated.pop("like")) if "like" in stated else Family()
    own = {f.name: stated.pop(f.name) for f in fields(Family) if f.name in stated}
    for key in {"needs", "activations"} & own.keys():
        own[key] = _words(own[key])
    if "switches" in own:
        own["switches"] = {key: _words(governed) for key, governed in own["switches"].items()}
    own["features"] = base.features.union(own.get("features", ()))
    return replace(base, **own, defaults={**base.defaults, **stated})


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, those that stand for several written out."""
    several = _table("families")["_words"]
    return tuple(word for group in text.split() for word in several.get(group, group).split())


@cache
def spellings() -> Spellings:
    """Return how configs spell what families have."""
    stated = _table("spellings")
    words = {key: tuple(stated[key].split()) for key in ("nested", "dropouts", "derived", "quantization")}
    ours = {key: tuple(theirs.split()) for key, theirs in stated["spellings"].items()}
    reasons = {key: why for why, keys in stated["harmless"].items() for key in keys.split()}
    return Spellings(**{**stated, **words, "spellings": ours, "harmless": reasons})


@cache
def _table(name: str) -> Mapping[str, Any]:
    """A file of data next to this module."""
    table: Mapping[str, Any] = parse(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    return table


def every_or_each(value: Any) -> Any:
    """How often something comes as a whole number, or whether it comes in each layer as a list of 0 and 1."""
    return list_of(0, 1)(value) if isinstance(value, list | tuple) else whole(1)(value)


def layer_types(value: Any) -> Any:
    """A list with the attention of each layer."""
    return list_of(*spellings().mixers)(value)


def pattern(value: Any) -> Any:
    """A hybrid's pattern: a text of M, *, E and -, or a list of words."""
    return list_of(*spellings().single_blocks)(list(value) if isinstance(value, str) else value)


def layer_figures(value: Any) -> Any:
    """A mapping from the number of a layer to the widths that it has of its own."""
    known = {"head_dim", "num_attention_heads", "num_key_value_heads", "intermediate_size"}
    layers = value.items() if isinstance(value, Mapping) else ((None, None),)
    if not all(str(layer).isdecimal() and isinstance(own, Mapping) and own.keys() <= known for layer, own in layers):
        raise InputError(f"is {show(value)}; allowed: a mapping from layers to {', '.join(sorted(known))}")
    return {int(layer): {key: _HEADS(width) for key, width in own.items()} for layer, own in value.items()}


_WIDTH, _HEADS, _NUMBER = whole(1, 10**8), whole(1, 10**6), whole(0, 10**6)

DENSE: Keys = {
    **keys_of(Model),
    "expansion_ratio": quantity(COUNT),
    **each(flag, "enable_bias no_bias multi_query new_decoder_architecture alibi use_sliding_window"),
    "sliding_window": whole(0),
    "max_window_layers": _NUMBER,
}
"""The keys of every transformer."""

MODEL: Keys = {
    **DENSE,
    "layer_types": layer_types,
    "full_attention_layers": list_of(),
    "full_attention_interval": whole(1, 10**6),
    "hybrid_layer_pattern": list_of(0, 1),
    "single_blocks": pattern,
    "block_configs": anything,
    **each(
        _HEADS,
        "swa_num_attention_heads swa_num_key_value_heads swa_head_dim swa_v_head_dim global_head_dim "
        "num_global_key_value_heads",
    ),
    "attention_k_eq_v": flag,
    "attention_chunk_size": whole(0),
    **each(_NUMBER, "num_experts num_experts_per_tok"),
    **each(_WIDTH, "moe_intermediate_size dense_intermediate_size"),
    **each(_NUMBER, "n_shared_experts shared_expert_intermediate_size"),
    **each(_HEADS, "moe_latent_size n_group topk_group"),
    "first_k_dense_replace": _NUMBER,
    "moe_layer_freq": every_or_each,
    "mlp_only_layers": list_of(),
    "mlp_layer_types": list_of("dense", "sparse", "moe", "hash_moe"),
    **each(_HEADS, "kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim"),
    **each(_NUMBER, "zero_expert_num num_kv_shared_layers linear_conv_kernel_dim"),
    **each(flag, "use_double_wide_mlp full_rank_gate"),
    "per_layer_config": layer_figures,
    "checkpoint_parameters": whole(1, 10**15),
    "index_topk": whole(),
    **each(_HEADS, "index_n_heads index_head_dim"),
    "index_block_size": whole(),
    "index_layers": list_of(0, 1),
    "indexer_types": list_of("full", "shared"),
    "index_topk_freq": whole(1, 10**6),
    "index_skip_topk_offset": _NUMBER,
    **each(_HEADS, "o_lora_rank o_groups"),
    "compress_ratios": list_of(),
    **each(
        _HEADS,
        "linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim "
        "mamba_num_heads mamba_head_dim n_groups ssm_state_size conv_kernel mamba_step_rank "
        "short_conv_width short_conv_kernel short_conv_inputs recurrent_gate_blocks channel_state",
    ),
}
"""All keys of a model: also those of mixed layers, experts and other mixers."""

OWN: Keys = {
    **DENSE,
    **each(anything, "layer_kinds experts latent sparse compressed linear state_space convolution"),
    "window": whole(),
}
"""The keys of model_type ``transformer``, which states every block outright as `sightline.scenario.Model` has it."""
