"""Activation recomputation: which forward operators run again and what is kept instead (arXiv 2205.05198)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sightline.program.operators import Operator
from sightline.program.program import Block
from sightline.program.shapes import Shapes

SELECTIVE_NAMES = ("scores", "softmax", "alibi", "dropout", "context", "flash attention")
"""The attention core: cheap to recompute, large to keep."""


def with_recompute(block: Block, kind: str, x: Shapes, *, stops_early: bool) -> Block:
    """Return ``block`` (a layer) with the recomputation ``kind``: none, selective (attention core) or full.

    Full recomputation runs the whole forward pass again or, stopping early, up to the last operator that keeps
    something, whose kept input is then there.
    """
    if kind == "none":
        return block
    if kind == "full":
        again = _up_to_last_kept(block.forward) if stops_early else block.forward
        return replace(block, recomputed=again, checkpoint_bytes=x.residual_bytes, whole=True)
    core = [op for op in block.forward if op.module == "attention core" and op.name in SELECTIVE_NAMES]
    # The core starts from queries, keys and values.
    return replace(block, recomputed=core, checkpoint_bytes=x.element_bytes * x.tokens * x.qkv_width)


def _up_to_last_kept(forward: Sequence[Operator]) -> Sequence[Operator]:
    last = max(i for i, op in enumerate(forward) if np.any(op.saved_bytes > 0))
    return forward[:last]
