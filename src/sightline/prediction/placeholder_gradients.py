"""Tensors that stand in for weight gradients which were added up inside their matmuls already.

PyTorch wants a gradient for every weight, so the matmul's wrapper returns an empty one of the weight's shape.
TransformerEngine keeps one per shape for as long as it trains; Megatron-Core makes the head's anew each time.
"""

from collections.abc import Sequence

import numpy as np

from sightline.program import Block, Matmul, Program
from sightline.quantities import Number, identity

_Shapes = dict[tuple[object, object], tuple[Number, Number]]


def of_layers(program: Program, kinds: Sequence[Number], element_bytes: float) -> Number:
    """Bytes of one placeholder for each shape of weight in ``kinds`` layers of each kind; experts share theirs."""
    shapes: _Shapes = {}
    for count, block in zip(kinds, program.layers, strict=True):
        for key, (elements, _) in _shapes(block, "head").items():
            present = shapes[key][1] if key in shapes else 0.0
            shapes[key] = (elements, np.maximum(present, 1.0 * (np.asarray(count) > 0)))
    return sum(element_bytes * elements * present for elements, present in shapes.values())


def of_head(program: Program, element_bytes: float) -> Number:
    """Bytes of the head's placeholder."""
    return sum(element_bytes * elements for elements, _ in _shapes(program.head).values())


def _shapes(block: Block, elsewhere: str = "") -> _Shapes:
    """Elements of each shape of weight that gets a gradient, its presence left open; routers are kept apart in fp32.

    Weights of the module ``elsewhere`` are another block's.
    """
    return {
        (identity(op.m), identity(op.n)): (op.m * op.n, 1.0)
        for op in block.backward
        if isinstance(op, Matmul) and op.makes_own_weight_gradient and op.module not in ("router", elsewhere)
    }
