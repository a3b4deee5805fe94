"""Activation recomputation: which forward operators run again and what is kept instead (arXiv 2205.05198)."""

from collections.abc import Sequence
from dataclasses import replace

from sightline.program.operators import Operator
from sightline.program.program import Block
from sightline.program.shapes import Shapes

SELECTIVE_NAMES = ("scores", "softmax", "alibi", "dropout", "context", "flash attention")
"""The attention core: cheap to recompute, large to keep."""


def with_recompute(block: Block, kind: str, x: Shapes) -> Block:
    """Return ``block`` (a layer) with the recomputation ``kind``: none, selective (attention core) or full."""
    if kind == "none":
        return block
    if kind == "full":
        return replace(block, recomputed=block.forward, checkpoint_bytes=x.residual_bytes, whole=True)
    core = [op for op in block.forward if op.module == "attention core" and op.name in SELECTIVE_NAMES]
    return replace(block, forward=_keeping_inputs(block.forward, core, x), recomputed=core)


def _keeping_inputs(forward: Sequence[Operator], core: Sequence[Operator], x: Shapes) -> list[Operator]:
    """Queries, keys and values, which the recomputed core starts from, stay kept: by the projection that made them."""
    again = {id(op) for op in core}
    kept = x.element_bytes * x.tokens * x.qkv_width
    out: list[Operator] = []
    for op in forward:
        if op.module == "qkv" and op.name == "matmul":
            op = replace(op, saved_bytes=op.saved_bytes + kept)
        out.append(op)
    if not again:
        return list(forward)
    return out
