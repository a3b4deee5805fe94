"""Matmuls below 16 bits: the layers' linear products, what quantizes their operands, and weights kept in 8 or 4 bits.

Inputs are quantized before the forward product and output gradients before the two of the backward pass, each along its
rows and, for the weight gradient, along its columns (`sightline.program.shapes`). Attention, norms, router, adapters,
embedding and head stay in 16 bits. At 16 bits and above nothing here adds anything.

Frozen weights of fine-tuning are kept in 4 or 8 bits and expanded by a kernel before every matmul.
"""

from collections.abc import Mapping
from dataclasses import replace

from sightline.program.operators import Matmul, Module, Operator, Part
from sightline.program.program import NO_LOW_PRECISION_WEIGHTS, Block, LowPrecisionWeights, moving
from sightline.program.shapes import ELEMENT_BYTES, TrainingShapes
from sightline.quantities import Number


def low_precision(x: TrainingShapes, operator: Operator) -> Operator:
    """Return a linear layer's operator as it runs under the recipe: a product takes its low-precision operands."""
    if x.low is None or not isinstance(operator, Matmul):
        return operator
    recipe = x.low.recipe
    return replace(
        operator,
        dtype=recipe.rate,
        kernel=recipe.kernel,
        element_bytes=recipe.operand_bytes,
        saved_bytes=operator.saved_bytes * (recipe.operand_bytes / x.element_bytes),
    )


def quantized(
    x: TrainingShapes, module: Module, part: Part, elements: Number, *, for_weights: bool, gathered: bool = False
) -> list[Operator]:
    """Return the quantization of an activation or a gradient.

    ``for_weights`` where a weight gradient takes it too, ``gathered`` where sequence parallelism gathers it.
    """
    if x.low is None:
        return []
    recipe = x.low.recipe
    late = x.framework.native.transposes_in_backward
    written = (x.low.copies if for_weights and not late else 1.0) * recipe.operand_bytes
    if late and gathered:
        elements = elements / x.r
    return [moving(module, part, (recipe.reads + written) * elements, recipe.kernels, elements=elements)]


def transposed_operands(x: TrainingShapes, module: Module, elements: Number) -> list[Operator]:
    """Return the transposition of what a weight gradient takes, where quantization writes one layout alone."""
    if x.low is None or not x.framework.native.transposes_in_backward or x.low.copies == 1.0:
        return []
    traffic = 2.0 * x.low.recipe.operand_bytes * elements
    return [moving(module, "operand transposition", traffic, 2.0, elements=elements)]


def quantized_weights(x: TrainingShapes, module: Module, elements: Number) -> list[Operator]:
    """Return the quantization of a weight in a pass, where a framework keeps no low-precision copies."""
    if x.low is None or not x.low.casts_weights_often:
        return []
    return quantized(x, module, "weight quantization", elements, for_weights=x.trained.projections)


def transposed_weights(x: TrainingShapes, module: Module, elements: Number) -> list[Operator]:
    """Return the transposition of a weight before its backward product, where a framework keeps one layout."""
    if x.low is None or not x.low.transposes_weights:
        return []
    traffic = 2.0 * x.low.recipe.operand_bytes * elements
    return [moving(module, "weight transposition", traffic, elements=elements)]


def gathered_share(x: TrainingShapes) -> float:
    """Bytes of a gathered activation over those of a 16-bit one: ranks gather it after it is quantized."""
    return 1.0 if x.low is None else x.low.recipe.operand_bytes / x.element_bytes


def low_precision_weights(x: TrainingShapes, weights: Number, expert_weights: Number) -> LowPrecisionWeights:
    """Return what the recipe changes of a layer's matmul weights in memory and between replicas.

    Copies serve both passes; frozen weights are quantized once and for all.
    """
    if x.low is None or x.low.casts_weights_often:
        return NO_LOW_PRECISION_WEIGHTS
    alone = x.low.gathered_bytes is not None
    copies = (1.0 if x.low.transposes_weights else x.low.copies) * x.low.recipe.operand_bytes
    gathered = x.element_bytes if x.low.gathered_bytes is None else x.low.gathered_bytes
    kept = copies - x.element_bytes * alone
    return LowPrecisionWeights(
        kept_bytes=kept * (weights - expert_weights),
        expert_kept_bytes=kept * expert_weights,
        gathered_bytes=(gathered - x.element_bytes) * (weights - expert_weights),
        expert_gathered_bytes=(gathered - x.element_bytes) * expert_weights,
        cast_bytes=x.low.cast_bytes * weights * x.trained.projections,
    )


