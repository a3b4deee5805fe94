"""Low-precision training: what a compute dtype means for the layers' matmuls, and what stays in 16 bits.

A dtype of fp8, mxfp8 or nvfp4 is that of the operands of the layers' linear products; everything else computes in bf16.
"""

from collections.abc import Mapping
from typing import Literal

from sightline.scenario.cluster import Device

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
