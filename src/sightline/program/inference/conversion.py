"""What surrounds products in engines that keep activations and weights in other formats than the library computes in."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from sightline.program.inference.shapes import PassShapes
from sightline.program.operators import Matmul, Operator

UNPACKING = 12.0
"""Vector instructions that unpack and scale a weight; estimated."""
SINGLE_ROW_KERNELS = frozenset({"nf4"})
"""Formats whose library multiplies packed weights with one row only (bitsandbytes), whatever engine calls it."""


def expanded(x: PassShapes, operators: Sequence[Operator]) -> list[Operator]:
    """The same with weights written out in 16 bits before products that the engine or the library computes so.

    llama.cpp does in all products of prompts, and widens their results; bitsandbytes in those of more than one row.
    """
    return [each for op in operators for each in _around(x, op)]


def _around(x: PassShapes, op: Operator) -> list[Operator]:
    if not isinstance(op, Matmul):
        return [op]
    if x.expands_weights:
        return _expanded(x, op)
    return _by_rows(x, op) if op.kernel in SINGLE_ROW_KERNELS else [op]


def _by_rows(x: PassShapes, op: Matmul) -> list[Operator]:
    """One row as it is, more of them after the weights were written out."""
    many = np.greater(op.m, 1.0) * 1.0
    plain = Matmul(**{f.name: getattr(op, f.name) for f in fields(Matmul)})
    wide = [replace(each, count=each.count * many) for each in _expanded(x, plain)] if np.any(many) else []
    return [*wide, *([] if np.all(many) else [replace(op, count=op.count * (1.0 - many))])]


def _expanded(x: PassShapes, op: Matmul) -> list[Operator]:
    wide, plain = x.element_bytes, x.formats.operands[x.formats.plain]
    stored = plain.weight_bytes if op.weight_bytes is None else op.weight_bytes
    product = replace(op, kernel=x.formats.plain, weight_bytes=plain.weight_bytes, stored_bytes=stored, kernels=1.0)
    around: list[Operator] = [replace(product, output_bytes=plain.activation_bytes)]
    if op.kernel != x.formats.plain:
        elements = op.batch * op.n * op.k * (stored + plain.weight_bytes) / wide
        expansion = x.stream(op.module, "copy", elements, kernels=op.kernels, name="expand weights", count=op.count)
        around.insert(0, replace(expansion, arithmetic=UNPACKING * op.batch * op.n * op.k))
    if wide > plain.activation_bytes:
        elements = op.batch * op.m * op.n * (1.0 + plain.activation_bytes / wide)
        around.append(x.stream(op.module, "copy", elements, name="widen", count=op.count))
    return around
