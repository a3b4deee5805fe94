"""Which parts of a model are stored in which format under a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sightline.program.matmul_formats import MATMUL_FORMATS, MatmulFormat, format_of
from sightline.scenario import Device, Model
from sightline.scenario.model import WeightPart
from sightline.scenario.quantization import CACHE_BYTES, EXPERTS_ONLY, ROUTER_DTYPES, WEIGHT_FORMATS

ATTENTION_KEPT = frozenset({"nvfp4"})
"""Formats in which checkpoints of mixtures leave attention in 16 bits: NVIDIA's of DeepSeek, Kimi and GLM."""

PARTS: tuple[WeightPart, ...] = ("attention", "dense", "experts", "shared", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """The formats of one model under one plan on one device."""

    parts: Mapping[WeightPart, str]
    """Matmul format by part of the model."""
    plain: str
    """Format of what nobody quantizes: routers, absorbed projections."""
    operands: Mapping[str, MatmulFormat]
    """What each format means on the device."""
    cache_bytes: float
    """Bytes per cached key or value element."""
    index_dtype: str
    """In what an indexer scores tokens: fp8 where the device has it."""
    router_dtype: str = ""
    """In what a router is multiplied whose weights engines keep in fp32; empty where it is as ``plain`` says."""

    def with_weight_bytes(self, stated: Mapping[str, float]) -> "Formats":
        """The same with the bytes of a weight that an engine has its own groups for, by format."""
        own = {
            name: replace(self.operands[name], weight_bytes=x) for name, x in stated.items() if name in self.operands
        }
        return replace(self, operands={**self.operands, **own}) if own else self


def formats_of(
    model: Model, quantization: Sequence[str] | None, dtype: str, device: Device, *, whole_model: bool = False
) -> Formats:
    """Return the formats that a plan's quantization and compute dtype mean for ``model`` on ``device``.

    Without a stated quantization (None) the weights are as the checkpoint has them. ``whole_model`` says that an engine
    quantizes the head with the rest. A dtype of fp8 is the fp8 format.
    """
    plain = "32-bit" if dtype in ("fp32", "tf32") else "16-bit"
    words = ("fp8",) if dtype == "fp8" and not quantization else quantization
    weights = None if words is None else next((WEIGHT_FORMATS[q] for q in words if q in WEIGHT_FORMATS), plain)
    parts: dict[WeightPart, str]
    if weights is None or weights == model.weights:
        parts = {part: WEIGHT_FORMATS.get(model.format_of(part), plain) for part in PARTS}
    else:
        rest = plain if weights in EXPERTS_ONLY else weights
        parts = dict.fromkeys(PARTS, rest)
        parts |= {"experts": weights, "head": rest if whole_model else plain}
        if model.experts is not None and weights in ATTENTION_KEPT:
            parts["attention"] = plain
    cached = (*(words or ()), f"kv-{model.kv_cache}")
    return Formats(
        parts=parts,
        plain=plain,
        operands={name: format_of(name, plain_dtype(dtype, device), device) for name in {plain, *parts.values()}},
        index_dtype="fp8" if "fp8" in device.peak_flops else plain_dtype(dtype, device),
        router_dtype=_router_dtype(words or (), device) if model.fp32_router and plain == "16-bit" else "",
        cache_bytes=next((CACHE_BYTES[q] for q in cached if q in CACHE_BYTES), MATMUL_FORMATS[plain].weight_bytes),
    )


def _router_dtype(words: Sequence[str], device: Device) -> str:
    stated = next((ROUTER_DTYPES[q] for q in words if q in ROUTER_DTYPES), "fp32")
    return stated if stated in device.peak_flops else "fp32"


def plain_dtype(dtype: str, device: Device) -> str:
    """Return the type of what is not quantized: the plan's own; beside fp8 bf16, or fp16 on a device without it."""
    if dtype != "fp8":
        return dtype
    return "bf16" if "bf16" in device.peak_flops else "fp16"
