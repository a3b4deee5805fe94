"""The attention core: scores, softmax and context, as one flash kernel or as separate eager kernels."""

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from sightline.program.adapter import keeps_input
from sightline.program.address import Direction, Part
from sightline.program.indexer import selected
from sightline.program.operators import Elementwise, FlashAttention, Matmul, Operator
from sightline.program.shapes import Shapes
from sightline.program.soft_caps import capped_scores
from sightline.quantities import Number
from sightline.scenario import LayerKind

MODULE: Final = "attention core"

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


def attended(x: Shapes) -> Shapes:
    """Return the sizes that the core works with: key heads as many as query heads where a framework repeats them."""
    if not x.framework.native.repeats_keys:
        return x
    return replace(x, shape=replace(x.shape, kv_heads=x.shape.heads))


def repeated(x: Shapes, *, backward: bool) -> list[Operator]:
    """Return the copy of keys and values for every query head, or, backward, the sum of the copies' gradients."""
    wide = attended(x)
    if wide.shape.kv_heads == x.shape.kv_heads:
        return []
    widths = x.key_width + x.value_width + wide.key_width + wide.value_width
    return [
        Elementwise(
            module="qkv",
            part="heads repeated",
            direction="backward" if backward else "forward",
            traffic_bytes=x.element_bytes * x.tokens * widths,
            kernels=2.0,
            elements=x.tokens * (wide.key_width + wide.value_width),
        )
    ]


def core_forward(x: Shapes, kind: LayerKind, kernel: str) -> list[Operator]:
    """Return the forward operators from queries, keys and values to the context, of sequences that are not cut."""
    return [flash(x, scores_of(x, kind), backward=False)] if kernel == "flash" else _eager_forward(x)


def core_backward(x: Shapes, kind: LayerKind, kernel: str) -> list[Operator]:
    """Return the backward operators from the context's gradient to those of queries, keys and values."""
    if kernel != "flash":
        return _eager_backward(x)
    whole = (
        x.low is not None
        and x.low.recipe.name in x.framework.transformer_engine.unwindowed_backward
        and kind.mixer == "sliding"
    )
    return [flash(x, scores_of(x, replace(kind, mixer="attention") if whole else kind), backward=True)]


def flash(x: Shapes, scores: Scores, *, backward: bool) -> FlashAttention:
    """Return the flash kernel; forward keeps queries, keys, values and a float per row and head.

    Its output is kept by the output projection, where that keeps its input as it is. Values that are a view of one
    joined tensor keep all of that alive beside the rotated queries and keys.
    """
    kept = x.element_bytes * x.tokens * (x.query_width + x.key_width + x.value_width) + 4.0 * x.tokens * x.heads
    if not keeps_input(x, "output"):
        kept = kept + x.element_bytes * x.tokens * x.context_width
    if x.framework.litgpt.keeps_joined_qkv and x.shape.heads == x.shape.kv_heads:
        kept = kept + x.element_bytes * x.tokens * (x.query_width + x.key_width)
    if x.framework.allocation.copies_context:
        kept = kept + x.element_bytes * x.tokens * x.context_width * (np.asarray(x.b) > 1)
    return FlashAttention(
        module=MODULE,
        part="flash attention",
        batch=scores.sequences,
        heads=x.heads,
        kv_heads=x.kv_heads,
        head_dim=float(x.shape.head_dim),
        value_dim=float(x.shape.value_dim),
        query_tokens=scores.queries,
        context_tokens=scores.keys,
        causal=scores.causal,
        unseen=scores.unseen,
        direction="backward" if backward else "forward",
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        saved_bytes=0.0 if backward else kept,
        kernels=4.0 if backward else 1.0,
    )


def scores_of(x: Shapes, kind: LayerKind) -> Scores:
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
    seen = np.minimum(window, x.context / k)
    return Scores(x.b * k, x.s / k, seen - seen**2 * k / (2.0 * x.context), causal=False)


def gate(x: Shapes, *, backward: bool) -> list[Operator]:
    """The context times a sigmoid of the gate that was projected beside the queries, where the model has one."""
    if not x.model.attention_gate:
        return []
    tensor = x.element_bytes * x.tokens * x.context_width
    return [
        Elementwise(
            module=MODULE,
            part="gate",
            direction="backward" if backward else "forward",
            traffic_bytes=(5.0 if backward else 3.0) * tensor,
            kernels=2.0,
            saved_bytes=0.0 if backward else 2.0 * tensor,
            elements=tensor / x.element_bytes,
        )
    ]


