"""Read a model: a name of the catalog, a ``config.json`` in whatever family's spelling, or an inline mapping."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from sightline import catalog
from sightline.content import record, remembered
from sightline.errors import InputError, nearest, prefixed
from sightline.loading.checks import Complaints, require
from sightline.loading.models.checkpoint import Checkpoint, checkpoint_of, weights_beside
from sightline.loading.models.family import Family, families, family_of, refusal, spellings
from sightline.loading.models.figures import (
    NULL_MEANS_NONE,
    derived_family,
    figures_of,
    flat,
    settled,
    structural_problems,
    unread_keys,
)
from sightline.loading.models.layers import (
    block_problems,
    blocks_of,
    layer_kinds,
    list_problems,
    missing_blocks,
    mixer_words,
    pruned_problems,
    stated_blocks,
    weight_exceptions,
    window_of,
)
from sightline.loading.sources import files_allowed, read_json, read_text, stated_path
from sightline.quantities import listed, show
from sightline.scenario import Model
from sightline.scenario.precision import CHECKPOINT_FORMATS
from sightline.validators import declared

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "rope_theta": ("rope_theta", "rotary_emb_base", "rotary_base"),
    "norm_eps": ("norm_eps", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"),
}
"""Keys of configs for each of the constants."""
_ROPE: Final = ("rope_parameters", "rope_scaling", "attn_config")
"""Mappings in which the base of rotary positions may stand instead."""
_OF_FULL_ATTENTION: Final = "full_attention"
"""Where that is stated for each kind of layer."""


def constants_of(config: Mapping[str, Any], complaints: Complaints) -> dict[str, float]:
    """Return the constants that a config states; those that have several values, one a layer, are left out."""
    found: dict[str, float] = {}
    for name, keys in _SPELLINGS.items():
        stated = [(key, config[key]) for key in keys if config.get(key) is not None]
        stated += [*_nested(config)] if name == "rope_theta" else []
        for key, value in stated[:1]:
            if isinstance(value, bool | str) or (isinstance(value, int | float) and not value > 0):
                complaints.add(f"model.{key} is {show(value)}; allowed: a number above 0")
            elif isinstance(value, int | float):
                found[name] = float(value)
    return found


def _nested(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for outer in _ROPE:
        inside = config.get(outer)
        if not isinstance(inside, Mapping):
            continue
        whole = inside.get(_OF_FULL_ATTENTION)
        stated = whole if isinstance(whole, Mapping) else inside
        if stated.get("rope_theta") is not None:
            yield f"{outer}.rope_theta", stated["rope_theta"]


_SETTLED = ("layer_kinds", "window", "weights", "weight_exceptions", "kv_cache")
"""Fields of `Model` that are more than one figure of a config."""

_ALWAYS_NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
"""Figures that the config of every family must state."""

FIELD_KEYS: Mapping[str, str] = {
    **{name: name for name in _SPELLINGS},
    **{field: key for key, (field, _) in declared(Model).items() if field not in _SETTLED},
}
"""Our key of a config for each field of `Model` that is one figure or word."""

_WRAPPED = ("text_config", "llm_config", "language_config", "thinker_config", "llm_backbone_config")
"""Where a model of several modalities keeps the config of its language model."""

_OF_TEXT = ("text", "language", "llm")
"""What another key of it names it by."""

_OF_OTHERS = re.compile(
    r"vision|visual|image|video|audio|speech|frame|pixel|patch|projector|multi_?modal|media|mm_|vit|talker|2wav|token|im_"
    r"|downsample|tile|thumbnail|template|understand|feature|seconds|speaker|resampler|projection|merge|view|resolution"
    r"|vq_|qformer|perceiver|adapter|encoder|tower|codec"
)
"""What keys of a wrapper name that belong to other modalities."""

_OF_WRAPPER = (
    *("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype", "name", "weights", "kv_cache"),
    "checkpoint_parameters",
)
"""Keys of the wrapper that describe the language model."""

_MIXER_FEATURES = {
    "sliding": "window patterns",
    "chunked": "chunked attention",
    "linear": "linear attention",
    "sparse": "sparse attention",
    "convolution": "short convolutions",
}
"""The feature that a family needs for a mixer in ``layer_types``."""


@record
class ReadModel:
    """A model, and remarks on how its config was read."""

    model: Model
    remarks: tuple[str, ...] = ()


@remembered(entries=256, as_written=True)
def read_model(config: Mapping[str, Any], *, name: str = "", written: Mapping[str, Any] | None = None) -> ReadModel:
    """Return the model of a config; raise `InputError` with every mistake in it.

    ``written`` is the part of the config that a person wrote into the scenario: there a key nobody knows is a mistake,
    in a published file it is not.
    """
    language, own, outside = _language_model(config, written or {})
    model_type = language.get("model_type")
    if reason := refusal(config) or refusal(language):
        raise InputError(reason)
    config, complaints, assumed = flat(language), Complaints(), list[str]()
    constants = constants_of(language, complaints)
    family = family_of(model_type)
    if family is None:
        family, remark = derived_family(model_type, config)
        if family is None:
            keys = ", ".join(map(str, config))
            raise InputError([_unknown_family(model_type), f"model states {keys or 'nothing'}; needed: model_type"])
        assumed += filter(None, [remark])
    by_hand = set() if assumed else set(flat(own))
    figures = figures_of(config, family, complaints, by_hand, assumed)
    unread = unread_keys({**flat(outside or {}), **config}, family, figures.values)
    require(figures, {n: spellings().needed[n] for n in (*_ALWAYS_NEEDED, *family.needs)}, "model", complaints)
    strange = {key: value for key, value in unread.items() if key not in by_hand}
    refused = structural_problems(strange, figures.values.get("num_hidden_layers"))
    complaints.add(*(f"model.{problem}" for problem in refused))
    complaints.raise_any()
    if unread:
        assumed.append(f"ignored keys: {listed([*unread])}")
    values = settled(figures.values, config, family, assumed)
    complaints.add(*(f"model.{problem}" for problem in _inconsistencies(values, family)))
    complaints.raise_any()
    checkpoint = checkpoint_of(language, experts=values.get("num_experts", 0) > 1)
    if checkpoint.unknown and "weights" not in values:
        formats = ", ".join(CHECKPOINT_FORMATS)
        complaints.add(f"model.quantization_config has {checkpoint.unknown}; allowed, also as model.weights: {formats}")
    assumed += filter(None, [family.assumption, checkpoint.remark])
    blocks = _blocks(values, family, complaints)
    blocks["weight_exceptions"] = weight_exceptions(values, complaints)
    complaints.add(*(f"model.{problem}" for problem in missing_blocks(blocks)))
    complaints.raise_any()
    called = name or f"{model_type or 'model'}-{values['hidden_size']}x{values['num_hidden_layers']}"
    model = _model({**values, **constants}, called, blocks)
    model = _weighed(model, values, assumed, states_tie="tie_word_embeddings" in config)
    model = replace(_stored(model, values, checkpoint, family), assumed=(*model.assumed, *assumed))
    return ReadModel(model=model, remarks=_remarks(model, wrapped=outside is not None))


def _language_model(
    config: Mapping[str, Any], written: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any] | None]:
    """The config of the language model, the part of it that was written by hand, and what stands around it, if any."""
    alike = [k for k in config if "hidden_size" not in config and any(word in str(k) for word in _OF_TEXT)]
    where = next((k for k in (*_WRAPPED, *alike) if isinstance(config.get(k), Mapping)), None)
    if where is None:
        return config, written, None
    inner = {k: v for k, v in config[where].items() if v is not None or k in NULL_MEANS_NONE}
    outer = {k: config[k] for k in _OF_WRAPPER if k in config}
    if isinstance(tied := outer.get("tie_word_embeddings"), bool):
        inner["tie_word_embeddings"] = tied
    changed = {k: v for k, v in written.items() if k != where and where not in written}
    model_type = inner.get("model_type")
    if family_of(model_type) is None:
        model_type = config.get("model_type", model_type)
    by_hand = written.get(where, changed)
    language = {**outer, **inner, **changed, "model_type": model_type}
    outside = {k: v for k, v in config.items() if k not in {where, *inner, *outer} and not _OF_OTHERS.search(str(k))}
    innermost, by_hand, around = _language_model(language, by_hand)
    return innermost, by_hand, {**outside, **(around or {})}


def _unknown_family(model_type: object) -> str:
    stated = "missing" if model_type is None else show(model_type)
    return f"model.model_type is {stated}; known: {', '.join(families())}"


def _inconsistencies(values: Mapping[str, Any], family: Family) -> list[str]:
    heads, kv_heads, hidden = values["num_attention_heads"], values["num_key_value_heads"], values["hidden_size"]
    problems = []
    if kv_heads > heads or heads % kv_heads:
        problems.append(f"num_key_value_heads is {kv_heads}; allowed: a divisor of num_attention_heads {heads}")
    if values["head_dim"] % 1:
        problems.append(f"hidden_size is {hidden}; allowed: a multiple of num_attention_heads {heads}, or set head_dim")
    if values["intermediate_size"] % 1:
        problems.append(f"expansion_ratio is {values['expansion_ratio']}; allowed: what makes a whole MLP width")
    for word in dict.fromkeys(values.get("layer_types", ())):
        feature = _MIXER_FEATURES.get(mixer_words(family)[word])
        if feature is not None and feature not in family.features:
            problems.append(
                f"layer_types is {show(list(values['layer_types']))}: {word}, which this model_type does not have"
            )
    return [*problems, *list_problems(values), *block_problems(values), *pruned_problems(values)]


def _blocks(values: Mapping[str, Any], family: Family, complaints: Complaints) -> dict[str, Any]:
    if family.states_blocks:
        blocks = stated_blocks(values, complaints)
        layers, counted = values["num_hidden_layers"], sum(kind.count for kind in blocks.get("layer_kinds", ()) if kind)
        if blocks.get("layer_kinds") and counted != layers:
            complaints.add(f"model.layer_kinds counts {counted} layers; allowed: num_hidden_layers {layers} in all")
        return blocks | ({"window": values["window"]} if "window" in values else {})
    return blocks_of(values, family) | {"layer_kinds": layer_kinds(values, family), "window": window_of(values, family)}


def _model(values: Mapping[str, Any], name: str, blocks: Mapping[str, Any]) -> Model:
    figures = {field: values[key] for field, key in FIELD_KEYS.items() if key in values}
    figures |= {"activation": values["activation"], "name": values.get("name", name)}
    figures |= {width: int(figures[width]) for width in ("head_dim", "intermediate_size")}
    return Model(**figures, **blocks)


def _weighed(model: Model, values: Mapping[str, Any], assumed: list[str], *, states_tie: bool) -> Model:
    """The model with as many parameters as its weight files have, which also say whether the head has its own."""
    held = values.get("checkpoint_parameters")
    if held is None or model.prediction_layers:
        return model
    for tied in (model.tied_embeddings, True, *(() if states_tie else (False,))):
        changed = replace(model, tied_embeddings=tied)
        if abs(changed.parameters / held - 1.0) <= _SAME_SIZE:
            return changed
    described = model.parameters
    assumed.append(f"its weight files hold {held:,} parameters, its config describes {described:,}; the files count")
    return replace(model, other_parameters=max(model.other_parameters + held - described, 0))


_SAME_SIZE = 0.001
"""Relative difference up to which a config describes its weight files."""


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


def _remarks(model: Model, *, wrapped: bool) -> tuple[str, ...]:
    remarks = []
    if wrapped:
        remarks.append(f"{model.name} has parts for other modalities; only its language model is predicted")
    remarks += [f"{model.name}: {sentence}" for sentence in model.assumed]
    return tuple(remarks)


def resolve_model(value: str | Mapping[str, Any], folder: Path) -> ReadModel:
    """Return the model that ``value`` stands for; paths are relative to ``folder``.

    Raise `InputError` with every mistake.
    """
    if isinstance(value, str) and value in catalog.names("models"):
        return _of_catalog(value)
    written = value if isinstance(value, Mapping) else {}
    base = value if isinstance(value, str) else value.get("same_as")
    config, name = _published(base, folder) if base is not None else ({}, "")
    return read_model({**config, **written}, name=name, written=written)


@cache
def _of_catalog(name: str) -> ReadModel:
    return read_model(catalog.entry("models", name), name=name)


_CONFIGS = ("config.json", "params.json")
"""A config beside the weights: Hugging Face's, or Mistral's own."""


def _published(value: object, folder: Path) -> tuple[Mapping[str, Any], str]:
    """A config of the catalog or of a file, and the model's name."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"model is {show(value)}; allowed: a catalog name, a path or a mapping")
    if value in catalog.names("models"):
        return catalog.entry("models", value), value
    try:
        path = stated_path(folder, str(Path(value).expanduser()))
        if files_allowed() and path.is_dir():
            path = next((path / name for name in _CONFIGS if (path / name).is_file()), path / _CONFIGS[0])
        found = files_allowed() and path.is_file()
    except (OSError, ValueError, RuntimeError):
        found = False
    if not found and (named := _without_vendor(value)) in catalog.names("models"):
        return catalog.entry("models", named), named
    if not found:
        raise InputError(_not_found(value))
    if path.name not in _CONFIGS:
        return {**_stored_formats(path.parent), **_config(path)}, path.stem
    config = {**_stored_formats(path.parent), **weights_beside(path.parent), **_config(path)}
    return config, path.parent.resolve().name


