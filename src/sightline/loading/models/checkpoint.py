"""Read what a checkpoint holds: the formats of its parts, by its config, and how many weights its files have."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, get_args

from sightline.content import record
from sightline.loading.models.family import spellings
from sightline.quantities import listed, show
from sightline.scenario.model import WeightPart

_PLAIN: Mapping[str, str] = {"float16": "fp16", "float32": "fp32"}

_VISION = re.compile(
    r"vision|visual|projector|patch_merge|audio|embed|mtp|norm|indexer|router|e_score|conv1d|in_proj_(ba?|a)$|A_log|dt_bias"
)
"""What of a module's name says that it is small, or of another modality."""
_PARTS: tuple[tuple[WeightPart, re.Pattern[str]], ...] = (
    ("shared", re.compile(r"shared_?experts?(?!_gate)|shared_mlp")),
    ("experts", re.compile(r"experts")),
    ("attention", re.compile(r"attn|attention|mixer|mamba")),
    ("head", re.compile(r"(^|\.)(lm_)?head$")),
    ("dense", re.compile(r"(mlp|feed_forward|ffn)(\W*$|.*_proj|.*w\d)")),
)
"""Which part of a model a module's name (or a pattern of names) means; the first that fits."""


@record
class Checkpoint:
    """Formats of a checkpoint, as `sightline.scenario.Model` has them."""

    weights: str = "bf16"
    exceptions: tuple[tuple[WeightPart, str], ...] = ()
    kv_cache: str | None = None
    remark: str = ""
    """Keys of the formats that nothing reads."""
    unknown: str = ""
    """A format that nothing here knows."""


def checkpoint_of(config: Mapping[str, Any], *, experts: bool) -> Checkpoint:
    """Return the formats of the checkpoint that ``config`` belongs to; ``experts`` says whether the model has any."""
    plain = _PLAIN.get(str(config.get("torch_dtype") or config.get("dtype")).removeprefix("torch."), "bf16")
    said = config.get("quantization_config") or config.get("quantization")
    if not isinstance(said, Mapping):
        return Checkpoint(weights=plain)
    found = _stated(said, config, plain, experts=experts)
    known = spellings().quantization if found.kv_cache else {*spellings().quantization} - {*_CACHE}
    unread = [f"quantization_config.{key}" for key, own in said.items() if own and key not in known]
    return replace(found, remark=f"ignored keys: {listed(unread)}") if unread else found


def _stated(said: Mapping[str, Any], config: Mapping[str, Any], plain: str, *, experts: bool) -> Checkpoint:
    if isinstance(layers := said.get("quantized_layers"), Mapping):
        return _mixed(layers, said, plain)
    parts, rest, unknown = _groups(said)
    weights = rest or _format(said)
    if weights is None and not parts:
        method, bits = said.get("quant_method") or said.get("quant_algo"), said.get("bits", said.get("w_bit"))
        unknown = unknown or f"quant_method {show(method)}{f' of {bits} bits' if bits else ''}"
    if unknown:
        return Checkpoint(weights=plain, unknown=unknown)
    if weights is None or (parts and rest is None and "config_groups" in said):
        return _by_part(parts, plain, said)
    cache = _cache(said)
    if experts and config.get("expert_dtype") == "fp4":
        others: list[WeightPart] = ["attention", "dense", "shared"]
        return Checkpoint(weights="mxfp4", exceptions=tuple((part, weights) for part in others), kv_cache=cache)
    layers = config.get("num_hidden_layers")
    kept = parts | dict.fromkeys(_kept(said, layers if isinstance(layers, int) else 0), plain)
    kept.pop("head", None)
    return Checkpoint(weights=weights, exceptions=tuple(kept.items()), kv_cache=cache)


def _groups(said: Mapping[str, Any]) -> tuple[dict[WeightPart, str], str | None, str]:
    """The formats of groups and of exceptions by part, that of all other layers, and what of them is not known."""
    found: dict[str, str | None] = {}
    unknown = ""
    for group in _mapping_of(said, "config_groups").values():
        targets = group.get("targets") if isinstance(group, Mapping) else None
        form = _of_group(group)
        if form is None and isinstance(group, Mapping) and group.get("weights"):
            unknown = f"a group of {show(group['weights'])}"
        for target in targets if isinstance(targets, list) else ["Linear"]:
            found.setdefault(_part(str(target)) or str(target), form)
    exceptions = {**_mapping_of(said, "dynamic"), **_mapping_of(said, "layer_quant_config")}
    for pattern, own in exceptions.items():
        if isinstance(own, Mapping) and ("bits" in own or "weight" in own):
            form = found[_part(pattern) or pattern] = _of_quark(own) or _format({**said, **own})
            unknown = unknown if form else f"{pattern} of {show(dict(own))}"
    parts = {part: form for part in get_args(WeightPart) if (form := found.get(part))}
    return parts, found.get("Linear"), unknown


