"""Context parallelism: a sequence is cut over ranks, which see each other's keys and values in attention alone.

Four exchanges. *Ring*: blocks of keys and values go round while attention works on those at hand (arXiv 2310.01889);
every rank has an early and a late chunk, so that the causal mask leaves all the same work (zig-zag). *All-gather*:
keys and values are gathered first (Llama 3, arXiv 2407.21783). *All-to-all*: ranks swap tokens for heads before attention
and back after it (Ulysses, arXiv 2309.14509). *Mixed*: all-to-all among some ranks, a ring over the others (arXiv
2405.07719). Degree 1 adds nothing.

Legend as in `sightline.program.shapes`; ``n`` ranks on the ring.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sightline.program.attention import MODULE, Scores, core_backward, core_forward, flash, scores_of
from sightline.program.operators import (
    Collective,
    CollectiveCompany,
    CollectiveKind,
    CollectiveRanks,
    Elementwise,
    Operator,
)
from sightline.program.shapes import Shapes
from sightline.quantities import Number
from sightline.scenario import LayerKind

FURTHER_CHUNKS = ("flash attention to earlier keys", "flash attention of later queries")
"""Kernels that work on blocks from other ranks: half of these hold keys that all own queries see, of which only the
early half, half of them keys that only the own late queries see."""
EXCHANGE = ("keys and values", "heads for tokens", "tokens for heads", "layout of chunks", "chunks joined")
"""Other operators that the exchange adds to the forward pass."""
TOUCHED = 0.75
"""Share of a rank's tokens that a block from another rank has to do with: all, or half of the queries or keys."""


def spread_forward(x: Shapes, kind: LayerKind, kernel: str) -> list[Operator]:
    """Return the attention core's forward operators, with what its ranks exchange."""
    if not np.any(np.asarray(x.c) > 1):
        return core_forward(x, kind, kernel)
    inner = _with_shared_heads(x)
    return [
        *_swap(x, _qkv_bytes(x, inner), "heads for tokens"),
        *_inner_core(inner, kind, kernel, backward=False),
        *_swap(x, _output_bytes(x), "tokens for heads"),
    ]


def spread_backward(x: Shapes, kind: LayerKind, kernel: str) -> list[Operator]:
    """Return the attention core's backward operators, with what its ranks exchange."""
    if not np.any(np.asarray(x.c) > 1):
        return core_backward(x, kind, kernel)
    inner = _with_shared_heads(x)
    return [
        *_swap(x, _output_bytes(x), "heads for tokens"),
        *_inner_core(inner, kind, kernel, backward=True),
        *_swap(x, _qkv_bytes(x, inner), "tokens for heads"),
    ]


def exchange_bytes(x: Shapes) -> Number:
    """Return the bytes of what an exchange holds beside kept activations at its fullest, in the backward pass.

    On a ring the blocks at work and on their way, of keys and values and of their gradients; gathered keys and values
    and their gradients; or swapped queries, keys and values and their gradients.
    """
    if not np.any(np.asarray(x.c) > 1):
        return 0.0
    inner = _with_shared_heads(x)
    swapped = 2.0 * _qkv_bytes(x, inner) * (np.asarray(x.y) > 1)
    if x.exchange == "all-gather":
        return swapped + 2.0 * x.c * _block_bytes(x) * (np.asarray(x.c) > 1)
    return swapped + 4.0 * _block_bytes(inner) * (x.c / x.y > 1)


def _with_shared_heads(x: Shapes) -> Shapes:
    """The sizes between the swaps: ``y`` times the tokens of 1 / y of the heads."""
    return replace(x, s=x.s * x.y, t=x.t * x.y)


def _inner_core(x: Shapes, kind: LayerKind, kernel: str, *, backward: bool) -> list[Operator]:
    if x.exchange == "all-to-all":
        return core_backward(x, kind, kernel) if backward else core_forward(x, kind, kernel)
    # Selected tokens lie anywhere.
    if x.exchange == "all-gather" or kind.mixer == "sparse":
        return _gathered(x, kind, backward=backward)
    return _ring(x, backward=backward)


