"""Attention of a split sequence in blocks: a kernel for the keys of each rank in turn, and what joins their results.

Under the causal mask every rank has an early and a late chunk (zig-zag), so that all have the same work (arXiv
2310.01889). Libraries differ in what goes round and how results are joined: in the compute dtype next to the kernels
(TransformerEngine), or in fp32 (torch.distributed.tensor.experimental), where gathered keys, too, are worked on block
by block and gradients of keys and values travel in fp32 by a message per block.

Legend as in `sightline.program.shapes`; ``n`` ranks on the ring.
"""

from dataclasses import replace
from functools import partial

from sightline.program.address import ATTENTION_CORE, Part
from sightline.program.attention_core import Scores, flash
from sightline.program.operators import (
    Elementwise,
    FlashAttention,
    Operator,
    OverlappedWith,
    collective,
)
from sightline.program.program import moving
from sightline.program.shapes import TrainingShapes
from sightline.quantities import Number

FURTHER_CHUNKS: tuple[Part, ...] = ("flash attention to earlier keys", "flash attention of later queries")
"""Kernels that work on blocks from other ranks: half of these hold keys that all own queries see, of which only the
early half, half of them keys that only the own late queries see."""
exchanged = partial(collective, ATTENTION_CORE, part="keys and values")
"""A collective of keys and values among the ranks of a sequence."""
TOUCHED = 0.75
"""Share of a rank's tokens that a block from another rank has to do with: all, or half of the queries or keys."""
FP32 = 4.0


def blocks(x: TrainingShapes, *, backward: bool) -> list[Operator]:
    """Own keys under the causal mask, then n - 1 blocks of which the mask leaves half, and what ranks exchange."""
    n = x.c / x.y
    if not x.framework.native.joins_attention_in_fp32:
        return _ring(x, n, backward=backward)
    return _joined_in_fp32_backward(x, n) if backward else _joined_in_fp32_forward(x, n)


def block_bytes(x: TrainingShapes) -> Number:
    """Return the bytes of keys and values of a rank's tokens."""
    return x.element_bytes * x.tokens * (x.key_width + x.value_width)


def live_bytes(x: TrainingShapes) -> Number:
    """Return the bytes of the blocks at work and on their way in the backward pass, and of fp32 sums."""
    block = block_bytes(x)
    if not x.framework.native.joins_attention_in_fp32:
        return 4.0 * block
    ratio = FP32 / x.element_bytes
    kept = x.c * block if x.plan.context_exchange == "all-gather" else 2.0 * block
    # Gradients of keys and values at hand, joined for the journey, and received; those of queries, added up.
    return kept + 3.0 * ratio * block + FP32 * x.tokens * x.query_width


def layout(size: Number, count: Number) -> Elementwise:
    """Return a copy that puts chunks in order."""
    return moving(ATTENTION_CORE, "layout of chunks", 2.0 * size, 2.0, count=count, elements=size)


def _kernels(x: TrainingShapes, n: Number, *, backward: bool) -> list[FlashAttention]:
    b, s = x.b * x.documents, x.s / x.documents
    further = (Scores(b, s, s / 2.0, causal=False, unseen=0.5), Scores(b, s / 2.0, s, causal=False, unseen=0.5))
    return [
        flash(x, Scores(b, s, s, causal=True), backward=backward),
        *(
            replace(flash(x, scores, backward=backward, part=part), count=(n - 1.0) / 2.0, saved_bytes=0.0)
            for part, scores in zip(FURTHER_CHUNKS, further, strict=True)
        ),
    ]


def _ring(x: TrainingShapes, n: Number, *, backward: bool) -> list[Operator]:
    """Each block is sent on while it is worked on.

    Backward, gradients of keys and values travel with them and one hop more, back to where they belong.
    """
    hops, block = n - 1.0, block_bytes(x)
    results = x.query_width + x.key_width + x.value_width if backward else x.context_width
    traffic = 3.0 * TOUCHED * x.element_bytes * x.tokens * results
    sent = block * (2.0 if backward else 1.0)
    home = exchanged("send_recv", block, n > 1, ranks="context ring", overlapped_with="nothing") if backward else []
    return [
        *exchanged("send_recv", sent, hops, ranks="context ring", overlapped_with="attention"),
        *_kernels(x, n, backward=backward),
        _joined(traffic, hops, x.tokens * results),
        *home,
    ]


def _joined_in_fp32_forward(x: TrainingShapes, n: Number) -> list[Operator]:
    """Each block's result weighs into the ones before: their difference times a sigmoid of the rows' sums.

    Compiled, that is a kernel which reads a 16-bit and an fp32 tensor and writes an fp32 one. Called one by one it is
    a cast, a difference, a product and another difference, and the half of the results that a block with few queries
    leaves alone is copied.
    """
    cast, whole = x.element_bytes + FP32, 2.0 * FP32
    one_by_one = TOUCHED * (cast + 3.0 * FP32 + 2.0 * FP32 + 3.0 * FP32) + 0.5 * whole
    traffic = x.element_bytes + whole if x.framework.native.waits_for_keys else one_by_one
    elements = x.tokens * x.context_width
    return [
        *_fetched(x, n),
        *_kernels(x, n, backward=False),
        _joined(traffic * elements, n - 1.0, elements, kernels=1.0 if x.framework.native.waits_for_keys else 6.0),
    ]


def _joined_in_fp32_backward(x: TrainingShapes, n: Number) -> list[Operator]:
    """Gradients of every block are added up in fp32; those of keys and values after a hop each, and go one hop more."""
    many, added = (n > 1) * 1.0, x.element_bytes + 2.0 * FP32
    moved = 2.0 * FP32
    # A sum in fp32, or half a sum and a copy of the rest; what is sent is put into one buffer first.
    queries = x.tokens * x.query_width * (TOUCHED * added + 0.25 * moved)
    keys = x.tokens * (x.key_width + x.value_width) * (TOUCHED * added + 0.25 * moved + moved)
    gradients = FP32 / x.element_bytes * block_bytes(x)
    overlapped_with: OverlappedWith = "nothing" if x.framework.native.waits_for_keys else "attention"
    return [
        *_fetched(x, n),
        *_kernels(x, n, backward=True),
        _joined(queries + keys, many * n, x.tokens * (x.query_width + x.key_width + x.value_width), kernels=5.0),
        *exchanged("send_recv", gradients, many * (n - 1.0), ranks="context ring", overlapped_with=overlapped_with),
        *exchanged("send_recv", gradients, many, ranks="context ring", overlapped_with="nothing"),
    ]


def _fetched(x: TrainingShapes, n: Number) -> list[Operator]:
    """Keys and values from the other ranks: gathered, or sent round; made contiguous and put into one buffer before."""
    many, block = (n > 1) * 1.0, block_bytes(x)
    overlapped_with: OverlappedWith = "nothing" if x.framework.native.waits_for_keys else "attention"
    gathers = x.plan.context_exchange == "all-gather"
    fetched = (
        exchanged("all_gather", block * n, many, ranks="context", overlapped_with=overlapped_with)
        if gathers
        else exchanged("send_recv", block, n - 1.0, ranks="context ring", overlapped_with=overlapped_with)
    )
    return [layout(2.0 * block, many), *fetched]


def _joined(traffic: Number, count: Number, elements: Number, kernels: float = 2.0) -> Elementwise:
    return moving(ATTENTION_CORE, "chunks joined", traffic, kernels, count=count, elements=elements)