def _mapping_of(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    stated = said.get(key)
    return stated if isinstance(stated, Mapping) else {}


def _format(said: Mapping[str, Any]) -> str | None:
    """The format of most weights, or None when it is not known."""
    groups = said.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        return _of_group(next(iter(groups.values())))
    method, inner = str(said.get("quant_method", "")).lower(), _mapping_of(said, "quant_config")
    bits = said.get("bits", said.get("w_bit", _mapping_of(inner, "weight_quant_params").get("nbits", 4)))
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8-block" if said.get("weight_block_size") else "fp8"
    if said.get("load_in_4bit") or said.get("load_in_8bit") or method == "bitsandbytes":
        return "nf4" if said.get("load_in_4bit") else "llm-int8"
    if method in ("gptq", "awq", "auto-round", "autoround", "hqq") or (not method and "bits" in said):
        return {4: "w4a16", 8: "w8a16"}.get(bits)
    if method in ("mxfp4", "eetq"):
        return {"eetq": "w8a16"}.get(method, method)
    return _of_quark(_mapping_of(said, "global_quant_config")) or _named(said)


def _named(said: Mapping[str, Any]) -> str | None:
    """The format that a word of ModelOpt, of TorchAO or of Mistral names."""
    word = said.get("quant_algo") or said.get("qformat_weight") or said.get("quant_type")
    if isinstance(word, Mapping):
        word = _mapping_of(word, "default").get("_type", "")
    spelled = re.sub("CONFIG$|_", "", str(word).upper())
    return next((ours for name, ours in spellings().formats.items() if name.replace("_", "") == spelled), None)


_QUARK = {"fp8": ("float", 8), "fp4": ("float", 4), "mx_fp4": ("float", 4), "int8": ("int", 8), "int4": ("int", 4)}
"""Type and bits by the beginning of Quark's word."""


def _of_quark(stated: Mapping[str, Any]) -> str | None:
    """The format that Quark gives to layers: as a group of compressed-tensors."""
    weight = _mapping_of(stated, "weight")
    word = str(weight.get("dtype", "")).lower().removeprefix("u")
    kind, bits = next((found for begin, found in _QUARK.items() if word.startswith(begin)), (None, None))
    weights = {"type": kind, "num_bits": bits, "group_size": weight.get("group_size")}
    return _of_group({"weights": weights, "input_activations": stated.get("input_tensors")})


def _of_group(group: Any) -> str | None:
    """The format of a group of compressed-tensors or ModelOpt: bits and type of weights and activations."""
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    inputs, size = group.get("input_activations"), weights.get("group_size")
    blocks = weights.get("strategy") == "block" or weights.get("block_structure")
    match weights.get("type"), weights.get("num_bits"):
        case "float", 8:
            return "fp8-block" if blocks else "fp8"
        case "float", 4:
            return "mxfp4" if size == 32 else "nvfp4"
        case "int", 8:
            return "w8a8" if inputs else "w8a16"
        case "int", 4:
            return "w4a16"
    return None


def _mixed(layers: Mapping[str, Any], said: Mapping[str, Any], plain: str) -> Checkpoint:
    """Each part in the format that most of its modules have; what is not listed in the checkpoint's common one."""
    rest = "fp8-block" if said.get("weight_block_size") else plain
    known, votes = spellings().formats, dict[WeightPart, Counter[str]]()
    for name, module in layers.items():
        algorithm = str(module.get("quant_algo")) if isinstance(module, Mapping) else ""
        part = _part(str(name))
        if part is not None and algorithm not in known:
            return Checkpoint(weights=plain, unknown=f"{name} of {show(algorithm)}")
        if part is not None:
            votes.setdefault(part, Counter())[known[algorithm]] += 1
    formats = {part: counted.most_common(1)[0][0] for part, counted in votes.items()}
    return _by_part(formats, rest, said)


def _by_part(formats: Mapping[WeightPart, str], rest: str, said: Mapping[str, Any]) -> Checkpoint:
    """Each part in its format, or in that of the ``rest``; most weights are those of experts or of dense MLPs."""
    weights = formats.get("experts") or formats.get("dense") or rest
    parts: tuple[WeightPart, ...] = ("attention", "dense", "experts", "shared")
    exceptions = {part: formats.get(part, rest) for part in parts}
    return Checkpoint(
        weights=weights,
        exceptions=tuple((part, name) for part, name in exceptions.items() if name != weights),
        kv_cache=_cache(said),
    )


_EXCEPTIONS = (
    *("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "exclude", "llm_int8_skip_modules"),
)
"""Keys of the modules that stay unquantized."""
_PLAIN_BITS = 16


def _kept(said: Mapping[str, Any], layers: int) -> Iterator[WeightPart]:
    """Parts that stay unquantized in most layers: their modules are on the config's list of exceptions."""
    names: list[Any] = next((said[key] for key in _EXCEPTIONS if isinstance(said.get(key), list) and said[key]), [])
    listed = [str(name).removeprefix("re:") for name in names]
    listed += [name for name in _mapping_of(said, "dynamic") if name.startswith("-:")]
    extra = _mapping_of(said, "extra_config").items()
    listed += [name for name, own in extra if isinstance(own, Mapping) and own.get("bits", 0) >= _PLAIN_BITS]
    layers = max(layers, len({digits for name in listed for digits in re.findall(r"layers\.(\d+)\.", name)}))
    shapes = Counter(re.sub(r"\d+", "N", name) for name in listed)
    for name, times in shapes.items():
        part = _part(name)
        if part is not None and ("N" not in name or times > layers / 8):
            yield part


def _part(name: str) -> WeightPart | None:
    if _VISION.search(name):
        return None
    return next((part for part, pattern in _PARTS if pattern.search(name)), None)


_CACHE = ("kv_cache_scheme", "kv_cache_quant_algo")
"""Keys of the format of keys and values."""


def _cache(said: Mapping[str, Any]) -> str | None:
    scheme = next((said[key] for key in _CACHE if said.get(key)), None)
    if isinstance(scheme, Mapping):
        scheme = f"{scheme.get('type')}{scheme.get('num_bits')}"
    return {"float8": "fp8", "fp8": "fp8", "int8": "int8"}.get(str(scheme).lower())


_FILES = ("model.safetensors", "consolidated.safetensors")
"""Weight files, or with `.index.json` behind it the list of them: Hugging Face's, or Mistral's own."""
_ELEMENTS = {"BF16": 2, "F16": 2, "F32": 4}
"""Bytes of an element by the words of headers; other words are of packed weights, whose number they do not say."""
_LONGEST = 2**28
"""Bytes of a header."""
_OTHER = re.compile(r"vision|visual|image|audio|projector")
"""Tensors of other modalities."""


def weights_beside(folder: Path) -> dict[str, Any]:
    """Return ``checkpoint_parameters``, those of the language model's tensors; empty where no file in full says so."""
    name = next((name for name in _FILES if any(folder.glob(f"{name}*"))), _FILES[0])
    index = folder / f"{name}.index.json"
    listed = _mapping(index.read_bytes()) if index.is_file() else {}
    placed, metadata = listed.get("weight_map"), listed.get("metadata")
    files = {str(name) for name in placed.values()} if isinstance(placed, Mapping) else set()
    headers = [_header(folder / Path(name).name) for name in files or {name}]
    tensors = {name: tensor for header in headers for name, tensor in header.items() if isinstance(tensor, Mapping)}
    tensors.pop("__metadata__", None)
    if all(headers) and all(tensor.get("dtype") in _ELEMENTS for tensor in tensors.values()):
        ours = [tensor["shape"] for name, tensor in tensors.items() if not _OTHER.search(name)]
        return {"checkpoint_parameters": sum(map(prod, ours))}
    total = metadata.get("total_parameters") if isinstance(metadata, Mapping) else None
    if isinstance(total, int) and isinstance(placed, Mapping) and not any(map(_OTHER.search, placed)):
        return {"checkpoint_parameters": total}
    return {}


def _header(path: Path) -> Mapping[str, Any]:
    """The names, formats and shapes of a file's tensors; empty where it is none, or a pointer to one."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return _mapping(file.read(length)) if length < _LONGEST else {}


def _mapping(text: bytes) -> Mapping[str, Any]:
    try:
        stated = json.loads(text)
    except ValueError:
        return {}
    return stated if isinstance(stated, Mapping) else {}
