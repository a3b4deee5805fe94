"""Products as a model's own layers call them: a kernel for each projection, or for each rank's tokens.

Elsewhere queries, keys and values are one product, and so are gate and up, as frameworks fuse them. A model that keeps
them apart reads their input several times, has narrow products - of one key head, under tensor parallelism - and sums
the gradients of their inputs in a kernel of its own.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.training_shapes import TrainingShapes


def apart(x: TrainingShapes, operators: Sequence[Operator]) -> list[Operator]:
    """Return the operators of one pass of a linear layer with the products of its parts apart; the first keeps the input."""
    if not x.framework.native.separate_projections:
        return list(operators)
    return [part for operator in operators for part in _parts(x, operator)]


def chunked(x: TrainingShapes, operator: Operator) -> Operator:
    """Return a product beside a collective that is cut by rank: a kernel for every rank's tokens; itself where none is."""
    if not x.framework.native.chunked_products or not isinstance(operator, Matmul) or not np.any(x.split):
        return operator
    return replace(operator, m=operator.m / x.r, count=operator.count * x.r, saved_bytes=operator.saved_bytes / x.r)


def _parts(x: TrainingShapes, operator: Operator) -> list[Operator]:
    shares = [share for share in operator.shares if share > 0.0] if isinstance(operator, Matmul) else []
    if not isinstance(operator, Matmul) or len(shares) < 2:
        return [operator]
    match operator.direction:
        case "input gradient":
            products = [replace(operator, k=operator.k * share, shares=(1.0,)) for share in shares]
            return [*products, _summed(x, operator, len(shares))]
        case "weight gradient":
            rows = [operator.m * share for share in shares]
            return [replace(operator, m=m, input_row=m, shares=(1.0,)) for m in rows]
        case _:
            products = [replace(operator, n=operator.n * share, shares=(1.0,)) for share in shares]
            return [products[0], *(replace(product, saved_bytes=0.0) for product in products[1:])]


def _summed(x: TrainingShapes, operator: Matmul, parts: int) -> Elementwise:
    elements = operator.batch * operator.m * operator.n
    return Elementwise(
        module=operator.module,
        part="input gradients summed",
        traffic_bytes=(parts + 1.0) * x.element_bytes * elements,
        elements=elements,
    )
