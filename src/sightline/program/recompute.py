"""Activation recomputation: which forward operators run again and what is kept instead (arXiv 2205.05198)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sightline.program.context_parallel import RECOMPUTED
from sightline.program.operators import Operator
from sightline.program.program import Block
from sightline.quantities import Number

SELECTIVE_NAMES = ("scores", "softmax", "alibi", "dropout", "context", "flash attention", *RECOMPUTED)
"""The attention core: cheap to recompute, large to keep."""


def with_recompute(
    block: Block, kind: str, input_bytes: Number, core_input_bytes: Number, *, stops_early: bool
) -> Block:
    """Return ``block`` (a layer) with the recomputation ``kind``: none, selective (attention core) or full.

    Full recomputation runs the whole forward pass again or, stopping early, up to the last operator that keeps
    something, whose kept input is then there. It starts from the layer's input, of ``input_bytes``; the core starts
    from queries, keys and values, ``core_input_bytes`` of them.
    """
    if kind == "none":
        return block
    if kind == "full":
        again = _up_to_last_kept(block.forward) if stops_early else block.forward
        return replace(block, recomputed=again, checkpoint_bytes=input_bytes, whole=True)
    core = [op for op in block.forward if op.module == "attention core" and op.name in SELECTIVE_NAMES]
    return replace(block, recomputed=core, checkpoint_bytes=core_input_bytes if core else 0.0)


def _up_to_last_kept(forward: Sequence[Operator]) -> Sequence[Operator]:
    last = max(i for i, op in enumerate(forward) if np.any(op.saved_bytes > 0))
    return forward[:last]
