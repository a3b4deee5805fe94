"""Passes of inference written out: prefill and decode, block kind by block kind."""

from sightline.program.inference.operators import CachedAttention, GroupedMatmul, MatrixVector
from sightline.program.inference.passes import Block, Pass, write_pass
from sightline.program.inference.shapes import PassShapes

__all__ = [
    "Block",
    "CachedAttention",
    "GroupedMatmul",
    "MatrixVector",
    "Pass",
    "PassShapes",
    "write_pass",
]
