"""Tensor and sequence parallelism: the collectives they add around the sharded projections.

Megatron (arXiv 1909.08053) sums the partial products of the row-split projections; sequence parallelism (arXiv 2205.05198)
replaces each all-reduce by an all-gather and a reduce-scatter of the same total volume. Degree 1 adds nothing.
"""

import numpy as np

from sightline.program.low_precision import gathered_share
from sightline.program.operators import Collective, CollectiveKind
from sightline.program.shapes import Shapes
from sightline.quantities import Number


def enter_region(x: Shapes, module: str) -> list[Collective]:
    """Forward before a column-split projection: with sequence parallelism the sequence is gathered.

    Below 16 bits it is quantized first.
    """
    return gathered(x, module, x.hidden_bytes * gathered_share(x))


def reenter_region(x: Shapes, module: str) -> list[Collective]:
    """Backward before the weight gradient of a column-split projection: its input is gathered again, unless kept whole."""
    return [] if x.framework.keeps_gathered_inputs else enter_region(x, module)


def entered_bytes(x: Shapes) -> Number:
    """Return the bytes that a column-split projection keeps of its input at 16 bits: its piece, or all that it gathered."""
    return x.hidden_bytes if x.framework.keeps_gathered_inputs else x.residual_bytes


def leave_region(x: Shapes, module: str) -> list[Collective]:
    """Forward after a row-split projection: partial sums are reduced, scattered with sequence parallelism."""
    return summed(x, module, x.hidden_bytes)


def gathered(x: Shapes, module: str, size: Number) -> list[Collective]:
    """Return how a tensor of ``size`` bytes that sequence parallelism has cut is gathered."""
    return [_collective(module, "all_gather", size, x.split)] if np.any(x.split) else []


def summed(x: Shapes, module: str, size: Number) -> list[Collective]:
    """Return how partial sums of ``size`` bytes are added up, and scattered with sequence parallelism."""
    if not np.any(x.t > 1):
        return []
    operators = [_collective(module, "all_reduce", size, (x.t > 1) * (1.0 - x.split))]
    if np.any(x.split):
        operators.append(_collective(module, "reduce_scatter", size, x.split))
    return operators


def _collective(module: str, kind: CollectiveKind, size: Number, count: Number) -> Collective:
    return Collective(module=module, name=kind.replace("_", "-"), kind=kind, buffer_bytes=size, count=count)
