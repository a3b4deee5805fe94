"""Formats of numbers: the words that a plan may list, and what a compute dtype below 16 bits means for training.

A dtype of fp8, mxfp8 or nvfp4 is that of the operands of the layers' linear products; everything else computes in bf16.
"""

from collections.abc import Mapping
from typing import Literal

from sightline.scenario.cluster import Device

WEIGHT_FORMATS: Mapping[str, str] = {
    "fp8": "fp8",
    "fp8-block": "fp8-block",
    "w8a8": "w8a8",
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


Fp8Recipe = Literal["delayed", "current", "blockwise"]
"""Scales of plain fp8: one per tensor from the steps before, one per tensor from its own values, or one per block."""

FP8_RECIPES: tuple[Fp8Recipe, ...] = ("delayed", "current", "blockwise")

LOW_PRECISION: Mapping[str, str] = {"fp8": "fp8", "mxfp8": "fp8", "nvfp4": "nvfp4"}
"""Dtypes below 16 bits, and the datasheet's rate at which their products run."""

WIDE = "bf16"
"""Compute type of everything but the layers' linear products."""

_MICROSCALING = frozenset({"nvfp4", "mxfp4"})
"""Matrix units that read a scale per 16 or 32 elements came with those of four bits: Blackwell, CDNA 4."""


def wide_dtype(dtype: str) -> str:
    """Return the type of attention, norms, embedding, head and of gradients under a compute dtype."""
    return WIDE if dtype in LOW_PRECISION else dtype


def rate_dtype(dtype: str) -> str:
    """Return the datasheet's name of the rate that the layers' linear products run at."""
    return LOW_PRECISION.get(dtype, dtype)


def has_microscaling(device: Device) -> bool:
    """Whether a device's matrix units read blocks' scales themselves and take operands in either layout."""
    return bool(_MICROSCALING & device.peak_flops.keys())


def computes_in(device: Device, dtype: str) -> bool:
    """Whether the datasheet has a rate for ``dtype`` and, where it needs them, scales per block."""
    return rate_dtype(dtype) in device.peak_flops and (dtype != "mxfp8" or has_microscaling(device))
