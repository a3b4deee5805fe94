"""What the layers of a model are made of, from the lists, patterns and intervals its config gives."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sightline.loading.models.family import Family, spellings
from sightline.quantities import show
from sightline.scenario import Heads, LayerKind
from sightline.scenario.blocks import Mixer, Mlp

_LISTS = ("layer_types", "hybrid_layer_pattern", "single_blocks", "mlp_layer_types", "indexer_types", "index_layers")
"""Keys with an entry for each layer; longer lists go on into the prediction layers and are cut."""

Values = Mapping[str, Any]


def list_problems(values: Values) -> Iterator[str]:
    """Yield what is wrong with the lists that name something for each layer."""
    layers = values["num_hidden_layers"]
    for key in (*_LISTS, "moe_layer_freq", "compress_ratios", "block_configs"):
        given = values.get(key)
        if isinstance(given, list | tuple) and len(given) < layers:
            yield f"{key} has {len(given)} entries; allowed: one for each of num_hidden_layers {layers}"


def layer_kinds(values: Values, family: Family) -> tuple[LayerKind, ...]:
    """Return the kinds in order of their first layer; empty when all are full attention with a dense MLP."""
    if "block_configs" in values:
        layers = list(_pruned(values))
    elif "single_blocks" in values:
        blocks = [spellings().single_blocks[word] for word in values["single_blocks"][: values["num_hidden_layers"]]]
        layers = [LayerKind(mixer=mixer, mlp=mlp, count=1) for mixer, mlp in blocks]  # type: ignore[arg-type]
    else:
        mixers, mlps = _mixers(values, family), _mlps(values)
        layers = [_layer(values, i, mixer, mlp) for i, (mixer, mlp) in enumerate(zip(mixers, mlps, strict=True))]
    counts = Counter(layers)
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


def _mixers(values: Values, family: Family) -> list[Mixer]:
    layers, window = values["num_hidden_layers"], window_of(values, family)
    base = _base_mixer(values)
    if types := values.get("layer_types"):
        mixers = [spellings().mixers[word] for word in types[:layers]]
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
    return [base if mixer in ("attention", "sparse") else mixer for mixer in mixers]  # type: ignore[misc]


def _base_mixer(values: Values) -> str:
    """The mixer of layers that a config calls full attention."""
    if "compress_ratios" in values:
        return "compressed"
    if "index_topk" in values:
        return "sparse"
    return "latent" if "kv_lora_rank" in values else "attention"


def _mlps(values: Values) -> list[Mlp]:
    layers = values["num_hidden_layers"]
    if values.get("num_experts", 0) < 2:
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
    if mixer == "sparse" and not _sparse_here(values, i):
        mixer = "attention"
    return LayerKind(
        mixer=mixer,
        mlp=mlp,
        count=1,
        attention=_heads(values, mixer),
        indexed=mixer == "sparse" and _indexed(values, i),
    )


def _sparse_here(values: Values, i: int) -> bool:
    return "index_layers" not in values or bool(values["index_layers"][i])


def _indexed(values: Values, i: int) -> bool:
    if types := values.get("indexer_types"):
        return bool(types[i] == "full")
    every, offset = values.get("index_topk_freq", 1), values.get("index_skip_topk_offset", 2)
    return bool(max(i - offset + 1, 0) % every == 0)


def _heads(values: Values, mixer: str) -> Heads | None:
    """The head shape of windowed layers (MiMo) or of full ones (Gemma 4) where it is not the model's."""
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
    return None if own == plain else own


def _pruned(values: Values) -> Iterator[LayerKind]:
    """The layers of a model pruned by architecture search (arXiv 2411.19146): each with own widths or nothing."""
    hidden, heads = values["hidden_size"], values["num_attention_heads"]
    for block in values["block_configs"][: values["num_hidden_layers"]]:
        attention, mlp = block["attention"], block["ffn"]
        own = attention.get("num_attention_heads") or heads
        kv_heads = attention.get("num_key_value_heads") or (own // (attention.get("n_heads_in_group") or own))
        width = mlp.get("intermediate_size") or _pruned_width(mlp.get("ffn_mult"), hidden)
        yield LayerKind(
            mixer="none" if attention.get("no_op") else "attention",
            mlp="none" if mlp.get("no_op") else "dense",
            count=1,
            attention=None
            if attention.get("no_op")
            else Heads(heads=own, kv_heads=kv_heads, head_dim=values["head_dim"]),
            intermediate_size=None if mlp.get("no_op") else width,
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
        yield "block_configs is not a list of mappings with attention and ffn"
        return
    for i, block in enumerate(blocks):
        for problem in _block_problems(block, values["num_attention_heads"]):
            yield f"block_configs[{i}]{problem}"
            return


def _block_problems(block: Mapping[str, Any], heads: int) -> Iterator[str]:
    attention, mlp = block["attention"], block["ffn"]
    if attention.get("replace_with_linear") or mlp.get("replace_with_linear"):
        yield " replaces a block by one matrix, which this version does not predict"
    group = attention.get("n_heads_in_group") or 1
    if not isinstance(group, int) or group < 1 or heads % group:
        yield f".attention.n_heads_in_group is {show(group)}; allowed: a divisor of num_attention_heads {heads}"
    width = mlp.get("intermediate_size") or mlp.get("ffn_mult")
    if not mlp.get("no_op") and (not isinstance(width, int | float) or not 0 < width < 10**8):
        yield f".ffn is {show(dict(mlp))}; needed: ffn_mult or intermediate_size above 0, or no_op"


def _is_block(block: object) -> bool:
    return isinstance(block, Mapping) and all(isinstance(block.get(part), Mapping) for part in ("attention", "ffn"))
