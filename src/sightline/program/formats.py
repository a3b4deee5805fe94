"""Number formats of matmuls: what the weights are stored in, what is multiplied, and which parts of a model take which.

A format with block scales counts their bytes: nvfp4 a byte per 16 weights (0.5625 bytes each), mxfp4 one per 32, w4a16
(GPTQ, AWQ) a 16-bit scale and a zero point per 128, q4_0 two bytes per 32, q4_k_m the mean of its tensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.scenario import Model
from sightline.scenario.model import WeightPart


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulFormat:
    """How a matmul reads its operands."""

    weight_bytes: float
    """Bytes per weight with its scales."""
    compute: str | None
    """Compute dtype of the multiplication; None means the plan's."""
    activation_bytes: float | None = None
    """Bytes per element of the other operand; None means those of the plan's dtype."""


MATMUL_FORMATS: Mapping[str, MatmulFormat] = {
    "16-bit": MatmulFormat(weight_bytes=2.0, compute=None),
    "32-bit": MatmulFormat(weight_bytes=4.0, compute=None),
    "fp8": MatmulFormat(weight_bytes=1.0, compute="fp8", activation_bytes=1.0),
    "fp8-block": MatmulFormat(weight_bytes=1.0 + 4 / 128**2, compute="fp8", activation_bytes=1.0),
    "w8a8": MatmulFormat(weight_bytes=1.0, compute="int8", activation_bytes=1.0),
    "w8a16": MatmulFormat(weight_bytes=1.0, compute=None),
    "w4a16": MatmulFormat(weight_bytes=0.5 + 2.5 / 128, compute=None),
    "nf4": MatmulFormat(weight_bytes=0.5 + 0.127 / 8, compute=None),
    "nvfp4": MatmulFormat(weight_bytes=0.5625, compute="nvfp4", activation_bytes=0.5625),
    "mxfp4": MatmulFormat(weight_bytes=0.5 + 1 / 32, compute=None),
    "q4_0": MatmulFormat(weight_bytes=4.5 / 8, compute=None),
    "q4_k_m": MatmulFormat(weight_bytes=4.85 / 8, compute=None),
}
"""By the name of the kernel that multiplies them, which is also its name in a device's calibration."""

WEIGHT_FORMATS: Mapping[str, str] = {
    **{name: name for name in MATMUL_FORMATS if name not in ("16-bit", "32-bit")},
    "int8": "w8a16",
    "int4": "w4a16",
}
"""Weight format by the word a plan's quantization has for it."""

CACHE_BYTES: Mapping[str, float] = {"kv-fp8": 1.0, "kv-int8": 1.0}
"""Bytes per cached element by the word a plan's quantization has for it."""

QUANTIZATIONS = (*WEIGHT_FORMATS, *CACHE_BYTES)
"""Every word a plan's quantization may list."""

EXPERTS_ONLY = frozenset({"mxfp4"})
"""Formats that checkpoints use for experts alone: gpt-oss keeps attention and head in 16 bits."""

PARTS: tuple[WeightPart, ...] = ("attention", "dense", "experts", "shared", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """The formats of one model under one plan."""

    parts: Mapping[WeightPart, str]
    """Matmul format by part of the model."""
    plain: str
    """Format of what nobody quantizes: routers, absorbed projections."""
    cache_bytes: float
    """Bytes per cached key or value element."""


def formats_of(model: Model, quantization: Sequence[str] | None, dtype: str, *, whole_model: bool = False) -> Formats:
    """Return the formats that a plan's quantization and compute dtype mean for ``model``.

    Without a stated quantization (None) the weights are as the checkpoint has them. ``whole_model`` says that an engine
    quantizes the head with the rest. A dtype of fp8 is the fp8 format.
    """
    plain = "32-bit" if dtype in ("fp32", "tf32") else "16-bit"
    words = ("fp8",) if dtype == "fp8" and not quantization else quantization
    weights = None if words is None else next((WEIGHT_FORMATS[q] for q in words if q in WEIGHT_FORMATS), plain)
    if weights is None or weights == model.weights:
        parts = {part: WEIGHT_FORMATS.get(model.format_of(part), plain) for part in PARTS}
    else:
        rest = plain if weights in EXPERTS_ONLY else weights
        parts = dict.fromkeys(PARTS, rest) | {"experts": weights, "head": rest if whole_model else plain}
    cached = (*(words or ()), f"kv-{model.kv_cache}")
    cache_bytes = next((CACHE_BYTES[q] for q in cached if q in CACHE_BYTES), MATMUL_FORMATS[plain].weight_bytes)
    return Formats(parts=parts, plain=plain, cache_bytes=cache_bytes)
