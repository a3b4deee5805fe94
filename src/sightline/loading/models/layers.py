"""Read what the layers of a model are made of: blocks from a config's figures; their order from lists and patterns."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

from sightline.errors import nearest
from sightline.loading.checks import Complaints, check, require
from sightline.loading.models.family import Family, spellings
from sightline.quantities import show
from sightline.scenario import (
    CompressedAttention,
    Experts,
    GatedConvolution,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    SparseAttention,
    StateSpace,
)
from sightline.scenario.blocks import MIXER_WORDS, Mixer, Mlp
from sightline.validators import Keys, Kind, anything, choice, flag, whole

BLOCKS: Mapping[str, type] = {
    "experts": Experts,
    "latent": LatentAttention,
    "sparse": SparseAttention,
    "compressed": CompressedAttention,
    "linear": LinearAttention,
    "state_space": StateSpace,
    "convolution": GatedConvolution,
}
"""Fields of `sightline.scenario.Model` that are blocks."""


def blocks_of(values: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the blocks that the figures of a config describe, by the field of `Model` they belong to."""
    found: dict[str, Any] = {}
    for name, keys in spellings().blocks.items():
        if next(iter(keys.values())) in values:
            figures = {field: values[key] for field, key in keys.items() if key in values}
            found[name] = BLOCKS[name](**figures)
    if "linear" in found:
        rank = found["linear"].value_dim if family.low_rank_gates else None
        found["linear"] = replace(
            found["linear"], gate_rank=rank, decay=family.decay, full_rank_gate=values.get("full_rank_gate", False)
        )
    if "compress_ratios" in values:
        found["compressed"] = CompressedAttention(
            query_rank=values["q_lora_rank"], output_rank=values["o_lora_rank"], output_groups=values["o_groups"]
        )
    if values.get("num_experts", 0) > 1 - family.shared_is_dense:
        found["experts"] = _experts(values, family)
    return found


_ROUTING = {"num_experts": 1, "num_experts_per_tok": 1, "zero_expert_num": 0}
"""Experts, those of a token, and those that hand it on, with what they are where a config leaves them out."""


