"""A model's ``config.json``, in whatever family's spelling, into a `Model`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline.errors import nearest
from sightline.loading.complaints import Checked, Complaints, check, require
from sightline.loading.dotted_keys import dotted
from sightline.loading.families import ACTIVATIONS, DROPOUTS, FAMILIES, FEATURES, IGNORED, SPELLINGS, Family
from sightline.loading.fields import FRACTION, is_fraction
from sightline.loading.schema import ModelKeys
from sightline.quantities import show
from sightline.scenario import Model

_NEEDS: Mapping[str, str] = {
    "hidden_size": "the width of the residual stream",
    "num_hidden_layers": "the number of layers",
    "num_attention_heads": "the number of attention heads",
    "vocab_size": "the size of the vocabulary",
    "intermediate_size": "the width of the MLP",
    "num_key_value_heads": "the number of key/value heads",
    "max_position_embeddings": "the longest sequence trained for",
    "norm": "layernorm or rmsnorm",
    "hidden_act": "gelu, relu or swiglu",
    "positions": "learned, rotary or alibi",
}
_READ_APART = frozenset({"model_type", "layer_types", "word_embed_proj_dim", "attn_config.attn_type", "same_as"})
"""Keys that are read, but not as a figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadModel:
    """A model, and what of its config concerns the scenario rather than the architecture."""

    model: Model
    sliding_window: int | None = None
    """Tokens an attention layer looks back, when that is limited."""


def read_model(
    config: Mapping[str, Any],
    complaints: Complaints,
    *,
    key: str = "model",
    name: str = "",
    written: Mapping[str, Any] | None = None,
) -> ReadModel | None:
    """Return the model of a config, or None with the reasons noted in ``complaints``.

    ``written`` is the part of the config that a person wrote into the scenario: there a key nobody knows is a mistake,
    in a published file it is not.
    """
    model_type = config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        complaints.add(_unknown_family(key, model_type))
        return None
    before = len(complaints.problems)
    figures = _figures(_flat(config), family, key, complaints, set(_flat(written or {})))
    require(figures, {n: _NEEDS[n] for n in (*list(_NEEDS)[:4], *family.needs)}, key, complaints)
    if len(complaints.problems) > before:
        return None
    values = _settled(figures.values, config)
    complaints.add(*(f"{key}.{problem}" for problem in _inconsistencies(values, family)))
    if len(complaints.problems) > before:
        return None
    model = _model(values, name or f"{model_type}-{values['hidden_size']}x{values['num_hidden_layers']}")
    return ReadModel(model=model, sliding_window=values.get("sliding_window"))


def _unknown_family(key: str, model_type: object) -> str:
    known = ", ".join(FAMILIES)
    if model_type is None:
        return f"{dotted(key, 'model_type')} is missing; known: {known}"
    near = nearest(model_type, list(FAMILIES)) if isinstance(model_type, str) else ""
    return (
        f"{dotted(key, 'model_type')} is {show(model_type)}; this version predicts only the architectures {known}{near}"
    )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with MPT's nested ``attn_config`` laid flat; null means absent."""
    nested = config.get("attn_config")
    inner = {f"attn_config.{k}": v for k, v in nested.items()} if isinstance(nested, Mapping) else {}
    outer = {k: v for k, v in config.items() if not (k == "attn_config" and (inner or not nested))}
    return {k: v for k, v in (outer | inner).items() if v is not None}


def _figures(config: dict[str, Any], family: Family, key: str, complaints: Complaints, written: set[str]) -> Checked:
    """The config under our names with the family's defaults, held to the structure; foreign features noted."""
    named = _renamed(config, key, complaints)
    _note_foreign_features(dict(family.defaults) | config, key, complaints)
    own = {k: v for k, v in named.items() if k in ModelKeys.model_fields or (k in written and not _meant(k))}
    if "dropout" not in own and (parts := _dropouts(config, key, complaints)):
        own["dropout"] = max(parts)
    defaults = {k: v for k, v in family.defaults.items() if k in ModelKeys.model_fields and k not in own}
    governed = _governed({**defaults, **own}, family)
    return check(ModelKeys, defaults | {k: v for k, v in governed.items() if k not in own} | own, key, complaints)


def _meant(key: object) -> bool:
    """Whether a key that is no figure of `ModelKeys` is one of a config all the same."""
    return key in FEATURES or key in IGNORED or key in DROPOUTS or key in _READ_APART or str(key).startswith("_")


def _renamed(config: dict[str, Any], key: str, complaints: Complaints) -> dict[str, Any]:
    named = dict(config)
    for ours, spellings in SPELLINGS.items():
        for theirs in spellings:
            if theirs not in named:
                continue
            value = named.pop(theirs)
            if ours in named and (isinstance(value, list | dict) or named[ours] != value):
                complaints.add(
                    f"{dotted(key, theirs)} is {show(value)} but {dotted(key, ours)}, another spelling of it, "
                    f"is {show(named[ours])}; give one"
                )
            named.setdefault(ours, value)
    return named


