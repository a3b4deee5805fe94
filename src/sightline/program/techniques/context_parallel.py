"""Context parallelism: a sequence is split over ranks, which see each other's keys and values in attention alone.

Four exchanges. *Ring*: blocks of keys and values go round while attention works on those at hand. *All-gather*: keys
and values are gathered first (Llama 3, arXiv 2407.21783). *All-to-all*: ranks swap tokens for heads before attention
and back after it (Ulysses, arXiv 2309.14509). *Mixed*: all-to-all among some ranks, a ring over the others
(arXiv 2405.07719). Degree 1 adds nothing.

Legend as in `sightline.program.shapes`; ``n`` ranks on the ring.

Mixers that see the sequence otherwise than block by block have all its tokens: a state sees them one after the other,
so an all-to-all gives each rank all tokens of some heads, as Megatron-Core does around its Mamba layers. What all heads
share, such as the latent vectors that an indexer chooses from, is gathered, since any token may be chosen.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from math import gcd

import numpy as np

from sightline.program.attention_core import Scores, core, flash, scores_of
from sightline.program.operators import (
    ATTENTION_CORE,
    Elementwise,
    FlashAttention,
    Module,
    Operator,
    OverlappedWith,
    Part,
    collective,
)
from sightline.program.program import Step, moving
from sightline.program.shapes import TrainingShapes
from sightline.quantities import Count, Number, anywhere
from sightline.scenario import LayerKind, Model, Plan
from sightline.scenario.cluster import CollectiveKind

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


EXCHANGE: tuple[Part, ...] = (
    "keys and values",
    "heads for tokens",
    "tokens for heads",
    "layout of chunks",
    "chunks joined",
)
"""Other operators that the exchange adds to the forward pass."""


def split_core(x: TrainingShapes, kind: LayerKind) -> list[Step]:
    """Return the attention core's steps, with what the ranks of a split sequence exchange."""
    if not anywhere(x.c > 1):
        return core(x, kind)
    inner = _with_split_heads(x)
    queries_keys_values, outputs = _qkv_bytes(x, inner), x.element_bytes * x.tokens * x.context_width
    return [
        Step(_swap(x, queries_keys_values, "heads for tokens"), _swap(x, queries_keys_values, "tokens for heads")),
        *_inner_core(inner, kind),
        Step(_swap(x, outputs, "tokens for heads"), _swap(x, outputs, "heads for tokens")),
    ]


def exchange_bytes(x: TrainingShapes) -> Number:
    """Return the bytes of what an exchange holds besides kept activations at its fullest, in the backward pass.

    On a ring the blocks at work and on their way, of keys and values and of their gradients; gathered keys and values
    and their gradients; or swapped queries, keys and values and their gradients.
    """
    if not anywhere(x.c > 1):
        return 0.0
    inner = _with_split_heads(x)
    swapped = 2.0 * _qkv_bytes(x, inner) * (x.y > 1)
    if x.plan.context_exchange == "all-gather" and not x.framework.native.joins_attention_in_fp32:
        return swapped + 2.0 * x.c * block_bytes(x) * (x.c > 1)
    return swapped + live_bytes(inner) * (x.c / x.y > 1)


def _with_split_heads(x: TrainingShapes) -> TrainingShapes:
    """The sizes between the swaps: ``y`` times the tokens of 1 / y of the heads."""
    return replace(x, s=x.s * x.y, tokens=x.tokens * x.y, t=x.t * x.y)


def _inner_core(x: TrainingShapes, kind: LayerKind) -> list[Step]:
    if x.plan.context_exchange == "all-to-all":
        return core(x, kind)
    # Selected tokens lie anywhere; blocks know no windows.
    fp32 = x.framework.native.joins_attention_in_fp32 and kind.mixer in ("attention", "latent")
    if kind.mixer == "sparse" or (x.plan.context_exchange == "all-gather" and not fp32):
        return [Step(_gathered(x, kind, backward=False), _gathered(x, kind, backward=True))]
    return [Step(blocks(x, backward=False), blocks(x, backward=True))]