def _product(
    x: Shapes,
    part: Part,
    m: Number,
    n: Number,
    k: Number,
    saved_bytes: Number = 0.0,
    direction: Direction = "forward",
) -> Matmul:
    return Matmul(
        module=MODULE,
        part=part,
        direction=direction,
        m=m,
        n=n,
        k=k,
        batch=x.b * x.heads,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        output_bytes=x.element_bytes,
        saved_bytes=saved_bytes,
    )


def _scores(x: Shapes) -> Number:
    """Elements of the scores of one micro-batch on one device."""
    return x.b * x.heads * x.s * x.context


def _softmax_fused(x: Shapes) -> Number:
    """1.0 where the framework's fused softmax takes the scores' count of matrices, else 0.0."""
    return ("softmax" in x.framework.fusion.fused) * (x.b * x.heads % x.framework.fusion.softmax_granule == 0) * 1.0


def _eager_forward(x: Shapes) -> list[Operator]:
    e, d, elements = x.element_bytes, float(x.shape.head_dim), _scores(x)
    queries, keys, values = (x.tokens * width for width in (x.query_width, x.key_width, x.value_width))
    fused = _softmax_fused(x)
    operators: list[Operator] = [
        _product(x, "scores", x.s, x.context, d, saved_bytes=e * (queries + keys)),
        *capped_scores(x, MODULE, elements, backward=False),
        # Unfused: cast to fp32, scale, build the mask, fill it in, softmax, cast back.
        Elementwise(
            module=MODULE,
            part="softmax",
            traffic_bytes=(6.0 * e + 12.0 - fused * (4.0 * e + 12.0)) * elements,
            arithmetic=SOFTMAX_ARITHMETIC * elements,
            kernels=9.0 - 8.0 * fused,
            saved_bytes=(e + 4.0 * (1.0 - fused)) * elements,
        ),
        # The values, and the probabilities after dropout.
        _product(
            x,
            "context",
            x.s,
            float(x.shape.value_dim),
            x.context,
            saved_bytes=e * values + e * elements * (x.model.dropout > 0),
        ),
        Elementwise(module=MODULE, part="layout", traffic_bytes=2.0 * e * x.tokens * x.context_width, kernels=3.0),
    ]
    if x.model.positions == "alibi":
        operators.append(Elementwise(module=MODULE, part="alibi", traffic_bytes=2.0 * e * elements))
    if x.model.dropout > 0:
        operators.append(
            Elementwise(
                module=MODULE,
                part="dropout",
                traffic_bytes=(2.0 * e + 1.0) * elements,
                arithmetic=RANDOM_ARITHMETIC * elements,
                saved_bytes=elements,
            )
        )
    return operators


def _eager_backward(x: Shapes) -> list[Operator]:
    e, d, elements = x.element_bytes, float(x.shape.head_dim), _scores(x)
    widths = x.tokens * (x.query_width + x.key_width + x.value_width)
    dv = float(x.shape.value_dim)
    fused = _softmax_fused(x)
    operators: list[Operator] = [
        _product(x, "probabilities", x.s, x.context, dv, direction="backward"),
        _product(x, "values", x.context, dv, x.s, direction="backward"),
        Elementwise(
            module=MODULE,
            part="softmax",
            direction="backward",
            traffic_bytes=(5.0 * e + 12.0 - fused * (2.0 * e + 12.0)) * elements,
            kernels=7.0 - 6.0 * fused,
        ),
        *capped_scores(x, MODULE, elements, backward=True),
        _product(x, "queries", x.s, d, x.context, direction="backward"),
        _product(x, "keys", x.context, d, x.s, direction="backward"),
        Elementwise(module=MODULE, part="layout", direction="backward", traffic_bytes=3.0 * e * widths, kernels=4.0),
    ]
    if x.model.dropout > 0:
        operators.append(
            Elementwise(module=MODULE, part="dropout", direction="backward", traffic_bytes=(2.0 * e + 1.0) * elements)
        )
    return operators
