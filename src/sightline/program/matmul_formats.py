"""Number formats of matmuls: in what a product is computed, and the bytes its operands take.

A format is named as engines name them; ``fp8`` has one scale per tensor or channel, ``fp8-block`` one per 128 inputs and
per 128 x 128 weights, ``w4a16`` one per 128 weights (GPTQ, AWQ), ``nvfp4`` one byte per 16 and ``mxfp4`` one per 32
(OCP microscaling), ``nf4`` a byte per 64 quantized again (QLoRA), llama.cpp's ``q4_0`` two bytes per 32 and ``q4_k_m`` the
mean of its tensors. Scales per channel take no room worth counting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sightline.errors import InputError, nearest
from sightline.scenario import Device

MODEL_DTYPE = "16-bit"
WIDE_ROUTER = "fp32-router"
"""Kernel of a router in fp32: the library's for fp32 operands, which cuts few rows into few tiles and not along ``k``."""
HALF_SUMS = "fp16-accumulate"
"""The peak of fp16 products that are added up in fp16, where a device has it apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulFormat:
    """What a matmul's format implies; bytes are per element with its scales."""

    compute_dtype: str
    """Whose peak the product runs at; ``16-bit`` stands for the model's own type, bf16 or fp16."""
    activation_bytes: float
    weight_bytes: float


MATMUL_FORMATS: Mapping[str, MatmulFormat] = {
    "16-bit": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=2.0),
    "fp8": MatmulFormat(compute_dtype="fp8", activation_bytes=1.0, weight_bytes=1.0),
    "fp8-block": MatmulFormat(compute_dtype="fp8", activation_bytes=1 + 4 / 128, weight_bytes=1 + 4 / 128**2),
    "w8a8": MatmulFormat(compute_dtype="int8", activation_bytes=1.0, weight_bytes=1.0),
    "w8a16": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=1.0),
    "w4a16": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=0.5 + 2 / 128),
    "nvfp4": MatmulFormat(compute_dtype="nvfp4", activation_bytes=0.5 + 1 / 16, weight_bytes=0.5 + 1 / 16),
    "mxfp4": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=0.5 + 1 / 32),
    "nf4": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=0.5 + 0.127 / 8),
    "q4_0": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=4.5 / 8),
    "q4_k_m": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=2.0, weight_bytes=4.85 / 8),
    "32-bit": MatmulFormat(compute_dtype=MODEL_DTYPE, activation_bytes=4.0, weight_bytes=4.0),
}
"""By kernel. ``mxfp4`` as GPT-OSS is served: 4-bit weights, 16-bit activations."""


def format_of(kernel: str, dtype: str = "bf16", device: Device | None = None) -> MatmulFormat:
    """Return what ``kernel`` implies for a model of 16-bit type ``dtype``; ``compute_dtype`` is one of a device.

    A ``device`` without a peak for the compute type keeps the weights in their format and converts them on the way to
    16-bit products with 16-bit activations, as engines do with fp8 and fp4 weights on older devices (Marlin kernels).
    Raises InputError for a kernel that is not listed.
    """
    if kernel not in MATMUL_FORMATS:
        raise InputError(
            f"unknown matmul format '{kernel}'{nearest(kernel, list(MATMUL_FORMATS))}; formats: {', '.join(MATMUL_FORMATS)}"
        )
    found = MATMUL_FORMATS[kernel]
    if found.compute_dtype == MODEL_DTYPE:
        return replace(found, compute_dtype=dtype)
    if device is not None and found.compute_dtype not in device.peak_flops:
        return replace(found, compute_dtype=dtype, activation_bytes=2.0)
    return found


def conversion(kernel: str, used: MatmulFormat, device: Device) -> tuple[str, ...]:
    """Return a sentence where ``used`` computes in another type than the format's own, which the device lacks."""
    native = MATMUL_FORMATS[kernel].compute_dtype
    if native in (MODEL_DTYPE, used.compute_dtype):
        return ()
    return (
        f"{device.name} has no {native} products: {kernel} weights are converted to {used.compute_dtype} on the way",
    )