def _without_vendor(value: str) -> str:
    """The name that is written, also behind its repository's vendor: of meta-llama/Meta-Llama-3-8B it is llama-3-8b."""
    vendor, slash, name = value.rpartition("/")
    if slash and ("/" in vendor or not vendor.strip("~.")):
        return ""
    found = catalog.name_of("models", name)
    brand = f"{vendor.partition('-')[0].lower()}-"
    return found if found in catalog.names("models") else found.lower().removeprefix(brand)


def _stored_formats(folder: Path) -> Mapping[str, Any]:
    """The formats that ModelOpt wrote into a file next to the config."""
    path = folder / "hf_quant_config.json"
    stated = _config(path).get("quantization") if path.is_file() else None
    return {"quantization_config": stated} if isinstance(stated, Mapping) else {}


def _config(path: Path) -> Mapping[str, Any]:
    text = read_text(path)
    with prefixed(f"{path}: "):
        config = read_json(text, infinities=True)
    if not isinstance(config, Mapping):
        raise InputError(f"{path} is not a model config: it holds {show(config)}, not a mapping")
    return config


def _not_found(value: str) -> str:
    """A path that is not there, or a name that the catalog lacks; repository names lose their vendor and suffix."""
    known = catalog.names("models")
    spelled = value.rsplit("/", 1)[-1].lower().removesuffix(".json").removesuffix("-hf").removesuffix("-instruct")
    meant = spelled if spelled in known else catalog.newest(spelled)
    near = f" - did you mean '{meant}'?" if meant else nearest(spelled, known)
    if not files_allowed():
        return f"model is {show(value)}; allowed: a catalog name or a mapping; the server does not read files{near}"
    if value.lower().endswith(".json"):
        return f"model is {show(value)}, but this file does not exist; paths are relative to the scenario file{near}"
    return (
        f"model is {show(value)}; allowed: a catalog name (`sightline catalog models`), the path of a "
        f"config.json or its folder, or a mapping{near}"
    )
