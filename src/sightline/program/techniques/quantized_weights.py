"""Frozen weights kept in few bits: what they take, and the kernel that expands them before every matmul."""

from collections.abc import Mapping

from sightline.program.address import Module
from sightline.program.operators import Elementwise, Operator
from sightline.program.training_shapes import TrainingShapes
from sightline.quantities import Number

STORED_BYTES: Mapping[str, float] = {
    # A byte of scale per 64 weights, quantized itself with an fp32 value per 256 of them (arXiv 2305.14314).
    "nf4": 0.5 + 1 / 64 + 4 / (64 * 256),
    # An fp32 scale per 64 weights.
    "nf4-single": 0.5 + 4 / 64,
    # Scales per row take no room worth counting (arXiv 2208.07339).
    "int8": 1.0,
    # A 16-bit scale and a 4-bit zero point per 128 weights (arXiv 2210.17323).
    "int4": 0.5 + 2.5 / 128,
}
"""Bytes per weight with its scales, by format."""


EXPANSION_KERNELS: Mapping[str, float] = {"nf4": 2.0, "nf4-single": 1.0, "int8": 2.0, "int4": 14.0}
"""Kernels of an expansion: one of bitsandbytes, another where scales are expanded first; packed integers
are shifted, masked, joined and scaled by PyTorch operators (AutoGPTQ's training path)."""


def stored_bytes(x: TrainingShapes) -> float:
    """Bytes per projection weight as the plan keeps it."""
    return STORED_BYTES.get(x.trained.quantization, x.element_bytes)


def dequantize(x: TrainingShapes, module: Module, weights: Number) -> list[Operator]:
    """Return the expansion of ``weights`` elements to the compute dtype, or nothing where they are not quantized.

    The least traffic is the stored bytes in and the expanded out; kernels of real libraries work slower than that and
    state the traffic that would take as long (``dequantization_traffic`` of the framework).
    """
    form = x.trained.quantization
    if form == "none":
        return []
    least = STORED_BYTES[form] + x.element_bytes
    traffic = x.framework.low_precision.dequantization_traffic.get(form, least)
    return [
        Elementwise(
            module=module,
            part="dequantize",
            traffic_bytes=traffic * weights,
            kernels=EXPANSION_KERNELS[form],
            elements=weights,
        )
    ]
