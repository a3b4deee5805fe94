"""The blocks of a model - experts, latent, sparse and linear attention, state spaces - from a config's figures."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

from sightline.errors import nearest
from sightline.kinds import Kind, anything, choice, flag, whole
from sightline.loading.input.checks import Complaints, Keys, check, require
from sightline.loading.models.family import Family, spellings
from sightline.quantities import show
from sightline.scenario import (
    CompressedAttention,
    Experts,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    SparseAttention,
    StateSpace,
)
from sightline.scenario.blocks import MIXER_WORDS

BLOCKS: Mapping[str, type] = {
    "experts": Experts,
    "latent": LatentAttention,
    "sparse": SparseAttention,
    "compressed": CompressedAttention,
    "linear": LinearAttention,
    "state_space": StateSpace,
}
"""Fields of `sightline.scenario.Model` that are blocks."""


def blocks_of(values: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the blocks that the figures of a config describe, by the field of `Model` they belong to."""
    found: dict[str, Any] = {}
    for name, keys in spellings().blocks.items():
        if next(iter(keys.values())) in values:
            figures = {field: values[key] for field, key in keys.items() if key in values}
            found[name] = BLOCKS[name](**figures)
    if "linear" in found and family.low_rank_gates:
        found["linear"] = replace(found["linear"], gate_rank=found["linear"].value_dim)
    if "compress_ratios" in values:
        found["compressed"] = CompressedAttention(
            query_rank=values["q_lora_rank"], output_rank=values["o_lora_rank"], output_groups=values["o_groups"]
        )
    if values.get("num_experts", 0) > 1:
        found["experts"] = _experts(values, family)
    return found


def _experts(values: Mapping[str, Any], family: Family) -> Experts:
    width = values.get("moe_intermediate_size", values["intermediate_size"])
    shared_width = values.get("shared_expert_intermediate_size")
    if family.shared_is_dense:
        shared_width = values["intermediate_size"]
    shared = values.get("n_shared_experts", 1 if shared_width else 0)
    return Experts(
        count=values["num_experts"],
        per_token=values["num_experts_per_tok"],
        width=width,
        shared=shared,
        shared_width=(shared_width or width) if shared else 0,
        latent_width=values.get("moe_latent_size"),
        groups=values.get("n_group", 1),
        chosen_groups=values.get("topk_group", 1),
    )


def stated_blocks(values: Mapping[str, Any], complaints: Complaints) -> dict[str, Any]:
    """Return the blocks and layer kinds that a mapping of model_type ``transformer`` states outright."""
    blocks: dict[str, Any] = {
        name: _built(kind, values[name], f"model.{name}", complaints) for name, kind in BLOCKS.items() if name in values
    }
    listed = values.get("layer_kinds")
    if listed is not None and not isinstance(listed, list | tuple):
        complaints.add(f"model.layer_kinds is {show(listed)}; allowed: a list of mappings with mixer, mlp and count")
    elif listed:
        kinds = [_built(LayerKind, item, f"model.layer_kinds.{i}", complaints) for i, item in enumerate(listed)]
        blocks["layer_kinds"] = tuple(kinds)
    return blocks


def weight_exceptions(values: Mapping[str, Any], complaints: Complaints) -> tuple[tuple[str, str], ...]:
    """Return the parts whose weights a mapping states to be in another format than the rest."""
    given = values.get("weight_exceptions", {})
    parts = ("attention", "dense", "experts", "shared", "head")
    if not isinstance(given, Mapping):
        complaints.add(f"model.weight_exceptions is {show(given)}; allowed: a mapping of part to format")
        return ()
    for part in given:
        if part not in parts:
            near = nearest(part, parts) if isinstance(part, str) else ""
            complaints.add(f"model.weight_exceptions.{part} is no part; allowed: {', '.join(parts)}{near}")
    return tuple((str(part), str(name)) for part, name in given.items())


def _built(cls: type, mapping: object, key: str, complaints: Complaints) -> Any:
    """A dataclass of blocks from a mapping with its fields as keys, or None with the reasons noted."""
    before = len(complaints.problems)
    checked = check(_keys_of(cls), mapping, key, complaints)
    needed = {f.name: "a whole number of 1 or more" for f in fields(cls) if f.default is MISSING}
    if isinstance(mapping, Mapping):
        require(checked, needed, key, complaints)
    values = dict(checked.values)
    if "attention" in values:
        values["attention"] = _built(Heads, values["attention"], f"{key}.attention", complaints)
    if len(complaints.problems) > before:
        return None
    return cls(**values)


@cache
def _keys_of(cls: type) -> Keys:
    """The structure of a mapping with a dataclass's fields as keys."""
    return {name: _kind_of(hint) for name, hint in get_type_hints(cls).items()}


def _kind_of(hint: Any) -> Kind:
    if hint is bool:
        return flag
    words = [value for value in get_args(hint) if isinstance(value, str)]
    if words:
        return choice(*words)
    return whole(0) if hint is int or int in get_args(hint) else anything


def block_problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what makes no sense about the experts and heads of a config."""
    count, chosen = values.get("num_experts", 0), values.get("num_experts_per_tok")
    if count > 1 and chosen is not None and not 1 <= chosen <= count:
        yield f"num_experts_per_tok is {chosen}; allowed: from 1 to num_experts {count}"
    for feature, figures in _figures_needed().items():
        if feature in values:
            yield from (f"{f} is missing; needed with {feature}" for f in figures if f not in values)
    keys, heads = values.get("linear_num_key_heads"), values.get("linear_num_value_heads")
    if keys and heads and heads % keys:
        yield f"linear_num_key_heads is {keys}; allowed: a divisor of linear_num_value_heads {heads}"


@cache
def _figures_needed() -> dict[str, list[str]]:
    """The keys that a block is not described without, by the key whose presence says that the model has it."""
    needed = {}
    for block, keys in spellings().blocks.items():
        without_default = [f.name for f in fields(BLOCKS[block]) if f.default is MISSING]
        needed[next(iter(keys.values()))] = [keys[name] for name in without_default if name in keys]
    return needed


_SPELLED = {"experts": " (num_experts, num_experts_per_tok)", "state_space": " (mamba_num_heads, mamba_head_dim, ...)"}
"""The keys that configs have for what layers need."""


def missing_blocks(blocks: Mapping[str, Any]) -> Iterator[str]:
    """Yield which blocks the layers have but nothing describes, and experts that cannot be chosen."""
    kinds = [kind for kind in blocks.get("layer_kinds", ()) if kind is not None]
    needed = {MIXER_WORDS[kind.mixer].needs: kind.mixer for kind in kinds if MIXER_WORDS[kind.mixer].needs}
    if any(kind.mlp == "experts" for kind in kinds):
        needed["experts"] = "expert"
    for block, what in needed.items():
        if blocks.get(block) is None:
            yield f"{block} is missing; needed: the figures of the {what} layers{_SPELLED.get(block, '')}"
    experts = blocks.get("experts")
    if experts is not None and not 1 <= experts.per_token <= experts.count:
        yield f"experts.per_token is {experts.per_token}; allowed: from 1 to count {experts.count}"