def _gathered(x: TrainingShapes, kind: LayerKind, *, backward: bool) -> list[Operator]:
    """All keys and values, then a kernel for each of the two chunks of queries; backward sums the gradients up."""
    many = x.c > 1
    whole = block_bytes(x) * x.c
    gathered = [
        *exchanged("all_gather", whole, many, ranks="context", overlapped_with="nothing"),
        layout(whole, many * 1.0),
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
    summed = [
        layout(whole, many * 1.0),
        *exchanged("reduce_scatter", whole, many, ranks="context", overlapped_with="nothing"),
    ]
    return [*gathered, core, *(summed if backward else [])]


def _swap(x: TrainingShapes, size: Number, part: Part) -> list[Operator]:
    """Ranks swap heads for tokens or back; data is brought in order before and after."""
    many = (x.y > 1) * 1.0
    swap = collective(
        ATTENTION_CORE, "all_to_all", size, many, part=part, ranks="context heads", overlapped_with="nothing"
    )
    return [layout(2.0 * size, many), *swap] if swap else []


def _qkv_bytes(x: TrainingShapes, inner: TrainingShapes) -> Number:
    """Queries, keys and values that a rank hands out; key heads that are fewer than the ranks go to several."""
    return x.element_bytes * x.tokens * (x.query_width + x.y * (inner.key_width + inner.value_width))


RECOMPUTED: Sequence[Part] = (*FURTHER_CHUNKS, *EXCHANGE)
"""What recomputing the attention core runs again besides the core itself."""


def exchange(x: TrainingShapes, module: Module, width: Number, part: Part) -> list[Operator]:
    """Return the all-to-all of ``width`` elements per token that turns pieces of sequences into heads, or back."""
    return _of_all(x, module, "all_to_all", x.element_bytes * x.tokens * width, part)


def gather_tokens(x: TrainingShapes, module: Module, width: Number, *, backward: bool) -> list[Operator]:
    """Return the gathering of ``width`` elements of every token of the sequences, or the summing of their gradients."""
    kind: CollectiveKind = "reduce_scatter" if backward else "all_gather"
    return _of_all(x, module, kind, x.element_bytes * x.b * x.context * width, "shared keys")


def _of_all(x: TrainingShapes, module: Module, kind: CollectiveKind, size: Number, part: Part) -> list[Operator]:
    # What follows needs all of it.
    return collective(module, kind, size, x.c > 1, part=part, ranks="context", overlapped_with="nothing")


EXCHANGING = ("attention", "sliding", "chunked", "latent")
"""Mixers with keys and values to exchange."""


def head_ranks(plan: Plan, model: Model, per_node: int) -> Count:
    """Return how many context-parallel ranks split heads: all of them, none (1), or those inside a node.

    A mixed exchange splits heads among as many ranks as a node has next to tensor parallelism and as key heads
    divide by, and goes round a ring over the rest (USP, arXiv 2405.07719; hierarchical context parallelism of
    TransformerEngine).
    """
    if plan.context_exchange == "all-to-all":
        return plan.context_parallel
    if plan.context_exchange != "mixed":
        return 1
    t, c = (np.asarray(degree).astype(int) for degree in (plan.tensor_parallel, plan.context_parallel))
    inside = np.gcd(c, np.maximum(per_node // t, 1))
    # Latent attention is trained with keys and values of every head.
    exchanging = [kind for kind in model.kinds if kind.mixer in EXCHANGING]
    heads = [model.heads if kind.mixer == "latent" else model.heads_of(kind).kv_heads for kind in exchanging]
    shared = np.gcd(inside, np.maximum((reduce(gcd, heads, 0) or 1) // t, 1))
    return shared if shared.ndim else int(shared)
