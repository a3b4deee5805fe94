"""A model's ``config.json``, in whatever family's spelling, into a `Model`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sightline.errors import InputError
from sightline.loading.input.checks import Complaints, require
from sightline.loading.models.blocks import (
    BLOCKS,
    block_problems,
    blocks_of,
    missing_blocks,
    stated_blocks,
    weight_exceptions,
)
from sightline.loading.models.checkpoints import Checkpoint, checkpoint_of
from sightline.loading.models.constants import constants_of
from sightline.loading.models.derived import derived_family
from sightline.loading.models.family import Family, families, family_of, spellings
from sightline.loading.models.figures import figures_of, flat, settled, unread_keys
from sightline.loading.models.layer_kinds import layer_kinds, list_problems, pruned_problems, window_of
from sightline.quantities import show
from sightline.scenario import Model

_SETTLED = ("layer_kinds", "window", "weights", "weight_exceptions", "kv_cache")
"""Fields of `Model` that are more than one figure of a config."""

_ALWAYS_NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
"""Figures that the config of every family must state."""

FIELD_KEYS: Mapping[str, str] = {
    **{f.name: f.name for f in fields(Model) if f.name not in (*BLOCKS, *_SETTLED)},
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "activation": "hidden_act",
    "max_positions": "max_position_embeddings",
    "tied_embeddings": "tie_word_embeddings",
}
"""Our key of a config for each field of `Model` that is one figure or word."""

_WRAPPED = ("text_config", "llm_config", "language_config")
"""Where a model of several modalities keeps the config of its language model."""

_OF_WRAPPER = ("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype", "name", "weights", "kv_cache")
"""Keys of the wrapper that describe the language model."""

_MIXER_FEATURES = {
    "sliding": "window patterns",
    "chunked": "chunked attention",
    "linear": "linear attention",
    "sparse": "sparse attention",
}
"""The feature that a family needs for a mixer in ``layer_types``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadModel:
    """A model, and remarks on how its config was read."""

    model: Model
    remarks: tuple[str, ...] = ()


def read_model(config: Mapping[str, Any], *, name: str = "", written: Mapping[str, Any] | None = None) -> ReadModel:
    """Return the model of a config; raise `InputError` with every mistake in it.

    ``written`` is the part of the config that a person wrote into the scenario: there a key nobody knows is a mistake,
    in a published file it is not.
    """
    language, own, wrapped = _language_model(config, written or {})
    model_type = language.get("model_type")
    config, complaints, assumed = flat(language), Complaints(), list[str]()
    constants = constants_of(language, complaints)
    family = family_of(model_type)
    if family is None:
        family, remark = derived_family(model_type, config)
        if family is None:
            raise InputError(_unknown_family(model_type))
        assumed.append(remark)
    by_hand = set() if assumed else set(flat(own))
    figures = figures_of(config, family, complaints, by_hand, assumed)
    if assumed and (unread := unread_keys(config)):
        assumed.append(f"its keys {', '.join(unread)} are not read")
    require(figures, {n: spellings().needed[n] for n in (*_ALWAYS_NEEDED, *family.needs)}, "model", complaints)
    complaints.raise_any()
    values = settled(figures.values, config, family, assumed)
    complaints.add(*(f"model.{problem}" for problem in _inconsistencies(values, family)))
    complaints.raise_any()
    checkpoint = checkpoint_of(language, experts=values.get("num_experts", 0) > 1)
    assumed += filter(None, [family.assumption])
    blocks = _blocks(values, family, complaints)
    blocks["weight_exceptions"] = weight_exceptions(values, complaints)
    complaints.add(*(f"model.{problem}" for problem in missing_blocks(blocks)))
    complaints.raise_any()
    called = name or f"{model_type}-{values['hidden_size']}x{values['num_hidden_layers']}"
    model = _model({**values, **constants}, called, blocks)
    model = replace(_stored(model, values, checkpoint, family), assumed=(*model.assumed, *assumed))
    return ReadModel(model=model, remarks=_remarks(model, wrapped, checkpoint))


