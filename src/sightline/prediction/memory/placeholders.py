"""Tensors that stand in for weight gradients which were added up inside their matmuls already.

PyTorch wants a gradient for every weight, so the matmul's wrapper returns an empty one of the weight's shape.
TransformerEngine keeps one per shape for as long as it trains; Megatron-Core makes the head's anew each time.
"""

from collections.abc import Mapping, Sequence

from sightline.program import Block, Matmul, Program
from sightline.quantities import Number, identity, larger

Shapes = Mapping[tuple[object, object], Number]
"""Elements of each shape of weight."""


def of_layers(kinds: Sequence[Number], shapes: Sequence[Shapes], element_bytes: float) -> Number:
    """Bytes of one placeholder for each shape of weight in ``kinds`` layers of each kind; experts share theirs."""
    there: dict[tuple[object, object], tuple[Number, Number]] = {}
    for count, of_kind in zip(kinds, shapes, strict=True):
        for key, elements in of_kind.items():
            before = there[key][1] if key in there else 0.0
            there[key] = (elements, larger(before, 1.0 * (count > 0)))
    return sum(element_bytes * elements * present for elements, present in there.values())


def of_head(program: Program, element_bytes: float) -> Number:
    """Bytes of the head's placeholder."""
    return sum(element_bytes * elements for elements in _shapes(program.head).values())


def layer_shapes(program: Program) -> list[Shapes]:
    """Return the shapes of weights with gradients in each kind of layer."""
    return [_shapes(block, "head") for block in program.layers]


def _shapes(block: Block, other_block: str = "") -> Shapes:
    """Elements of each shape of weight that gets a gradient; routers are kept apart in fp32.

    Weights of the module ``other_block`` are another block's.
    """
    return {
        (identity(op.m), identity(op.n)): op.m * op.n
        for op in block.backward
        if isinstance(op, Matmul) and op.makes_own_weight_gradient and op.module not in ("router", other_block)
    }
