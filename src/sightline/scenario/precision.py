"""Number formats: what products compute in, the bytes that operands take, and the words that plans have for them.

A format is named as engines name them; ``fp8`` has one scale per tensor or channel, ``fp8-block`` one per 128 inputs
and per 128 x 128 weights, ``llm-int8`` keeps columns of outliers in 16 bits (bitsandbytes, arXiv 2208.07339),
``w4a16`` has one scale per 128 weights (GPTQ, AWQ), ``mxfp8`` and ``mxfp4`` one byte per 32 (OCP microscaling),
``nvfp4`` one per 16, ``nf4`` a byte per 64 quantized again (QLoRA), llama.cpp's ``q4_0`` two bytes per 32 and
``q4_k_m`` the mean of its tensors. Scales per channel take no room worth counting.

In low-precision training a dtype of fp8, mxfp8 or nvfp4 is that of the operands of the layers' linear products;
everything else computes in bf16.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sightline.scenario.cluster import Device

MODEL_DTYPE = "16-bit"


@dataclass(frozen=True, slots=True, eq=False)
class MatmulFormat:
    """What a matmul's format implies; bytes are per element with its scales."""

    compute_dtype: str
    """Whose peak the product runs at; ``16-bit`` stands for the model's own type, bf16 or fp16."""
    activation_bytes: float
    weight_bytes: float
    nearest: tuple[str, ...] = ()
    """Formats whose kernels stand in where these were not measured, nearest first; 16-bit comes last."""
    weight_only: str = ""
    """Format whose kernels run where a device has no products in this one: weights are converted on the way."""


MATMUL_FORMATS: Mapping[str, MatmulFormat] = {
    "16-bit": MatmulFormat(MODEL_DTYPE, 2.0, 2.0),
    "fp8": MatmulFormat("fp8", 1.0, 1.0, ("fp8-block", "w8a8"), "w8a16"),
    "fp8-block": MatmulFormat("fp8", 1 + 4 / 128, 1 + 4 / 128**2, ("fp8", "w8a8"), "w8a16"),
    "w8a8": MatmulFormat("int8", 1.0, 1.0, ("fp8", "fp8-block"), "w8a16"),
    "llm-int8": MatmulFormat("int8", 1.0, 1.0, ("w8a8", "fp8", "fp8-block"), "w8a16"),
    "w8a16": MatmulFormat(MODEL_DTYPE, 2.0, 1.0, ("w4a16",)),
    "w4a16": MatmulFormat(MODEL_DTYPE, 2.0, 0.5 + 2 / 128, ("w8a16",)),
    "mxfp8": MatmulFormat("fp8", 1 + 1 / 32, 1 + 1 / 32, ("fp8", "fp8-block"), "w8a16"),
    "nvfp4": MatmulFormat("nvfp4", 0.5 + 1 / 16, 0.5 + 1 / 16, ("fp8", "fp8-block"), "w4a16"),
    "mxfp4": MatmulFormat(MODEL_DTYPE, 2.0, 0.5 + 1 / 32, ("w4a16", "w8a16")),
    "nf4": MatmulFormat(MODEL_DTYPE, 2.0, 0.5 + 0.127 / 8),
    "q4_0": MatmulFormat(MODEL_DTYPE, 2.0, 4.5 / 8),
    "q4_k_m": MatmulFormat(MODEL_DTYPE, 2.0, 4.85 / 8),
    "32-bit": MatmulFormat(MODEL_DTYPE, 4.0, 4.0),
}
"""By kernel. ``mxfp4`` as GPT-OSS is served: 4-bit weights, 16-bit activations."""

WEIGHT_FORMATS: Mapping[str, str] = {
    "fp8": "fp8",
    "fp8-block": "fp8-block",
    "w8a8": "w8a8",
    "llm-int8": "llm-int8",
    "w8a16": "w8a16",
    "int8": "w8a16",
    "w4a16": "w4a16",
    "int4": "w4a16",
    "nf4": "nf4",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "q4_0": "q4_0",
    "q4_k_m": "q4_k_m",
}
"""Format of the weights, as matmul kernels are called, by word."""

EXPERTS_ONLY = frozenset({"mxfp4"})
"""Formats that checkpoints use for experts alone: gpt-oss keeps attention and head in 16 bits."""

CACHE_BYTES: Mapping[str, float] = {"kv-fp8": 1.0, "kv-int8": 1.0}
"""Bytes per cached key or value element by word."""

ROUTER_DTYPES: Mapping[str, str] = {"router-tf32": "tf32"}
"""In what a router that is kept in fp32 is multiplied, by word; left out, in fp32 (PyTorch's "highest" precision)."""

QUANTIZATIONS = (*WEIGHT_FORMATS, *CACHE_BYTES, *ROUTER_DTYPES)
"""Every word."""

CHECKPOINT_FORMATS = ("bf16", "fp16", "fp32", *WEIGHT_FORMATS)
"""Formats that checkpoints come in."""

Fp8Recipe = Literal["delayed", "current", "blockwise"]
"""Scales of plain fp8: one per tensor from the steps before, one per tensor from its own values, or one per block."""

FP8_RECIPES: tuple[Fp8Recipe, ...] = ("delayed", "current", "blockwise")

LOW_PRECISION = ("fp8", "mxfp8", "nvfp4")
"""Compute dtypes below 16 bits, each the format of the same name."""

_MICROSCALING = frozenset({"nvfp4", "mxfp4"})
"""Matrix units that read a scale per 16 or 32 elements came with those of four bits: Blackwell, CDNA 4."""


def high_precision_dtype(dtype: str) -> str:
    """Return the type of attention, norms, embedding, head and of gradients under a compute dtype."""
    return "bf16" if dtype in LOW_PRECISION else dtype


def rate_dtype(dtype: str) -> str:
    """Return the datasheet's name of the rate that the layers' linear products run at."""
    return MATMUL_FORMATS[dtype].compute_dtype if dtype in LOW_PRECISION else dtype


def has_microscaling(device: Device) -> bool:
    """Whether a device's matrix units read blocks' scales themselves and take operands in either layout."""
    return bool(_MICROSCALING & device.peak_flops.keys())


def computes_in(device: Device, dtype: str) -> bool:
    """Whether the datasheet has a rate for ``dtype`` and, where it needs them, scales per block."""
    return rate_dtype(dtype) in device.peak_flops and (dtype != "mxfp8" or has_microscaling(device))