def blended(quantized: Block, plain: Block, share: Number) -> Block:
    """Return a layer of which the ``share`` of all layers left in 16 bits runs as ``plain``, the rest as ``quantized``.

    Left out: that those layers are the first and last of the model, in the first and the last stage of a pipeline.
    """
    low, high = _scaled(quantized, 1.0 - share), _scaled(plain, share)
    return replace(
        low,
        forward=[*low.forward, *high.forward],
        backward=[*low.backward, *high.backward],
        recomputed=[*low.recomputed, *high.recomputed],
        freed_bytes=low.freed_bytes + high.freed_bytes,
    )


def _scaled(block: Block, part: Number) -> Block:
    """Return a block of which the ``part`` runs.

    A forward operator that is recomputed stays one and the same object.
    """
    forward = [replace(op, count=op.count * part) for op in block.forward]
    again = {id(op): new for op, new in zip(block.forward, forward, strict=True)}
    return replace(
        block,
        forward=forward,
        backward=[replace(op, count=op.count * part) for op in block.backward],
        recomputed=[again.get(id(op)) or replace(op, count=op.count * part) for op in block.recomputed],
        freed_bytes=block.freed_bytes * part,
        low_precision=block.low_precision * part,
    )


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
"""Launches of an expansion: that of bitsandbytes, with its cast, takes the host as long as one of PyTorch's kernels,
and another where scales are expanded first (the fitted half of litgpt-finetuning-time); packed integers are shifted,
masked, joined and scaled by PyTorch operators (AutoGPTQ's training path)."""


def stored_bytes(x: TrainingShapes) -> float:
    """Bytes per projection weight as the plan keeps it."""
    return STORED_BYTES.get(x.trained.quantization, x.element_bytes)


def dequantize(x: TrainingShapes, module: Module, weights: Number) -> list[Operator]:
    """Return the expansion of ``weights`` elements to the compute dtype, or nothing where they are not quantized.

    The least traffic is the stored bytes in and the expanded out; real libraries move more of them, or are bound by
    their instructions (``dequantization_traffic`` and ``dequantization_cycles`` of the framework).
    """
    form = x.trained.quantization
    if form == "none":
        return []
    least = STORED_BYTES[form] + x.element_bytes
    code = x.framework.low_precision
    traffic, cycles = code.dequantization_traffic.get(form, least), code.dequantization_cycles.get(form, 0.0)
    kernels, instructions = EXPANSION_KERNELS[form], cycles * weights
    return [
        moving(module, "dequantize", traffic * weights, kernels, elements=weights, unit_cycles=instructions),
        *_cast(x, module, weights),
    ]


def cast(x: TrainingShapes, module: Module, elements: Number, kernels: Number) -> list[Operator]:
    """Return the casts of ``elements`` between fp32 and the products' 16 bits, where a plan has any.

    A compiler leaves them to the kernels next to them.
    """
    if not x.trained.upcast or x.framework.adapters.fused or not kernels:
        return []
    moved = (ELEMENT_BYTES["fp32"] + x.element_bytes) * elements
    return [moving(module, "copy", moved, kernels, elements=elements)]


def _cast(x: TrainingShapes, module: Module, weights: Number) -> list[Operator]:
    """The cast of weights that a library has expanded to another type; its launch is one of the expansion's."""
    code = x.framework.low_precision
    if x.trained.quantization not in code.dequantization_cycles or code.expands_to in ("", x.plan.dtype):
        return []
    moved = (ELEMENT_BYTES[code.expands_to] + x.element_bytes) * weights
    return [moving(module, "copy", moved, 0.0, elements=weights)]
