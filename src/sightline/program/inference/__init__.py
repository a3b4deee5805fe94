"""Passes of inference written out: prefill and decode, block kind by block kind."""

from sightline.program.inference.operators import (
    CachedAttention,
    GatedDelta,
    GroupedMatmul,
    Indexer,
    MatrixVector,
    SelectedAttention,
    ShortConvolution,
    StateSpaceScan,
)
from sightline.program.inference.passes import Block, Pass, write_pass
from sightline.program.inference.shapes import PassShapes

__all__ = [
    "Block",
    "CachedAttention",
    "GatedDelta",
    "GroupedMatmul",
    "Indexer",
    "MatrixVector",
    "Pass",
    "PassShapes",
    "SelectedAttention",
    "ShortConvolution",
    "StateSpaceScan",
    "write_pass",
]