def _governed(values: dict[str, Any], family: Family) -> dict[str, Any]:
    """What the family's switches say about the keys they govern."""
    return {
        target: (not values[switch]) if switch.startswith("no_") else values[switch]
        for switch, targets in family.switches.items()
        for target in targets
        if isinstance(values.get(switch), bool)
    }


def _dropouts(config: Mapping[str, Any], key: str, complaints: Complaints) -> list[float]:
    stated = {k: config[k] for k in DROPOUTS if k in config}
    wrong = {k: v for k, v in stated.items() if not is_fraction(v)}
    complaints.add(*(f"{dotted(key, k)} is {show(v)}; allowed: {FRACTION}" for k, v in wrong.items()))
    return [float(v) for k, v in stated.items() if k not in wrong]


def _note_foreign_features(config: Mapping[str, Any], key: str, complaints: Complaints) -> None:
    unknown = "which this version does not predict"
    for feature, (off, what) in FEATURES.items():
        value = config.get(feature)
        if value is not None and not any(value == v for v in off):
            complaints.add(f"{dotted(key, feature)} is {show(value)}: {what}, {unknown}")
    kinds = config.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(k != "full_attention" for k in kinds)):
        complaints.add(f"{dotted(key, 'layer_types')} is {show(kinds)}: layers of several kinds, {unknown}")
    embedding, width = config.get("word_embed_proj_dim"), config.get("hidden_size")
    if embedding is not None and width is not None and embedding != width:
        complaints.add(
            f"{dotted(key, 'word_embed_proj_dim')} is {show(embedding)}: an embedding of another width than hidden_size "
            f"{show(width)}, {unknown}"
        )


def _settled(values: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The figures with everything derived: kv heads, head width, MLP width, positions, window."""
    settled = dict(values)
    heads, hidden = settled["num_attention_heads"], settled["hidden_size"]
    attention = config.get("attn_config")
    attention_type = attention.get("attn_type") if isinstance(attention, Mapping) else None
    one_kv_head = settled.get("multi_query", False) or attention_type == "multiquery_attention"
    settled.setdefault("num_key_value_heads", 1 if one_kv_head else heads)
    settled.setdefault("head_dim", hidden / heads)
    settled.setdefault("intermediate_size", hidden * settled.get("expansion_ratio", 4.0))
    if "alibi" in settled:
        settled["positions"] = "alibi" if settled["alibi"] else _without_alibi(settled["positions"])
    if not settled.get("use_sliding_window", True) or config.get("sliding_window", 0) is None:
        settled.pop("sliding_window", None)
    settled["activation"] = ACTIVATIONS.get(settled["hidden_act"])
    return settled


def _without_alibi(positions: str) -> str:
    return "learned" if positions == "alibi" else positions


def _inconsistencies(values: Mapping[str, Any], family: Family) -> list[str]:
    problems = []
    heads, kv_heads, hidden = values["num_attention_heads"], values["num_key_value_heads"], values["hidden_size"]
    if kv_heads > heads or heads % kv_heads:
        problems.append(f"num_key_value_heads is {kv_heads}; allowed: a divisor of num_attention_heads {heads}")
    if values["head_dim"] % 1:
        problems.append(
            f"hidden_size is {hidden}; allowed: a multiple of num_attention_heads {heads}, or state head_dim"
        )
    if values["intermediate_size"] % 1:
        problems.append(f"expansion_ratio is {values['expansion_ratio']}; allowed: what makes a whole MLP width")
    if values["activation"] not in family.activations:
        spelled = [k for k, v in ACTIVATIONS.items() if v in family.activations]
        act = values["hidden_act"]
        problems.append(
            f"hidden_act is {show(act)}; allowed for this model_type: {', '.join(spelled)}{nearest(act, spelled)}"
        )
    return problems


def _model(values: Mapping[str, Any], name: str) -> Model:
    switches = ("attention_bias", "output_bias", "mlp_bias", "norm_bias", "embedding_norm")
    return Model(
        name=values.get("name", name),
        hidden_size=values["hidden_size"],
        layers=values["num_hidden_layers"],
        heads=values["num_attention_heads"],
        kv_heads=values["num_key_value_heads"],
        head_dim=int(values["head_dim"]),
        intermediate_size=int(values["intermediate_size"]),
        vocab_size=values["vocab_size"],
        norm=values["norm"],
        activation=values["activation"],
        positions=values["positions"],
        max_positions=values["max_position_embeddings"],
        tied_embeddings=values.get("tie_word_embeddings", False),
        position_offset=values.get("position_offset", 0),
        dropout=values.get("dropout", 0.0),
        **{s: values.get(s, False) for s in switches},
    )
