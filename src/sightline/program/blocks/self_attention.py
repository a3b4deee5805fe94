"""Softmax attention with its projections: full, windowed, chunked or sparse, heads grouped or not, gated or not."""

from sightline.program.address import Part
from sightline.program.blocks.indexer import indexer, indexer_norms
from sightline.program.kernels import Kernels
from sightline.program.program import Layers, Sublayer
from sightline.program.techniques.adapters import QKV
from sightline.quantities import Number
from sightline.scenario import LayerKind


def self_attention(x: Kernels, kind: LayerKind) -> Sublayer:
    """Return the attention of one layer; in a parallel block its output is added to the MLP's before both leave."""
    model, shape = x.model, x.shape
    queries = x.query_width * (2.0 if model.attention_gate else 1.0)
    keys, values = x.key_width, x.value_width * (not shape.values_are_keys)
    pieces: tuple[tuple[Part, Number], ...] = (("query", queries), ("key, value", keys), ("key, value", values))
    joined = x.projection(
        "qkv",
        "matmul",
        x.h,
        queries + keys + values,
        layers=Layers("qkv", pieces, _shares(x), QKV),
        kept=x.entered_share,
        bias=model.attention_bias,
        gathered=True,
    )
    output = x.projection(
        "output projection",
        "matmul",
        x.context_width,
        x.h,
        layers=Layers(targets=("output",)),
        bias=model.output_bias,
        scattered=True,
    )
    return Sublayer(
        module="attention norm",
        steps=[
            *x.region("qkv", [joined], QKV),
            *([x.head_norm()] if model.qk_norm else []),
            *([x.rope(x.query_width + keys)] if model.positions == "rotary" else []),
            *x.cache_write(keys + x.value_width),
            *indexer(x, kind),
            *(step for group in x.groups() for step in group.attention(kind)),
            *x.gate(),
            output,
            *x.leave("output projection"),
        ],
        small_parameters=_head_norms(x) + indexer_norms(x, kind),
        widest=x.tokens * (queries + keys + values),
        widest_weight=x.h * (queries + keys + values),
        core_input_bytes=x.core_input_bytes,
    )


def _shares(x: Kernels) -> tuple[float, ...]:
    """Queries, keys and values as layers of their own, as parts of them all."""
    shape = x.shape
    queries = shape.query_width * (2.0 if x.model.attention_gate else 1.0)
    widths = (queries, shape.key_width, shape.value_width * (not shape.values_are_keys))
    return tuple(width / sum(widths) for width in widths)


def _head_norms(x: Kernels) -> Number:
    """Parameters of the norms of queries and keys: a head's width each, or all heads' together."""
    if not x.model.qk_norm:
        return 0.0
    return x.query_width + x.key_width if x.model.wide_qk_norm else 2.0 * x.shape.head_dim
