"""The number formats of one model under a plan on a device: which parts are stored and computed in which."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sightline.content import fix_mappings, record
from sightline.errors import InputError, nearest
from sightline.scenario import Device, Model
from sightline.scenario.model import WeightPart
from sightline.scenario.precision import (
    CACHE_BYTES,
    EXPERTS_ONLY,
    MATMUL_FORMATS,
    MODEL_DTYPE,
    ROUTER_DTYPES,
    WEIGHT_FORMATS,
    MatmulFormat,
)

FP32_ROUTER = "fp32-router"
"""Kernel of a router in fp32: the library's for fp32 operands, which cuts few rows into few tiles and not along
``k``."""
HALF_SUMS = "fp16-accumulate"
"""The peak of fp16 products that are added up in fp16, where a device has one of its own."""


def format_of(kernel: str, dtype: str = "bf16", device: Device | None = None) -> MatmulFormat:
    """Return what ``kernel`` implies for a model of 16-bit type ``dtype``; ``compute_dtype`` is one of a device.

    A ``device`` without a peak for the compute type keeps the weights in their format and converts them on the way to
    16-bit products with 16-bit activations, as engines do with fp8 and fp4 weights on older devices (Marlin kernels).
    Raises InputError for a kernel that is not listed.
    """
    if kernel not in MATMUL_FORMATS:
        raise InputError(
            f"unknown matmul format '{kernel}'{nearest(kernel, list(MATMUL_FORMATS))}; "
            f"formats: {', '.join(MATMUL_FORMATS)}"
        )
    implied = MATMUL_FORMATS[kernel]
    if implied.compute_dtype == MODEL_DTYPE:
        return replace(implied, compute_dtype=dtype)
    if device is not None and implied.compute_dtype not in device.peak_flops:
        return replace(implied, compute_dtype=dtype, activation_bytes=2.0)
    return implied


def conversion(kernel: str, used: MatmulFormat, device: Device) -> tuple[str, ...]:
    """Return a sentence where ``used`` computes in another type than the format's own, which the device lacks."""
    native = MATMUL_FORMATS[kernel].compute_dtype
    if native in (MODEL_DTYPE, used.compute_dtype):
        return ()
    return (f"{device.name} has no {native} matmul: {kernel} weights are converted to {used.compute_dtype}",)


ATTENTION_KEPT = frozenset({"nvfp4"})
"""Formats in which checkpoints of mixtures leave attention in 16 bits: NVIDIA's of DeepSeek, Kimi and GLM."""

PARTS: tuple[WeightPart, ...] = ("attention", "dense", "experts", "shared", "head")


@record
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

    def __post_init__(self) -> None:
        fix_mappings(self)

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

    Without a stated quantization (None) weights and cache are as the checkpoint has them, with an empty one neither is
    quantized. ``whole_model`` says that an engine quantizes the head with the rest. A dtype of fp8 is the fp8 format.
    """
    plain = "32-bit" if dtype in ("fp32", "tf32") else "16-bit"
    words = quantization
    if dtype == "fp8" and (words is None or (words and not any(word in WEIGHT_FORMATS for word in words))):
        words = ("fp8", *(words or ()))
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
    return Formats(
        parts=parts,
        plain=plain,
        operands={name: format_of(name, plain_dtype(dtype, device), device) for name in {plain, *parts.values()}},
        index_dtype="fp8" if "fp8" in device.peak_flops else plain_dtype(dtype, device),
        router_dtype=_router_dtype(words or (), device) if model.fp32_router and plain == "16-bit" else "",
        cache_bytes=CACHE_BYTES.get(cache_word(model, quantization), MATMUL_FORMATS[plain].weight_bytes),
    )


def cache_word(model: Model, quantization: Sequence[str] | None) -> str:
    """Return the format of the cache that a plan lists, else the checkpoint's; none if the plan quantizes nothing."""
    stated = tuple(quantization or ())
    words = stated if quantization is not None and not stated else (*stated, *model.published)
    return next((word for word in words if word in CACHE_BYTES), "")


def _router_dtype(words: Sequence[str], device: Device) -> str:
    stated = next((ROUTER_DTYPES[q] for q in words if q in ROUTER_DTYPES), "fp32")
    return stated if stated in device.peak_flops else "fp32"


def plain_dtype(dtype: str, device: Device) -> str:
    """Return the type of what is not quantized: the plan's own; next to fp8 bf16, or fp16 on a device without it."""
    if dtype != "fp8":
        return dtype
    return "bf16" if "bf16" in device.peak_flops else "fp16"
