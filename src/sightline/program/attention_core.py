"""The attention core of training: scores, softmax and context, as one flash kernel or as separate eager kernels."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sightline.program.operators import ATTENTION_CORE, FlashAttention, Module, Part
from sightline.program.program import Step, elementwise, moving
from sightline.program.shapes import TrainingShapes
from sightline.program.techniques.adapters import keeps_input
from sightline.quantities import Number, larger, smaller
from sightline.scenario import LayerKind

SOFTMAX_ARITHMETIC = 20.0
"""Vector instructions per score: scale, mask, maximum, exponential, sum, division, conversions (estimate)."""
RANDOM_ARITHMETIC = 40.0
"""Vector instructions per element of a dropout: a share of ten Philox rounds, comparison, scale (estimate)."""


class Scores(NamedTuple):
    """What one fused kernel works on: of packed sequences each by itself."""

    sequences: Number
    queries: Number
    """Of each sequence."""
    keys: Number
    """That these queries see."""
    causal: bool
    """Whether later keys are masked."""
    unseen: Number = 0.0
    """Share of the scores between all queries and keys at hand that is left out beforehand, being masked."""


def mean_seen(tokens: Number, most: Number) -> Number:
    """Return how many of up to ``tokens`` earlier entries a query reads in the mean that reads no more than ``most``.

    The mean of min(t, most) over queries at t = 0 to tokens: ``m - m^2 / (2 tokens)`` with m the lesser of both.
    """
    m = smaller(tokens, most)
    seen: Number = m - m**2 / (2.0 * larger(tokens, 1.0))
    return seen


def selected(x: TrainingShapes, kind: LayerKind) -> Number:
    """Return the entries that a query reads of those an indexer chose, in the mean."""
    sparse = x.model.sparse
    if sparse is None:
        raise ValueError(f"{x.model.name} has no sparse attention")
    return mean_seen(x.context / kind.compression, float(sparse.selected_tokens * sparse.block_tokens))


def core(x: TrainingShapes, kind: LayerKind) -> list[Step]:
    """Return the steps from queries, keys and values to the context, of sequences that are not split over ranks."""
    if x.plan.attention != "flash":
        return _eager(x)
    unwindowed = x.framework.transformer_engine.unwindowed_backward
    whole = x.low is not None and x.low.recipe.name in unwindowed and kind.mixer == "sliding"
    backward = scores_of(x, replace(kind, mixer="attention") if whole else kind)
    return [Step((flash(x, scores_of(x, kind)),), (flash(x, backward, backward=True),))]


def flash(
    x: TrainingShapes, scores: Scores, *, backward: bool = False, part: Part = "flash attention"
) -> FlashAttention:
    """Return the flash kernel; forward keeps queries, keys, values and a float per row and head.

    Its output is kept by the output projection, where that keeps its input as it is. Values that are a view of one
    joined tensor keep all of that alive next to the rotated queries and keys.
    """
    return FlashAttention(
        module=ATTENTION_CORE,
        part=part,
        direction="backward" if backward else "forward",
        batch=scores.sequences,
        heads=x.heads,
        kv_heads=x.kv_heads,
        head_dim=float(x.shape.head_dim),
        value_dim=float(x.shape.value_dim),
        query_tokens=scores.queries,
        context_tokens=scores.keys,
        causal=scores.causal,
        unseen=scores.unseen,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        saved_bytes=0.0 if backward else _kept(x),
        kernels=4.0 if backward else 1.0,
    )


def _kept(x: TrainingShapes) -> Number:
    """Bytes that the flash kernel keeps, and that others keep because of it."""
    size = x.element_bytes * x.tokens
    kept = size * (x.query_width + x.key_width + x.value_width) + 4.0 * x.tokens * x.heads
    if not keeps_input(x, "output"):
        kept = kept + size * x.context_width
    if x.framework.litgpt.keeps_joined_qkv and x.shape.heads == x.shape.kv_heads:
        kept = kept + size * (x.query_width + x.key_width)
    if x.framework.allocation.copies_context:
        kept = kept + size * x.context_width * (x.b > 1)
    return kept


def scores_of(x: TrainingShapes, kind: LayerKind) -> Scores:
    """Return what the queries of this rank see of the whole sequence.

    A chunk of a chunked layer is a sequence of its own. A window ``w`` shorter than the sequence ``s`` is priced as
    its mean of ``w - w^2 / 2 s`` keys for every query, without a mask; so are the tokens that an indexer chose.
    """
    if kind.mixer == "sparse":
        return Scores(x.b, x.s, selected(x, kind), causal=False)
    window, k = x.model.window, x.documents
    if window is None or np.all(window >= x.context / k) or kind.mixer not in ("sliding", "chunked"):
        return Scores(x.b * k, x.s / k, x.context / k, causal=True)
    if kind.mixer == "chunked":
        return Scores(x.b * x.s / window, float(window), float(window), causal=True)
    seen = smaller(window, x.context / k)
    return Scores(x.b * k, x.s / k, seen - seen**2 * k / (2.0 * x.context), causal=False)


def _eager(x: TrainingShapes) -> list[Step]:
    """Scores in memory: two products and what is between and behind them, each kernel for itself."""
    e, elements, drops = x.element_bytes, x.b * x.heads * x.s * x.context, x.model.dropout > 0
    queries, keys, values = (x.tokens * width for width in (x.query_width, x.key_width, x.value_width))
    s, c, d, v = x.s, x.context, float(x.shape.head_dim), float(x.shape.value_dim)
    product = partial(x.product, ATTENTION_CORE, batch=x.b * x.heads)
    queries_gradient, keys_gradient = product("queries", s, d, c, "backward"), product("keys", c, d, s, "backward")
    to_scores, to_values = product("probabilities", s, c, v, "backward"), product("values", c, v, s, "backward")
    moved = 2.0 * e * x.tokens * x.context_width
    return [
        Step((product("scores", s, c, d, saved_bytes=e * (queries + keys)),), (queries_gradient, keys_gradient)),
        *([soft_cap(x, ATTENTION_CORE, "capped scores", elements)] if x.model.score_cap else []),
        _softmax(x, elements),
        # The values, and the probabilities after dropout, are kept.
        Step((product("context", s, v, c, saved_bytes=e * (values + elements * drops)),), (to_scores, to_values)),
        elementwise(ATTENTION_CORE, "layout", 0.0, (moved, 3.0 * e * (queries + keys + values)), (3.0, 4.0)),
        *([Step((moving(ATTENTION_CORE, "alibi", 2.0 * e * elements),))] if x.model.positions == "alibi" else []),
        *([_dropout(e, elements)] if drops else []),
    ]


def soft_cap(x: TrainingShapes, module: Module, part: Part, elements: Number) -> Step:
    """Return scores or logits through ``cap * tanh(x / cap)`` (Gemma 2, arXiv 2408.00118) where it is not fused.

    A division, a tanh, whose output is kept, and a product, each in and out.
    """
    size = x.element_bytes * elements
    return elementwise(module, part, elements, (6.0 * size, 7.0 * size), (3.0, 3.0), saved_bytes=size)


def _softmax(x: TrainingShapes, elements: Number) -> Step:
    """Unfused: cast to fp32, scale, build the mask, fill it in, softmax, cast back.

    The framework's fused softmax takes some counts of score matrices alone.
    """
    e = x.element_bytes
    fused = x.fuses("softmax") * (x.b * x.heads % x.framework.fusion.softmax_granule == 0) * 1.0
    forward, backward = 6.0 * e + 12.0 - fused * (4.0 * e + 12.0), 5.0 * e + 12.0 - fused * (2.0 * e + 12.0)
    return elementwise(
        ATTENTION_CORE,
        "softmax",
        0.0,
        (forward * elements, backward * elements),
        (9.0 - 8.0 * fused, 7.0 - 6.0 * fused),
        arithmetic=SOFTMAX_ARITHMETIC * elements,
        saved_bytes=(e + 4.0 * (1.0 - fused)) * elements,
    )


def _dropout(e: float, elements: Number) -> Step:
    traffic, drawn = (2.0 * e + 1.0) * elements, RANDOM_ARITHMETIC * elements
    return elementwise(ATTENTION_CORE, "dropout", 0.0, (traffic, traffic), arithmetic=drawn, saved_bytes=elements)
