"""The indexer of sparse attention in training: scores of all pairs of tokens, the choice, and a loss of its own.

As DeepSeek V3.2 trains it after its dense warm-up (technical report, section 2.1.1): attention reads the selected tokens
alone, and the indexer learns to score them as attention weighs them, from inputs cut off from the rest of the model's
gradients. Attention's weights are added up over all heads for that, in a pass over the selected tokens. Left out: the
dense warm-up, in which the indexer alone is trained.
"""

from typing import Final

import numpy as np

from sightline.program.context_heads import gather_tokens
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.mixer_operators import Indexer, SelectedAttention
from sightline.program.operators import Collective, Elementwise, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number
from sightline.scenario import LayerKind, SparseAttention

MODULE: Final = "indexer"


def mean_seen(tokens: Number, most: Number) -> Number:
    """Return how many of up to ``tokens`` earlier entries a query reads in the mean that reads no more than ``most``.

    The mean of min(t, most) over queries at t = 0 to tokens: ``m - m^2 / (2 tokens)`` with m the lesser of both.
    """
    m = np.minimum(tokens, most)
    seen: Number = m - m**2 / (2.0 * np.maximum(tokens, 1.0))
    return seen


def selected(x: Shapes, kind: LayerKind) -> Number:
    """Return the entries that a query reads of those an indexer chose, in the mean."""
    sparse = x.model.sparse
    if sparse is None:
        raise ValueError(f"{x.model.name} has no sparse attention")
    return mean_seen(x.context / kind.compression, float(sparse.selected_tokens * sparse.block_tokens))


def indexer_forward(x: Shapes, kind: LayerKind) -> list[Operator]:
    """Return the scores and the choice of one layer; nothing without an indexer of its own."""
    sparse = x.model.sparse
    if sparse is None or not kind.indexed:
        return []
    width, e = float(sparse.heads * sparse.head_dim), x.element_bytes
    # Of all entries those up to its own, which are half of them in the mean on every rank.
    entries = 0.5 * (x.context + x.s) / kind.compression
    learns = 1.0 * x.trained.projections
    kept = learns * e * x.tokens * (width + sparse.head_dim + sparse.heads)
    return [
        linear_forward(x, MODULE, query_inputs(x), width, saved_bytes=0.0, part="query"),
        linear_forward(x, MODULE, float(x.model.hidden_size), _keys(x, sparse), saved_bytes=0.0, part="key, weights"),
        Elementwise(
            module=MODULE,
            part="rope",
            traffic_bytes=2.0 * e * x.tokens * (width + sparse.head_dim),
            kernels=2.0,
            saved_bytes=kept,
            elements=x.tokens * (width + sparse.head_dim),
        ),
        *gather_tokens(x, MODULE, sparse.head_dim / kind.compression, backward=False),
        Indexer(
            module=MODULE,
            part="scores",
            sequences=x.b,
            new_tokens=x.s,
            context_tokens=entries,
            heads=float(sparse.heads),
            head_dim=float(sparse.head_dim),
            dtype=x.dtype,
            key_bytes=e,
        ),
        # Scores in fp32 are read twice; the chosen places are kept as 32-bit numbers.
        Elementwise(
            module=MODULE,
            part="top-k",
            traffic_bytes=8.0 * x.tokens * entries,
            kernels=2.0,
            saved_bytes=4.0 * x.tokens * np.minimum(entries, float(sparse.selected_tokens)),
            elements=x.tokens * entries,
        ),
    ]


def indexer_backward(x: Shapes, kind: LayerKind, heads: Number, key_dim: float) -> list[Operator]:
    """Return the indexer's loss and gradients beside attention of ``heads`` with keys of ``key_dim``.

    A frozen indexer has none.
    """
    sparse = x.model.sparse
    if sparse is None or not kind.indexed or not x.trained.projections:
        return []
    chosen = selected(x, kind)
    target = 4.0 * x.tokens * chosen
    summed = (
        [Collective(module=MODULE, part="all-reduce", kind="all_reduce", buffer_bytes=target, count=(x.t > 1) * 1.0)]
        if np.any(x.t > 1)
        else []
    )
    h = float(x.model.hidden_size)
    return [
        SelectedAttention(
            module=MODULE,
            part="target",
            sequences=x.b,
            new_tokens=x.s,
            context_tokens=x.context,
            selected_tokens=chosen,
            heads=heads,
            key_dim=key_dim,
            value_dim=0.0,
            decode=False,
            dtype=x.dtype,
            element_bytes=x.element_bytes,
            cache_bytes=x.element_bytes,
        ),
        *summed,
        Elementwise(module=MODULE, part="loss", traffic_bytes=4.0 * target, kernels=6.0, elements=x.tokens * chosen),
        Indexer(
            module=MODULE,
            part="scores",
            direction="backward",
            sequences=x.b,
            new_tokens=x.s,
            context_tokens=chosen,
            heads=float(sparse.heads),
            head_dim=float(sparse.head_dim),
            dtype=x.dtype,
            key_bytes=x.element_bytes,
        ),
        *gather_tokens(x, MODULE, sparse.head_dim / kind.compression, backward=True),
        # Inputs are cut off, so that there are weight gradients alone: a linear layer's, without its first product.
        *linear_backward(x, MODULE, query_inputs(x), float(sparse.heads * sparse.head_dim), bias=False)[1:],
        *linear_backward(x, MODULE, h, _keys(x, sparse), bias=False)[1:],
    ]


def indexer_weights(x: Shapes, kind: LayerKind) -> float:
    """Return the elements of the indexer's matrices, which every rank has whole; 0 without one."""
    sparse = x.model.sparse
    if sparse is None or not kind.indexed:
        return 0.0
    return query_inputs(x) * sparse.heads * sparse.head_dim + x.model.hidden_size * _keys(x, sparse)


def query_inputs(x: Shapes) -> float:
    """Return the width that the indexer's queries are projected from: the queries' latent vector, or the hidden one."""
    low = x.model.latent or x.model.compressed
    return float((low and low.query_rank) or x.model.hidden_size)


def _keys(x: Shapes, sparse: SparseAttention) -> float:
    """Outputs of the indexer's key and head-weight projection; folded keys have two of overlapping folds, and gates."""
    return sparse.head_dim * (1.0 if x.model.compressed is None else 4.0) + sparse.heads
