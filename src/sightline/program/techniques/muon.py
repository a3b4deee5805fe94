"""Muon (arXiv 2502.16982): the momentum of every matrix of the layers is orthogonalized before it is applied.

Newton-Schulz iterations X <- a X + (b A + c A^2) X with A = X X^T, on each matrix transposed so that it has no more
rows than columns, in 16 bits. Tensor-parallel ranks orthogonalize the piece they hold (Megatron-Core's ``blockwise``);
queries, keys, values and a gate are matrices of their own. Embedding, head, norms and biases stay with AdamW.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sightline.program.operators import Matmul, Operator, Part
from sightline.program.program import Block, moving
from sightline.quantities import Number, larger, smaller

MODULE: Final = "optimizer"
ITERATIONS = 5.0
ELEMENT_BYTES = 2.0
AROUND_BYTES = 14.0
"""Bytes per element besides the products: momentum in, cast, norm, scaling, and the update added to the weight."""


def with_muon(block: Block, dtype: str) -> Block:
    """Return a layer whose trained matrices are orthogonalized in ``dtype`` once per step."""
    gradients = [op for op in block.backward if isinstance(op, Matmul) and op.makes_own_weight_gradient]
    operators: list[Operator] = []
    for op in gradients:
        # A share of 0 is no matrix: values that are keys.
        for share in filter(None, op.shares or (1.0,)):
            operators += _newton_schulz(op.batch, op.m * share, op.n, dtype)
    return replace(block, update=operators, matrix_parameters=sum(op.batch * op.m * op.n for op in gradients))


def _newton_schulz(matrices: Number, outputs: Number, inputs: Number, dtype: str) -> Sequence[Operator]:
    """One set of matrices: A, A^2, and their sum times X, five times, and what lies around them."""
    rows, columns = smaller(outputs, inputs), larger(outputs, inputs)
    sizes: dict[Part, tuple[Number, Number, Number]] = {
        "orthogonalization gram": (rows, rows, columns),
        "orthogonalization square": (rows, rows, rows),
        "orthogonalization product": (rows, columns, rows),
    }
    products: list[Operator] = [
        Matmul(
            module=MODULE,
            part=part,
            direction="update",
            count=ITERATIONS,
            m=m,
            n=n,
            k=k,
            batch=matrices,
            dtype=dtype,
            element_bytes=ELEMENT_BYTES,
            # The product before is added in the same kernel.
            output_bytes=ELEMENT_BYTES if part == "orthogonalization gram" else 2.0 * ELEMENT_BYTES,
        )
        for part, (m, n, k) in sizes.items()
    ]
    elements = matrices * rows * columns
    around = moving(
        MODULE, "orthogonalization norm", AROUND_BYTES * elements, 6.0, direction="update", elements=elements
    )
    return [*products, around]
