"""Derive what a config's lists, numbers and patterns of layers say, under the keys that everything else reads."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from sightline.loading.models.family import Family, spellings
from sightline.quantities import show

_COUNTED = (
    *("layer_types", "single_blocks", "block_configs", "mlp_layer_types", "hybrid_layer_pattern"),
    *("compress_ratios", "index_layers"),
)
"""Keys with an entry for each layer, by which a missing number of layers is counted."""

PER_LAYER = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
"""Widths that a layer may have of its own."""
_UNIFORM = ("num_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "head_dim")
"""Figures that are the same in all layers of any model here."""


def derive_lists(named: dict[str, Any], family: Family, remarks: list[str]) -> None:
    """Make a config's lists what the other figures are read from: words of layers, a number per layer, their count."""
    _derive_codes(named, family)
    _derive_numbers(named)
    _derive_words(named, remarks)
    _derive_pattern(named, remarks)
    _derive_uniform(named, remarks)
    _derive_widths(named, remarks)
    if named.get("num_hidden_layers") is None:
        counted = next(((k, len(named[k])) for k in _COUNTED if isinstance(named.get(k), list | tuple | str)), None)
        if counted is not None:
            named["num_hidden_layers"] = counted[1]
            remarks.append(f"num_hidden_layers is not stated; {counted[0]} has {counted[1]} entries")


_ADJUSTED = ("block_auto_adjust_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier")
"""Whether two thirds of a width are meant, and what they count in and by (LFM2)."""


def _derive_codes(named: dict[str, Any], family: Family) -> None:
    """Write codes of layers, a pattern that repeats, and rates by word out as lists; adjust a width as LFM2 does."""
    layers, rates = named.get("num_hidden_layers"), named.pop("compress_rates", None)
    cycle = named.pop("block_types", family.defaults.get("block_types"))
    for key, words in spellings().coded.items():
        if _are_numbers(codes := named.pop(key, None)) and {*codes} <= {*range(len(words))}:
            named.setdefault("layer_types", [words[code] for code in codes])
    if isinstance(layers, int) and isinstance(cycle, list):
        # RecurrentGemma alone has such a pattern, and its attention is local.
        cycle = ["sliding_attention" if word == "attention" else word for word in cycle]
        named.setdefault("layer_types", (cycle * layers)[:layers])
    if isinstance(rates, Mapping) and isinstance(named.get("layer_types"), list):
        named.setdefault("compress_ratios", [rates.get(str(word), 0) for word in named["layer_types"]])
    known: Mapping[str, Any] = {**family.defaults, **named}
    adjusts, step, times = (known.get(key) for key in _ADJUSTED)
    width = known.get("intermediate_size") if adjusts and _is_width(step) else None
    if _is_width(width) and _is_width(step) and isinstance(times, int | float):
        named["intermediate_size"] = -(-int(times * (2 * width // 3)) // step) * step


def _derive_numbers(named: dict[str, Any]) -> None:
    """Write numbers and periods of layers out as lists."""
    layers = named.get("num_hidden_layers")
    if not isinstance(layers, int):
        return
    for key, target in spellings().numbered.items():
        chosen, period, offset = (named.pop(f"{key}{end}", None) for end in ("", "_period", "_offset"))
        if isinstance(chosen, str):
            chosen = [int(number) for number in re.findall(r"\d+", chosen)]
        elif _is_width(period) and isinstance(offset, int):
            chosen = range(offset, layers, period)
        elif isinstance(chosen, list) and any(isinstance(entry, bool) for entry in chosen):
            chosen = [i for i, entry in enumerate(chosen) if entry]
        if _are_numbers(chosen):
            full = target == "full_attention_layers"
            sparse = ["sparse" if i in chosen else "dense" for i in range(layers)]
            named.setdefault(target, [i + 1 for i in chosen] if full else sparse)


_WORDS = (("slid", "sliding_attention"), ("local", "sliding_attention"), ("window", "sliding_attention"),
    ("chunk", "chunked_attention"), ("linear", "linear_attention"), ("delta", "linear_attention"),
    ("sparse", "indexed_attention"), ("full", "full_attention"), ("global", "full_attention"),
    ("attention", "full_attention"))  # fmt: skip
"""What a part of an unknown word for a layer says."""


def _derive_words(named: dict[str, Any], remarks: list[str]) -> None:
    """Read unknown words of ``layer_types`` as those they resemble, and a window of each layer as its word."""
    if isinstance(windows := named.get("sliding_window"), list | tuple):
        widths = sorted({width for width in windows if _is_width(width)})
        named["sliding_window"] = max(widths, default=0)
        named.setdefault("layer_types", [f"{'sliding' if width else 'full'}_attention" for width in windows])
        if len(widths) > 1:
            remarks.append(f"sliding_window has the widths {widths}; all are read as the largest")
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
    for key in PER_LAYER:
        if isinstance(listed := named.pop(f"{key}_per_layer", None), list | tuple):
            named[key] = listed
    if (widths := _multiplied(named)) is not None:
        named.setdefault("intermediate_size", widths)
    lists = {key: list(named[key]) for key in PER_LAYER if _are_widths(named.get(key))}
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


def _are_numbers(values: object) -> TypeGuard[Sequence[int]]:
    return isinstance(values, list | tuple | range) and all(isinstance(value, int) for value in values)


def _is_width(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
