"""What surrounds products in engines that store activations and weights in formats other than those of the library."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from sightline.program.kernels.inference_linear import InferenceLinear
from sightline.program.operators import GroupedMatmul, Matmul, Operator
from sightline.quantities import anywhere

UNPACKING = 12.0
"""Vector instructions that unpack and scale a weight; estimated."""
UNPACKING_IN_PRODUCT: Mapping[str, float] = {"q4_0": 2.7, "q4_k_m": 7.1}
"""The same where a product's own kernel does it besides multiplying, by format: what 512-token prompts of Llama-2-7B
took longer than in f16 on M2 Ultra, at 1,164 and 1,028 instead of 1,265 tokens/s (ggml-org/llama.cpp#3084, 2023-09)."""
SINGLE_ROW_KERNELS = frozenset({"nf4"})
"""Formats whose library multiplies packed weights with one row only (bitsandbytes), whatever engine calls it."""
PRODUCTS = (Matmul, GroupedMatmul)
"""Operators whose inputs are quantized where their format asks for it."""


def converted(x: InferenceLinear, operators: Sequence[Operator]) -> list[Operator]:
    """Return a layer's operators with what converts operands of its products, unless the kernels before them do.

    Weights are written out in 16 bits before products that the engine or the library computes so: llama.cpp does in all
    products of prompts, and casts their results; bitsandbytes in those of more than one row. Inputs are quantized.
    """
    found: list[Operator] = []
    for op in operators:
        products = _around(x, op) if isinstance(op, Matmul) else [op]
        around = [one for each in products for one in (*_quantization(x, each), each)]
        found += around if op.group is None else [replace(each, group=op.group) for each in around]
    return found


def _quantization(x: InferenceLinear, op: Operator) -> Sequence[Operator]:
    """The kernel that quantizes the input of a matmul; nothing before one that takes it as it is."""
    if not isinstance(op, PRODUCTS) or op.element_bytes >= x.element_bytes or x.fuses("quantization"):
        return ()
    inputs = op.batch * op.m * op.k if isinstance(op, Matmul) else op.rows * op.k
    elements = inputs * (1.0 + op.element_bytes / x.element_bytes)
    return [x.stream(op.module, "quantization", "copy", elements, count=op.count)]


def _around(x: InferenceLinear, op: Matmul) -> list[Operator]:
    if x.expands_weights:
        return _expanded(x, op)
    if x.engine.llama_cpp.product_columns and not x.decode and op.kernel in UNPACKING_IN_PRODUCT:
        return [_unpacking(x, op), op]
    return _by_rows(x, op) if op.kernel in SINGLE_ROW_KERNELS else [op]


def _by_rows(x: InferenceLinear, op: Matmul) -> list[Operator]:
    """One row as it is, more of them after the weights were written out."""
    many = np.greater(op.m, 1.0) * 1.0
    plain = Matmul(**{f.name: getattr(op, f.name) for f in fields(Matmul)})
    expanded = [replace(each, count=each.count * many) for each in _expanded(x, plain)] if anywhere(many) else []
    return [*expanded, *([] if np.all(many) else [replace(op, count=op.count * (1.0 - many))])]


def _unpacking(x: InferenceLinear, op: Matmul) -> Operator:
    """What the product's own kernel does besides multiplying: each tile of columns unpacks all weights again."""
    tiles = np.ceil(op.m / x.engine.llama_cpp.product_columns)
    inside = x.stream(op.module, "unpack weights", "copy", 0.0, kernels=0.0, count=op.count)
    return replace(inside, arithmetic=UNPACKING_IN_PRODUCT[op.kernel] * op.batch * op.n * op.k * tiles)


def _expanded(x: InferenceLinear, op: Matmul) -> list[Operator]:
    own, plain = x.element_bytes, x.formats.operands[x.formats.plain]
    stored = plain.weight_bytes if op.weight_bytes is None else op.weight_bytes
    product = replace(op, kernel=x.formats.plain, weight_bytes=plain.weight_bytes, stored_bytes=stored, kernels=1.0)
    around: list[Operator] = [replace(product, output_bytes=plain.activation_bytes)]
    if op.kernel != x.formats.plain:
        elements = op.batch * op.n * op.k * (stored + plain.weight_bytes) / own
        expansion = x.stream(op.module, "expand weights", "copy", elements, kernels=op.kernels, count=op.count)
        around.insert(0, replace(expansion, arithmetic=UNPACKING * op.batch * op.n * op.k))
    if own > plain.activation_bytes:
        elements = op.batch * op.m * op.n * (1.0 + plain.activation_bytes / own)
        around.append(x.stream(op.module, "widen", "copy", elements, count=op.count))
    return around
