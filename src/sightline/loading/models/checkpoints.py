"""The formats of a checkpoint's weights, from its ``quantization_config``."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sightline.loading.models.family import spellings
from sightline.scenario.model import WeightPart

_PLAIN: Mapping[str, str] = {"float16": "fp16", "float32": "fp32"}

_VISION = re.compile(r"vision|visual|projector|patch_merge|audio|embed|mtp|norm|indexer|router|e_score")
_PARTS: tuple[tuple[WeightPart, re.Pattern[str]], ...] = (
    ("shared", re.compile(r"shared_?experts?(?!_gate)|shared_mlp")),
    ("experts", re.compile(r"experts")),
    ("attention", re.compile(r"attn|attention|mixer|mamba")),
    ("head", re.compile(r"(^|\.)(lm_)?head$")),
    ("dense", re.compile(r"(mlp|feed_forward|ffn)(\W*$|.*_proj|.*w\d)")),
)
"""Which part of a model a module's name (or a pattern of names) means; the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """Formats of a checkpoint, as `sightline.scenario.Model` has them."""

    weights: str = "bf16"
    exceptions: tuple[tuple[WeightPart, str], ...] = ()
    kv_cache: str | None = None
    remark: str = ""
    """What about the formats was not understood."""


def checkpoint_of(config: Mapping[str, Any], *, experts: bool) -> Checkpoint:
    """Return the formats of the checkpoint that ``config`` belongs to; ``experts`` says whether the model has any."""
    plain = _PLAIN.get(str(config.get("torch_dtype") or config.get("dtype")).removeprefix("torch."), "bf16")
    said = config.get("quantization_config")
    if not isinstance(said, Mapping):
        return Checkpoint(weights=plain)
    if isinstance(layers := said.get("quantized_layers"), Mapping):
        return _mixed(layers, said, plain)
    weights = _format(said)
    if weights is None:
        method = said.get("quant_method") or said.get("quant_algo")
        return Checkpoint(weights=plain, remark=f"its checkpoint format {method!r} is unknown and read as {plain}")
    cache = _cache(said)
    if experts and config.get("expert_dtype") == "fp4":
        rest: list[WeightPart] = ["attention", "dense", "shared"]
        return Checkpoint(weights="mxfp4", exceptions=tuple((part, weights) for part in rest), kv_cache=cache)
    kept = dict.fromkeys(_kept(said), plain)
    kept.pop("head", None)
    return Checkpoint(weights=weights, exceptions=tuple(kept.items()), kv_cache=cache)


def _format(said: Mapping[str, Any]) -> str | None:
    """The format of most weights, or None when it is not known."""
    groups = said.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        return _of_group(next(iter(groups.values())))
    method, bits = str(said.get("quant_method", "")).lower(), said.get("bits", said.get("w_bit", 4))
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8-block" if said.get("weight_block_size") else "fp8"
    if method in ("gptq", "awq", "auto-round", "autoround"):
        return "w8a16" if bits == 8 else "w4a16"
    if method == "bitsandbytes":
        return "nf4" if said.get("load_in_4bit") else "int8"
    if method == "mxfp4":
        return "mxfp4"
    return spellings().formats.get(str(said.get("quant_algo", "")).upper())


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
        if part is not None and algorithm in known:
            votes.setdefault(part, Counter())[known[algorithm]] += 1
    formats = {part: counted.most_common(1)[0][0] for part, counted in votes.items()}
    weights = formats.get("experts") or formats.get("dense") or rest
    parts: tuple[WeightPart, ...] = ("attention", "dense", "experts", "shared")
    exceptions = {part: formats.get(part, rest) for part in parts}
    return Checkpoint(
        weights=weights,
        exceptions=tuple((part, name) for part, name in exceptions.items() if name != weights),
        kv_cache=_cache(said),
    )


def _kept(said: Mapping[str, Any]) -> Iterator[WeightPart]:
    """Parts that stay unquantized in most layers: their modules are on the config's list of exceptions."""
    names = said.get("ignore") or said.get("modules_to_not_convert") or said.get("exclude_modules") or []
    listed = [str(name).removeprefix("re:") for name in names] if isinstance(names, list) else []
    layers = len({digits for name in listed for digits in re.findall(r"layers\.(\d+)\.", name)})
    shapes = Counter(re.sub(r"\d+", "N", name) for name in listed)
    for name, times in shapes.items():
        part = _part(name)
        if part is not None and ("N" not in name or times > layers / 8):
            yield part


def _part(name: str) -> WeightPart | None:
    if _VISION.search(name):
        return None
    return next((part for part, pattern in _PARTS if pattern.search(name)), None)


def _cache(said: Mapping[str, Any]) -> str | None:
    scheme = said.get("kv_cache_scheme") or said.get("kv_cache_quant_algo")
    if isinstance(scheme, Mapping):
        scheme = f"{scheme.get('type')}{scheme.get('num_bits')}"
    return {"float8": "fp8", "fp8": "fp8", "int8": "int8"}.get(str(scheme).lower())
