"""Multi-head latent attention as it is trained (DeepSeek V2, arXiv 2405.04434): keys and values are expanded.

Queries, and keys with values, pass through latent vectors; the down projections are whole on every rank and work on
its piece of the sequence, the up projections are cut by heads. With sequence parallelism the latent vectors are
gathered, not the hidden ones. Sparse attention reads the latent vectors themselves, since selected tokens differ by
query: the up projections of keys and values move to queries and outputs (`sightline.program.sparse_attention`).
"""

from dataclasses import replace

from sightline.program import elementwise
from sightline.program.context_parallel import spread_backward, spread_forward
from sightline.program.indexer import indexer_weights
from sightline.program.operators import Elementwise, Operator
from sightline.program.projection import projection_backward, projection_forward
from sightline.program.shapes import Shapes
from sightline.program.sparse_attention import sparse_backward, sparse_forward
from sightline.program.sublayer import Sublayer
from sightline.program.tensor_parallel import enter_region, gathered, leave_region, summed
from sightline.quantities import Number
from sightline.scenario import LatentAttention, LayerKind

LATENT_ROPE = "latent-rope"
"""What a framework fuses that rotates, joins and cuts the heads in one kernel for queries and one for keys and values
(Megatron-Core's fused_mla_yarn_rope_apply, which is experimental there)."""


def latent_attention(x: Shapes, kind: LayerKind, kernel: str) -> Sublayer:
    """Return the attention of one layer; ``x.shape`` has the expanded heads."""
    latent = x.model.latent
    if latent is None:
        raise ValueError(f"{x.model.name} has no latent attention")
    h, e, pieces = float(x.model.hidden_size), x.element_bytes, x.tokens / x.r
    queries, keys_values = x.query_width, x.heads * (latent.nope_head_dim + latent.value_head_dim) * 1.0
    down = float((latent.query_rank or 0) + latent.kv_rank + latent.rope_head_dim)
    query_inputs = h if latent.query_rank is None else float(latent.query_rank)
    ranks = ((float(latent.query_rank or 0), queries),) if latent.query_rank is not None else ()
    sparse = kind.mixer == "sparse"
    normed = (latent.query_rank or 0) + latent.kv_rank
    ups = ranks if sparse else (*ranks, (float(latent.kv_rank), keys_values))
    context = x.context_width
    expanded = e * x.tokens * (x.query_width + x.key_width + x.value_width)
    forward: list[Operator] = [
        *projection_forward(
            x, "qkv", h, down, targets=(), saved_bytes=x.residual_bytes, part="down", shares=(), rows=pieces
        ),
        latent_norm(x, normed * pieces, backward=False),
        *gathered(x, "qkv", e * x.tokens * down),
    ]
    backward: list[Operator] = []
    if latent.query_rank is None:
        forward += projection_forward(
            x, "qkv", query_inputs, queries, targets=(), saved_bytes=0.0, part="query", shares=()
        )
    for width, outputs in ups:
        forward += projection_forward(
            x, "qkv", width, outputs, targets=(), saved_bytes=e * x.tokens * width, part="up", shares=()
        )
    forward += [
        _rotated(x, latent, backward=False),
        *(
            sparse_forward(x, kind)
            if sparse
            else [_joined(x, expanded, keys_values, backward=False), *spread_forward(x, kind, kernel)]
        ),
        *projection_forward(
            x,
            "output projection",
            context,
            h,
            targets=(),
            saved_bytes=e * x.tokens * context,
            shares=(),
        ),
        *leave_region(x, "output projection"),
    ]
    backward += [
        *enter_region(x, "output projection"),
        *projection_backward(x, "output projection", context, h, targets=(), bias=x.model.output_bias, shares=()),
        *(
            sparse_backward(x, kind)
            if sparse
            else [*spread_backward(x, kind, kernel), _joined(x, expanded, keys_values, backward=True)]
        ),
        _rotated(x, latent, backward=True),
    ]
    for width, outputs in ups:
        backward += projection_backward(x, "qkv", width, outputs, targets=(), bias=False, shares=())
    if latent.query_rank is None:
        backward += projection_backward(x, "qkv", query_inputs, queries, targets=(), bias=False, shares=())
    backward += [
        *summed(x, "qkv", e * x.tokens * down),
        latent_norm(x, normed * pieces, backward=True),
        *projection_backward(x, "qkv", h, down, targets=(), bias=False, shares=(), rows=pieces),
    ]
    own_queries = 0.0 if latent.query_rank is not None else h * queries
    cut = own_queries + sum(width * outputs for width, outputs in ranks) + latent.kv_rank * keys_values + context * h
    weights = h * down + cut + indexer_weights(x, kind)
    normed_keys = x.model.indexer_parameters(kind) - indexer_weights(x, kind)
    return Sublayer(
        module="attention norm",
        forward=forward,
        backward=backward,
        weights=weights,
        parameters=weights + normed + normed_keys + h * x.model.output_bias,
        widest=expanded / e,
        widest_weight=context * h,
        core_input_bytes=expanded,
        output_bias=x.model.output_bias,
    )


def latent_norm(x: Shapes, elements: Number, *, backward: bool) -> Elementwise:
    """Return the norms of the latent vectors."""
    return elementwise.narrower(
        elementwise.norm_gradient(x, "qkv") if backward else elementwise.norm(x, "qkv"), elements
    )


def _rotated(x: Shapes, latent: LatentAttention, *, backward: bool) -> Elementwise:
    """Return the rotation of every query head's rotary part and of the one that all keys share."""
    whole = elementwise.rope(x, backward=backward, fused=LATENT_ROPE in x.framework.fusion.fused)
    elements = x.tokens * latent.rope_head_dim * (x.heads + 1.0)
    return replace(whole, traffic_bytes=whole.traffic_bytes * elements / whole.elements, elements=elements)


def _joined(x: Shapes, expanded_bytes: Number, keys_values: Number, *, backward: bool) -> Elementwise:
    """Rotary parts are joined to every head's own: one copy of queries and keys, and the cut of keys from values.

    Where that is fused with the rotation, queries turn in place, and one kernel writes keys and values from what was
    projected.
    """
    fused = LATENT_ROPE in x.framework.fusion.fused
    keys_and_values = x.element_bytes * x.tokens * (keys_values + x.key_width + x.value_width)
    return Elementwise(
        module="qkv",
        part="heads joined",
        direction="backward" if backward else "forward",
        traffic_bytes=keys_and_values if fused else 2.0 * expanded_bytes,
        kernels=1.0 if fused else 3.0,
        elements=expanded_bytes / x.element_bytes,
    )
