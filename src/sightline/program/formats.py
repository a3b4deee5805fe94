"""Number formats of matmuls: what the weights are stored in, what is multiplied, and which parts of a model take which.

A format with block scales counts their bytes: nvfp4 a byte per 16 weights (0.5625 bytes each), mxfp4 one per 32, w4a16
(GPTQ, AWQ) a 16-bit scale and a zero point per 128, q4_0 two bytes per 32, q4_k_m the mean of its tensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """The formats of one model under one plan."""

    linear: str
    """Projections of attention and dense MLPs."""
    experts: str
    head: str
    """The output head, which quantized checkpoints leave in 16 bits; llama.cpp's do not."""
    cache_bytes: float
    """Bytes per cached key or value element."""


def formats_of(quantization: Sequence[str], dtype: str, *, whole_model: bool = False) -> Formats:
    """Return the formats that a plan's quantization and compute dtype mean.

    ``whole_model`` says that the head is quantized with the rest. A dtype of fp8 is the fp8 format.
    """
    plain = "32-bit" if dtype in ("fp32", "tf32") else "fp8" if dtype == "fp8" else "16-bit"
    weights = next((WEIGHT_FORMATS[q] for q in quantization if q in WEIGHT_FORMATS), plain)
    rest = "16-bit" if weights in EXPERTS_ONLY else weights
    unquantized = "32-bit" if plain == "32-bit" else "16-bit"
    cache = next((CACHE_BYTES[q] for q in quantization if q in CACHE_BYTES), MATMUL_FORMATS[unquantized].weight_bytes)
    return Formats(linear=rest, experts=weights, head=rest if whole_model else unquantized, cache_bytes=cache)
