"""Softmax attention with its projections: full, windowed, chunked or sparse, heads grouped or not, gated or not."""

from sightline.program import elementwise
from sightline.program.adapter import QKV
from sightline.program.adapter_exchange import enter_adapted
from sightline.program.attention import attended, gate, repeated
from sightline.program.context_parallel import spread_backward, spread_forward
from sightline.program.indexer import indexer_backward, indexer_forward, indexer_weights
from sightline.program.projection import adapter_elements, projection_backward, projection_forward
from sightline.program.shapes import Shapes
from sightline.program.sublayer import Sublayer
from sightline.program.tensor_parallel import (
    enter_region,
    entered_bytes,
    leave_backward,
    leave_region,
    reenter_region,
)
from sightline.quantities import Number
from sightline.scenario import LayerKind

OUTPUT = ("output",)


def self_attention(x: Shapes, kind: LayerKind, kernel: str) -> Sublayer:
    """Return the attention of one layer.

    With sequence parallelism the inputs of the column-split projections, kept in pieces, are gathered again for the
    weight gradients. In a parallel block its output is added to the MLP's before both leave the region.
    """
    model, h, context = x.model, float(x.model.hidden_size), x.context_width
    rotary = model.positions == "rotary"
    core = attended(x)
    inputs_bytes = x.element_bytes * x.tokens * (core.query_width + core.key_width + core.value_width)
    weights = h * (x.qkv_width + context)
    biases = x.qkv_width * model.attention_bias + h * model.output_bias
    return Sublayer(
        module="attention norm",
        forward=[
            *enter_adapted(x, "qkv", QKV),
            *projection_forward(
                x,
                "qkv",
                h,
                x.qkv_width,
                targets=QKV,
                saved_bytes=entered_bytes(x),
                shares=_qkv_shares(x),
                gathered=True,
            ),
            *([elementwise.head_norm(x, backward=False)] if model.qk_norm else []),
            *([elementwise.rope(x, backward=False)] if rotary else []),
            *indexer_forward(x, kind),
            *repeated(x, backward=False),
            *spread_forward(core, kind, kernel),
            *gate(x, backward=False),
            *projection_forward(
                x,
                "output projection",
                context,
                h,
                targets=OUTPUT,
                saved_bytes=x.element_bytes * x.tokens * context,
                scattered=True,
            ),
            # Side by side, attention and MLP add up before they leave the region.
            *([] if model.parallel_block else leave_region(x, "output projection")),
        ],
        backward=[
            *([] if model.parallel_block else enter_region(x, "output projection")),
            *projection_backward(
                x, "output projection", context, h, targets=OUTPUT, bias=model.output_bias, gathered=True
            ),
            *gate(x, backward=True),
            *spread_backward(core, kind, kernel),
            *repeated(x, backward=True),
            *indexer_backward(x, kind, x.heads, float(x.shape.head_dim)),
            *([elementwise.rope(x, backward=True)] if rotary else []),
            *([elementwise.head_norm(x, backward=True)] if model.qk_norm else []),
            *reenter_region(x, "qkv"),
            *projection_backward(
                x, "qkv", h, x.qkv_width, targets=QKV, bias=model.attention_bias, shares=_qkv_shares(x)
            ),
            *leave_backward(x, "qkv"),
        ],
        weights=weights + indexer_weights(x, kind),
        parameters=weights + biases + _head_norms(x) + model.indexer_parameters(kind),
        adapter_parameters=adapter_elements(x, h, x.qkv_width, QKV, _qkv_shares(x))
        + adapter_elements(x, context, h, OUTPUT),
        widest=x.tokens * x.qkv_width,
        widest_weight=h * x.qkv_width,
        core_input_bytes=inputs_bytes,
        output_bias=model.output_bias,
    )


def _head_norms(x: Shapes) -> Number:
    """Parameters of the norms of queries and keys: a head's width each, or all heads' together."""
    if not x.model.qk_norm:
        return 0.0
    return x.query_width + x.key_width if x.model.wide_qk_norm else 2.0 * x.shape.head_dim


def _qkv_shares(x: Shapes) -> tuple[float, ...]:
    """Queries, keys and values as layers of their own."""
    shape = x.shape
    queries = shape.query_width * (2.0 if x.model.attention_gate else 1.0)
    widths = (queries, shape.key_width, shape.value_width * (not shape.values_are_keys))
    return tuple(width / sum(widths) for width in widths)