def _ring(x: Shapes, *, backward: bool) -> list[Operator]:
    """Own keys under the causal mask, then n - 1 blocks of which the mask leaves half, each sent on meanwhile.

    Backward, gradients of keys and values travel with them and one hop more, back to where they belong.
    """
    n, b, s = x.c / x.y, x.b * x.documents, x.s / x.documents
    hops, block = n - 1.0, _block_bytes(x)
    own = flash(x, Scores(b, s, s, causal=True), backward=backward)
    further = [
        replace(flash(x, scores, backward=backward), name=name, count=hops / 2.0, saved_bytes=0.0)
        for name, scores in zip(
            FURTHER_CHUNKS,
            (
                Scores(b, s, s / 2.0, causal=False, unseen=0.5),
                Scores(b, s / 2.0, s, causal=False, unseen=0.5),
            ),
            strict=True,
        )
    ]
    results = x.query_width + x.key_width + x.value_width if backward else x.context_width
    joined = Elementwise(
        module=MODULE,
        name="chunks joined",
        count=hops,
        traffic_bytes=3.0 * TOUCHED * x.element_bytes * x.tokens * results,
        kernels=2.0,
        elements=x.tokens * results,
    )
    sent = block * (2.0 if backward else 1.0)
    home = [_collective("send_recv", block, (n > 1) * 1.0, "context ring", "nothing")] if backward else []
    return [_collective("send_recv", sent, hops, "context ring", "attention"), own, *further, joined, *home]


def _gathered(x: Shapes, kind: LayerKind, *, backward: bool) -> list[Operator]:
    """All keys and values, then a kernel for each of the two chunks of queries; backward sums the gradients up."""
    many = np.asarray(x.c) > 1
    whole = _block_bytes(x) * x.c
    gathered = [
        _collective("all_gather", whole, many * 1.0, "context", "nothing"),
        _layout(whole, many * 1.0),
    ]
    whole_scores = scores_of(x, kind)
    core = flash(x, whole_scores, backward=backward)
    if core.causal and kind.mixer != "chunked":
        # Chunk i of 2 c sees i + 1 of them, chunk 2 c - 1 - i the others and one: 2 c + 1 for the two.
        kernels = 1.0 + many
        scores = Scores(
            whole_scores.sequences,
            whole_scores.queries / kernels,
            whole_scores.keys * np.where(many, (2.0 * x.c + 1.0) / (4.0 * x.c), 1.0),
            causal=True,
            unseen=np.where(many, (2.0 * x.c - 1.0) / (4.0 * x.c), 0.0),
        )
        core = replace(flash(x, scores, backward=backward), count=kernels * 1.0, saved_bytes=core.saved_bytes / kernels)
    summed = [_layout(whole, many * 1.0), _collective("reduce_scatter", whole, many * 1.0, "context", "nothing")]
    return [*gathered, core, *(summed if backward else [])]


def _swap(x: Shapes, size: Number, name: str) -> list[Operator]:
    """Ranks swap heads for tokens or back; data is brought in order before and after."""
    many = (np.asarray(x.y) > 1) * 1.0
    if not np.any(many):
        return []
    swap = _collective("all_to_all", size, many, "context heads", "nothing")
    return [_layout(2.0 * size, many), replace(swap, name=name)]


def _layout(size: Number, count: Number) -> Elementwise:
    """A copy that puts chunks in order."""
    return Elementwise(
        module=MODULE, name="layout of chunks", traffic_bytes=2.0 * size, kernels=2.0, count=count, elements=size
    )


def _collective(
    kind: CollectiveKind, size: Number, count: Number, ranks: CollectiveRanks, beside: CollectiveCompany
) -> Collective:
    return Collective(
        module=MODULE,
        name="keys and values",
        kind=kind,
        buffer_bytes=size,
        count=count,
        ranks=ranks,
        beside=beside,
    )


def _block_bytes(x: Shapes) -> Number:
    """Keys and values of a rank's tokens."""
    return x.element_bytes * x.tokens * (x.key_width + x.value_width)


def _qkv_bytes(x: Shapes, inner: Shapes) -> Number:
    """Queries, keys and values that a rank hands out; key heads that are fewer than the ranks go to several."""
    return x.element_bytes * x.tokens * (x.query_width + x.y * (inner.key_width + inner.value_width))


def _output_bytes(x: Shapes) -> Number:
    return x.element_bytes * x.tokens * x.context_width


RECOMPUTED: Sequence[str] = (*FURTHER_CHUNKS, *EXCHANGE)
"""What recomputing the attention core runs again beside the core itself."""