def _experts(values: Mapping[str, Any], family: Family) -> Experts:
    width = values.get("moe_intermediate_size", values["intermediate_size"])
    shared_width = values.get("shared_expert_intermediate_size")
    if family.shared_is_dense:
        shared_width = values["intermediate_size"]
    shared = values.get("n_shared_experts", 1 if shared_width else 0)
    count, chosen, unchanged = (values.get(key, least) for key, least in _ROUTING.items())
    return Experts(
        count=count,
        # Of those that a token is routed to some hand it on unchanged (LongCat).
        per_token=max(chosen * count // (count + unchanged), 1),
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
        complaints.add(f"model.weight_exceptions is {show(given)}; allowed: a mapping from part to format")
        return ()
    for part in given:
        if part not in parts:
            near = nearest(part, parts) if isinstance(part, str) else ""
            complaints.add(f"model.weight_exceptions.{part} is not a known part; allowed: {', '.join(parts)}{near}")
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
    if count > 1 and not 1 <= (chosen or 0) <= count + values.get("zero_expert_num", 0):
        stated = "missing" if chosen is None else chosen
        yield f"num_experts_per_tok is {stated}; allowed: 1 to num_experts {count}"
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
            yield f"{block} is missing; needed: the dimensions of the {what} layers{_SPELLED.get(block, '')}"
    experts = blocks.get("experts")
    if experts is not None and not 1 <= experts.per_token <= experts.count:
        yield f"experts.per_token is {experts.per_token}; allowed: 1 to count {experts.count}"


_LISTS = ("layer_types", "hybrid_layer_pattern", "single_blocks", "mlp_layer_types", "indexer_types", "index_layers")
"""Keys with an entry for each layer; longer lists go on into the prediction layers and are cut."""

_ORDERS = (*_LISTS[:3], "full_attention_layers", "full_attention_interval", "block_configs")
"""Keys that say which layers are of which kind."""
_MIXED = {
    "linear_num_value_heads": "linear attention",
    "ssm_state_size": "state spaces",
    "short_conv_kernel": "convolutions",
}
"""What some layers are where a key is stated."""
RECURRENT = ("linear", "state-space", "side-by-side", "convolution")
"""Mixers with a state."""
_LISTED = ("compressed", "sparse")
"""Mixers whose layers may differ in lists of their own."""

Values = Mapping[str, Any]


def list_problems(values: Values) -> Iterator[str]:
    """Yield what is wrong with the lists that name something for each layer."""
    layers = values["num_hidden_layers"]
    for key, what in _MIXED.items():
        if key in values and not any(values.get(order) for order in _ORDERS):
            yield f"layer_types is missing; needed with {key}: which layers are {what}"
    for key in (*_LISTS, "moe_layer_freq", "compress_ratios", "block_configs"):
        given = values.get(key)
        if isinstance(given, list | tuple) and len(given) < layers:
            yield f"{key} has {len(given)} entries; allowed: one for each of num_hidden_layers {layers}"


def layer_kinds(values: Values, family: Family) -> tuple[LayerKind, ...]:
    """Return the kinds in order of their first layer; empty when all are full attention with a dense MLP."""
    if family.shortcut:
        times = values["num_hidden_layers"] // 3
        pair = LayerKind(mixer="latent", mlp="dense", count=2 * times)
        return (pair, LayerKind(mixer="none", mlp="experts", count=times))
    if "block_configs" in values:
        layers = list(_pruned(values))
    elif "single_blocks" in values:
        blocks = [spellings().single_blocks[word] for word in values["single_blocks"][: values["num_hidden_layers"]]]
        layers = [LayerKind(mixer=mixer, mlp=mlp, count=1) for mixer, mlp in blocks]  # type: ignore[arg-type]
    else:
        mixers, mlps = _mixers(values, family), _mlps(values, family)
        pairs = list(zip(mixers, mlps, strict=True))
        own = {"per_layer_config", "num_kv_shared_layers"} & values.keys()
        alike = {pair: _layer(values, 0, *pair) for pair in dict.fromkeys(pairs) if not own and pair[0] not in _LISTED}
        layers = [alike.get(pair) or _layer(values, i, *pair) for i, pair in enumerate(pairs)]
    first = {id(kind): kind for kind in layers}
    counts = Counter[LayerKind]()
    for place, count in Counter(map(id, layers)).items():
        counts[first[place]] += count
    kinds = tuple(
        replace(kind, count=count, leading=count < len(layers) and layers[:count] == [kind] * count)
        for kind, count in counts.items()
    )
    return () if kinds == (LayerKind(count=values["num_hidden_layers"]),) else kinds


def window_of(values: Values, family: Family) -> int | None:
    """Tokens that windowed layers look back, or that a chunk holds; None where nothing is limited."""
    if family.interleaved == "chunked":
        return values.get("attention_chunk_size") or None
    if not values.get("use_sliding_window", True):
        return None
    window = values.get("sliding_window")
    return window if window and window < values["max_position_embeddings"] else None


def mixer_words(family: Family) -> Mapping[str, str]:
    """Return the mixer for each word of ``layer_types``; full attention has no indexer where some layers have one."""
    words = dict(spellings().mixers)
    if family.interleaved in RECURRENT:
        words["linear_attention"] = family.interleaved
    if "sparse attention" in family.features:
        words["full_attention"] = "unindexed"
    return words


def _mixers(values: Values, family: Family) -> list[Mixer]:
    layers, window = values["num_hidden_layers"], window_of(values, family)
    base = _base_mixer(values)
    if types := values.get("layer_types"):
        words = mixer_words(family)
        mixers = [words[word] for word in types[:layers]]
    elif pattern := values.get("hybrid_layer_pattern"):
        mixers = ["sliding" if word else "attention" for word in pattern[:layers]]
    elif full := values.get("full_attention_layers"):
        # Kimi counts layers from 1.
        mixers = ["attention" if i + 1 in full else family.interleaved for i in range(layers)]
    elif every := values.get("full_attention_interval"):
        mixers = ["attention" if (i + 1) % every == 0 else family.interleaved for i in range(layers)]
    elif window and base == "attention":
        # Qwen lets the first layers see everything.
        full = values.get("max_window_layers", 0) if "use_sliding_window" in values else 0
        mixers = ["attention" if i < full else "sliding" for i in range(layers)]
    else:
        mixers = [base] * layers
    if window is None:
        mixers = ["attention" if mixer in ("sliding", "chunked") else mixer for mixer in mixers]
    plain = "latent" if "kv_lora_rank" in values else "attention"
    named = {"attention": base, "sparse": base, "unindexed": plain}
    return [named.get(mixer, mixer) for mixer in mixers]  # type: ignore[misc]


def _base_mixer(values: Values) -> str:
    """The mixer of layers that a config calls full attention."""
    if "compress_ratios" in values:
        return "compressed"
    if "index_topk" in values:
        return "sparse"
    return "latent" if "kv_lora_rank" in values else "attention"


def _mlps(values: Values, family: Family) -> list[Mlp]:
    layers = values["num_hidden_layers"]
    if values.get("num_experts", 0) < 2 - family.shared_is_dense:
        return ["dense"] * layers
    if types := values.get("mlp_layer_types"):
        return ["dense" if word == "dense" else "experts" for word in types[:layers]]
    often, first = values.get("moe_layer_freq", 1), values.get("first_k_dense_replace", 0)
    if isinstance(often, tuple):
        return ["experts" if word else "dense" for word in often[:layers]]
    plain = values.get("mlp_only_layers", ())
    # Where the first layers are dense the count starts at 0 (DeepSeek), else at 1 (Qwen, Llama 4).
    offset = 0 if "first_k_dense_replace" in values else 1
    return [
        "experts" if i >= first and (i + offset) % often == 0 and i not in plain else "dense" for i in range(layers)
    ]


def _layer(values: Values, i: int, mixer: Mixer, mlp: Mlp) -> LayerKind:
    """Layer ``i`` with its own head shape, folding and indexer."""
    if mixer == "compressed":
        ratio = values["compress_ratios"][i] or 1
        # Lightly folded layers select among the folds, heavily folded ones attend to all of them.
        return LayerKind(mixer=mixer, mlp=mlp, count=1, compression=ratio, indexed=1 < ratio < 64)
    if mixer == "sparse" and "index_layers" in values and not values["index_layers"][i]:
        mixer = "attention"
    width = values.get("per_layer_config", {}).get(i, {}).get("intermediate_size")
    shares = i >= values["num_hidden_layers"] - values.get("num_kv_shared_layers", 0)
    if shares and values.get("use_double_wide_mlp"):
        width = 2 * values["intermediate_size"]
    return LayerKind(
        mixer=mixer,
        mlp=mlp,
        count=1,
        attention=_heads(values, mixer, i, reused=shares),
        intermediate_size=width,
        indexed=mixer == "sparse" and _indexed(values, i),
    )


def _indexed(values: Values, i: int) -> bool:
    if types := values.get("indexer_types"):
        return bool(types[i] == "full")
    every, offset = values.get("index_topk_freq", 1), values.get("index_skip_topk_offset", 2)
    return bool(max(i - offset + 1, 0) % every == 0)


_OWN_HEADS = {"head_dim": "head_dim", "num_attention_heads": "heads", "num_key_value_heads": "kv_heads"}
"""Fields of a head shape that a layer may have of its own, by key."""


def _heads(values: Values, mixer: str, i: int, *, reused: bool) -> Heads | None:
    """The head shape of layer ``i``, windowed (MiMo) or full (Gemma 4), where it is not the model's."""
    plain = own = Heads(
        heads=values["num_attention_heads"],
        kv_heads=values["num_key_value_heads"],
        head_dim=values["head_dim"],
        value_head_dim=values.get("value_head_dim"),
    )
    if mixer == "sliding" and "swa_num_key_value_heads" in values:
        own = Heads(
            heads=values.get("swa_num_attention_heads", plain.heads),
            kv_heads=values["swa_num_key_value_heads"],
            head_dim=values.get("swa_head_dim", plain.head_dim),
            value_head_dim=values.get("swa_v_head_dim", plain.value_head_dim),
        )
    elif mixer == "attention" and "global_head_dim" in values:
        shared = values.get("attention_k_eq_v", False)
        kv_heads = values.get("num_global_key_value_heads", plain.kv_heads) if shared else plain.kv_heads
        own = Heads(heads=plain.heads, kv_heads=kv_heads, head_dim=values["global_head_dim"], values_are_keys=shared)
    stated = values.get("per_layer_config", {}).get(i, {})
    own = replace(own, reused=reused, **{field: stated[key] for key, field in _OWN_HEADS.items() if key in stated})
    return None if own == plain or mixer in RECURRENT else own


def _pruned(values: Values) -> Iterator[LayerKind]:
    """The layers of a model pruned by architecture search (arXiv 2411.19146): each with own widths or nothing."""
    hidden, heads = values["hidden_size"], values["num_attention_heads"]
    for block in values["block_configs"][: values["num_hidden_layers"]]:
        attention, mlp = block["attention"], block["ffn"]
        without_mixer, without_mlp = attention.get("no_op"), mlp.get("no_op")
        own = attention.get("num_attention_heads") or heads
        kv_heads = attention.get("num_key_value_heads") or (own // (attention.get("n_heads_in_group") or own))
        width = mlp.get("intermediate_size") or _pruned_width(mlp.get("ffn_mult"), hidden)
        shape = Heads(heads=own, kv_heads=kv_heads, head_dim=values["head_dim"])
        yield LayerKind(
            mixer="none" if without_mixer else "attention",
            mlp="none" if without_mlp else "dense",
            count=1,
            attention=None if without_mixer else shape,
            intermediate_size=None if without_mlp else width,
        )


def _pruned_width(multiple: float | None, hidden: int) -> int:
    """Width of a pruned MLP: 2/3 of ``multiple`` hidden sizes, up to the next 256."""
    return -(-int(2 * (multiple or 0) * hidden / 3) // 256) * 256


def pruned_problems(values: Values) -> Iterator[str]:
    """Yield what in ``block_configs`` cannot be read."""
    blocks = values.get("block_configs")
    if blocks is None:
        return
    if not isinstance(blocks, list) or not all(_is_block(block) for block in blocks):
        yield "block_configs must be a list of mappings with attention and ffn"
        return
    for i, block in enumerate(blocks):
        for problem in _block_problems(block, values["num_attention_heads"]):
            yield f"block_configs[{i}]{problem}"
            return


def _block_problems(block: Mapping[str, Any], heads: int) -> Iterator[str]:
    attention, mlp = block["attention"], block["ffn"]
    if attention.get("replace_with_linear") or mlp.get("replace_with_linear"):
        yield " replaces a block with a single matrix, which this version cannot predict"
    group = attention.get("n_heads_in_group") or 1
    if not isinstance(group, int) or group < 1 or heads % group:
        yield f".attention.n_heads_in_group is {show(group)}; allowed: a divisor of num_attention_heads {heads}"
    width = mlp.get("intermediate_size") or mlp.get("ffn_mult")
    if not mlp.get("no_op") and (not isinstance(width, int | float) or not 0 < width < 10**8):
        yield f".ffn is {show(dict(mlp))}; needed: ffn_mult or intermediate_size above 0, or no_op"


def _is_block(block: object) -> bool:
    return isinstance(block, Mapping) and all(isinstance(block.get(part), Mapping) for part in ("attention", "ffn"))