def _language_model(
    config: Mapping[str, Any], written: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any], bool]:
    """The config of the language model, the part of it that was written by hand, and whether it stood in a wrapper."""
    where = next((k for k in _WRAPPED if isinstance(config.get(k), Mapping)), None)
    if where is None:
        return config, written, False
    inner = {k: v for k, v in config[where].items() if v is not None}
    outer = {k: config[k] for k in _OF_WRAPPER if k in config}
    changed = {k: v for k, v in written.items() if k != where and where not in written}
    model_type = inner.get("model_type")
    if family_of(model_type) is None:
        model_type = config.get("model_type", model_type)
    by_hand = written.get(where, changed)
    return {**outer, **inner, **changed, "model_type": model_type}, by_hand, True


def _unknown_family(model_type: object) -> str:
    listed = ", ".join(families())
    if model_type is None:
        return f"model.model_type is missing; known: {listed}"
    return f"model.model_type is {show(model_type)}; known: {listed}"


def _inconsistencies(values: Mapping[str, Any], family: Family) -> list[str]:
    heads, kv_heads, hidden = values["num_attention_heads"], values["num_key_value_heads"], values["hidden_size"]
    problems = []
    if kv_heads > heads or heads % kv_heads:
        problems.append(f"num_key_value_heads is {kv_heads}; allowed: a divisor of num_attention_heads {heads}")
    if values["head_dim"] % 1:
        problems.append(
            f"hidden_size is {hidden}; allowed: a multiple of num_attention_heads {heads}, or state head_dim"
        )
    if values["intermediate_size"] % 1:
        problems.append(f"expansion_ratio is {values['expansion_ratio']}; allowed: what makes a whole MLP width")
    for word in dict.fromkeys(values.get("layer_types", ())):
        feature = _MIXER_FEATURES.get(spellings().mixers[word])
        if feature is not None and feature not in family.features:
            problems.append(
                f"layer_types is {show(list(values['layer_types']))}: {word}, which this model_type has not"
            )
    return [*problems, *list_problems(values), *block_problems(values), *pruned_problems(values)]


def _blocks(values: Mapping[str, Any], family: Family, complaints: Complaints) -> dict[str, Any]:
    if family.states_blocks:
        blocks = stated_blocks(values, complaints)
        layers, counted = values["num_hidden_layers"], sum(kind.count for kind in blocks.get("layer_kinds", ()) if kind)
        if blocks.get("layer_kinds") and counted != layers:
            complaints.add(f"model.layer_kinds counts {counted} layers; allowed: num_hidden_layers {layers} in all")
        return blocks | ({"window": values["window"]} if "window" in values else {})
    return blocks_of(values, family) | {
        "layer_kinds": layer_kinds(values, family),
        "window": window_of(values, family),
    }


def _model(values: Mapping[str, Any], name: str, blocks: Mapping[str, Any]) -> Model:
    figures = {field: values[key] for field, key in FIELD_KEYS.items() if key in values}
    figures |= {"activation": values["activation"], "name": values.get("name", name)}
    figures |= {width: int(figures[width]) for width in ("head_dim", "intermediate_size")}
    return Model(**figures, **blocks)


def _stored(model: Model, values: Mapping[str, Any], checkpoint: Checkpoint, family: Family) -> Model:
    """The model with the formats of its checkpoint, or those stated."""
    exceptions: tuple[tuple[Any, str], ...]
    if "weights" in values:
        exceptions, weights = model.weight_exceptions, values["weights"]
    else:
        weights = checkpoint.weights
        exceptions = tuple(
            ("shared" if part == "dense" and family.shared_is_dense and model.experts else part, form)
            for part, form in checkpoint.exceptions
        )
    return replace(
        model, weights=weights, weight_exceptions=exceptions, kv_cache=values.get("kv_cache", checkpoint.kv_cache)
    )


def _remarks(model: Model, wrapped: bool, checkpoint: Checkpoint) -> tuple[str, ...]:
    remarks = []
    if wrapped:
        remarks.append(f"{model.name} has parts for other modalities; only its language model is predicted")
    if checkpoint.remark:
        remarks.append(f"{model.name}: {checkpoint.remark}")
    remarks += [f"{model.name}: {sentence}" for sentence in model.assumed]
    return tuple(remarks)
