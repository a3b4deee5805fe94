"""What surrounds products in engines that keep activations and weights in other formats than the library computes in."""

from collections.abc import Sequence
from dataclasses import replace

from sightline.program.inference.shapes import PassShapes
from sightline.program.operators import Matmul, Operator

UNPACKING = 12.0
"""Vector instructions that unpack and scale a weight; estimated."""


def expanded(x: PassShapes, operators: Sequence[Operator]) -> list[Operator]:
    """The same with every product in plain 16 bits, its weights written out before it and its result widened after it.

    llama.cpp computes prompts so: weights are read in their own format, written and read again in 16 bits.
    """
    if not x.expands_weights:
        return list(operators)
    return [each for op in operators for each in (_expanded(x, op) if isinstance(op, Matmul) else [op])]


def _expanded(x: PassShapes, op: Matmul) -> list[Operator]:
    wide, plain = x.element_bytes, x.formats.operands[x.formats.plain]
    stored = plain.weight_bytes if op.weight_bytes is None else op.weight_bytes
    around: list[Operator] = [
        replace(op, kernel=x.formats.plain, weight_bytes=plain.weight_bytes, output_bytes=plain.activation_bytes)
    ]
    if op.kernel != x.formats.plain:
        elements = op.batch * op.n * op.k * (stored + plain.weight_bytes) / wide
        expansion = x.stream(op.module, "copy", elements, name="expand weights", count=op.count)
        around.insert(0, replace(expansion, arithmetic=UNPACKING * op.batch * op.n * op.k))
    if wide > plain.activation_bytes:
        elements = op.batch * op.m * op.n * (1.0 + plain.activation_bytes / wide)
        around.append(x.stream(op.module, "copy", elements, name="widen", count=op.count))
    return around
