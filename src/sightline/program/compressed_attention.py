"""DeepSeek V4's attention as it is trained: one shared key/value head, the context folded, a window of tokens beside it.

Queries come from a latent vector, the output goes through grouped latent vectors; keys, which are values too, and what
is folded are made from the hidden vector on every rank's piece of the sequence and gathered. Lightly folded layers read
what an indexer selects (`sightline.program.indexer`), heavily folded ones everything. Source: DeepSeek V4's published
code and configuration.
"""

from typing import Final

import numpy as np

from sightline.program import elementwise
from sightline.program.context_heads import gather_tokens
from sightline.program.indexer import indexer_backward, indexer_forward, indexer_weights, mean_seen, selected
from sightline.program.latent_attention import latent_norm
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.mixer_operators import SelectedAttention
from sightline.program.operators import Elementwise, FlashAttention, Operator
from sightline.program.projection import projection_backward, projection_forward
from sightline.program.shapes import Shapes
from sightline.program.sublayer import Sublayer
from sightline.program.tensor_parallel import enter_region, gathered, leave_region, summed
from sightline.quantities import Number
from sightline.scenario import LayerKind

CORE: Final = "attention core"
FOLDING_KERNELS = 5.0
"""Position biases, softmax over the tokens of a fold, product, sum, norm."""


def compressed_attention(x: Shapes, kind: LayerKind) -> Sublayer:
    """Return the attention of one layer."""
    low = x.model.compressed
    if low is None:
        raise ValueError(f"{x.model.name} has no compressed attention")
    h, e, dim = float(x.model.hidden_size), x.element_bytes, float(x.model.head_dim)
    pieces, queries = x.tokens / x.r, x.heads * dim
    folding = 2.0 * dim * (2.0 if kind.indexed else 1.0) * (kind.compression > 1)
    down, latents = low.query_rank + dim + folding, low.query_rank + dim + dim * (kind.compression > 1)
    groups = low.output_groups / x.t
    grouped, outputs = x.model.heads * dim / low.output_groups, float(low.output_rank)
    kept = e * x.tokens * queries
    forward: list[Operator] = [
        *projection_forward(
            x, "qkv", h, down, targets=(), saved_bytes=x.residual_bytes, part="down", shares=(), rows=pieces
        ),
        latent_norm(x, (low.query_rank + dim) * pieces, backward=False),
        *_folding(x, folding * pieces, backward=False),
        *gathered(x, "qkv", e * x.tokens * latents),
        *projection_forward(
            x,
            "qkv",
            float(low.query_rank),
            queries,
            targets=(),
            saved_bytes=e * x.tokens * low.query_rank,
            part="query up",
            shares=(),
        ),
        elementwise.rope(x, backward=False),
        *indexer_forward(x, kind),
        *gather_tokens(x, CORE, dim + dim / kind.compression * (kind.compression > 1), backward=False),
        _core(x, kind, backward=False),
        linear_forward(
            x, "output projection", grouped, outputs, saved_bytes=kept, part="group down", experts=groups, shares=()
        ),
        *projection_forward(
            x,
            "output projection",
            outputs * groups,
            h,
            targets=(),
            saved_bytes=e * x.tokens * outputs * groups,
            shares=(),
        ),
        *leave_region(x, "output projection"),
    ]
    backward: list[Operator] = [
        *enter_region(x, "output projection"),
        *projection_backward(x, "output projection", outputs * groups, h, targets=(), bias=False, shares=()),
        *linear_backward(x, "output projection", grouped, outputs, bias=False, experts=groups, shares=()),
        _core(x, kind, backward=True),
        *gather_tokens(x, CORE, dim + dim / kind.compression * (kind.compression > 1), backward=True),
        *indexer_backward(x, kind, x.heads, dim),
        elementwise.rope(x, backward=True),
        *projection_backward(x, "qkv", float(low.query_rank), queries, targets=(), bias=False, shares=()),
        *summed(x, "qkv", e * x.tokens * latents),
        *_folding(x, folding * pieces, backward=True),
        latent_norm(x, (low.query_rank + dim) * pieces, backward=True),
        *projection_backward(x, "qkv", h, down, targets=(), bias=False, shares=(), rows=pieces),
    ]
    cut = low.query_rank * queries + groups * (grouped * outputs + outputs * h)
    weights = h * down + cut + indexer_weights(x, kind)
    return Sublayer(
        module="attention norm",
        forward=forward,
        backward=backward,
        weights=weights,
        parameters=x.model.mixer_parameters(kind) - cut * (x.t - 1.0),
        widest=x.tokens * queries,
        widest_weight=h * outputs * groups,
        core_input_bytes=e * x.tokens * (queries + dim),
    )


def _core(x: Shapes, kind: LayerKind, *, backward: bool) -> Operator:
    """Attention to the window's and the folded entries, as many as a query sees in the mean."""
    e, dim = x.element_bytes, float(x.model.head_dim)
    window = mean_seen(x.context, float(x.model.window or 0))
    statistics = 4.0 * x.tokens * x.heads
    kept = 0.0 if backward else e * x.tokens * (x.heads * dim + dim) + statistics
    if kind.indexed:
        return SelectedAttention(
            module=CORE,
            part="selected attention",
            sequences=x.b,
            new_tokens=x.s,
            context_tokens=x.context,
            selected_tokens=window + selected(x, kind),
            heads=x.heads,
            key_dim=dim,
            value_dim=dim,
            decode=False,
            direction="backward" if backward else "forward",
            dtype=x.dtype,
            element_bytes=e,
            cache_bytes=e,
            saved_bytes=kept,
        )
    folded = mean_seen(x.context / kind.compression, x.context) if kind.compression > 1 else 0.0
    return FlashAttention(
        module=CORE,
        part="flash attention",
        batch=x.b,
        heads=x.heads,
        kv_heads=1.0,
        head_dim=dim,
        value_dim=dim,
        query_tokens=x.s,
        context_tokens=window + folded,
        causal=False,
        direction="backward" if backward else "forward",
        dtype=x.dtype,
        element_bytes=e,
        saved_bytes=kept,
        kernels=4.0 if backward else 1.0,
    )


def _folding(x: Shapes, elements: Number, *, backward: bool) -> list[Operator]:
    """Neighbouring tokens become one entry, a sum weighted by a softmax over them; its inputs are kept."""
    if not np.any(elements):
        return []
    size = x.element_bytes * elements
    return [
        Elementwise(
            module="qkv",
            part="folding",
            direction="backward" if backward else "forward",
            traffic_bytes=(10.0 if backward else 6.0) * size,
            kernels=FOLDING_KERNELS * (2.0 if backward else 1.0),
            saved_bytes=0.0 if backward else 2.0 * size,
            elements=elements,
        )
    ]
