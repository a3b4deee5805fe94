"""Tensor and sequence parallelism: the collectives they add around the sharded projections.

Megatron (arXiv 1909.08053) sums the partial products of the row-split projections; sequence parallelism (arXiv 2205.05198)
replaces each all-reduce by an all-gather and a reduce-scatter of the same total volume. Degree 1 adds nothing.
"""

import numpy as np

from sightline.program.low_precision import gathered_share
from sightline.program.operators import Collective, CollectiveKind
from sightline.program.shapes import Shapes
from sightline.quantities import Number


def _collective(x: Shapes, module: str, kind: CollectiveKind, count: Number, share: float = 1.0) -> Collective:
    buffer = x.hidden_bytes * share
    return Collective(module=module, name=kind.replace("_", "-"), kind=kind, buffer_bytes=buffer, count=count)


def enter_region(x: Shapes, module: str) -> list[Collective]:
    """Forward before a column-split projection: with sequence parallelism the sequence is gathered.

    Below 16 bits it is quantized first.
    """
    return [_collective(x, module, "all_gather", x.split, gathered_share(x))] if np.any(x.split) else []


def leave_region(x: Shapes, module: str) -> list[Collective]:
    """Forward after a row-split projection: partial sums are reduced, scattered with sequence parallelism."""
    if not np.any(x.t > 1):
        return []
    operators = [_collective(x, module, "all_reduce", (x.t > 1) * (1.0 - x.split))]
    if np.any(x.split):
        operators.append(_collective(x, module, "reduce_scatter", x.split))
    return operators
