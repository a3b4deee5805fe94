"""A decoder layer: norm, attention, residual, norm, MLP, residual - forward and backward."""

from sightline.program import elementwise
from sightline.program.adapter import QKV
from sightline.program.attention import core_backward, core_forward
from sightline.program.operators import Operator
from sightline.program.projection import adapter_elements, projection_backward, projection_forward
from sightline.program.shapes import Shapes
from sightline.program.tensor_parallel import enter_region, leave_region
from sightline.quantities import Number

OUTPUT = ("output",)
DOWN = ("down",)


def layer_forward(x: Shapes, attention: str) -> list[Operator]:
    """Return a layer's forward operators for one micro-batch."""
    model, h = x.model, float(x.model.hidden_size)
    context = x.heads * model.head_dim
    return [
        elementwise.norm(x, "attention norm"),
        *enter_region(x, "qkv"),
        *projection_forward(x, "qkv", h, x.qkv_width, targets=QKV, saved_bytes=x.residual_bytes, shares=_qkv_shares(x)),
        *([elementwise.rope(x, backward=False)] if model.positions == "rotary" else []),
        *core_forward(x, attention),
        *projection_forward(
            x,
            "output projection",
            context,
            h,
            targets=OUTPUT,
            saved_bytes=x.element_bytes * x.tokens * context,
        ),
        # Side by side, attention and MLP add up before they leave the region, and may share a norm.
        *([] if model.parallel_block else leave_region(x, "output projection")),
        elementwise.residual(x, bias=model.output_bias),
        *([elementwise.norm(x, "mlp norm")] if _own_norm(x) else []),
        *(enter_region(x, "mlp") if _own_norm(x) else []),
        *_mlp_forward(x),
        *leave_region(x, "mlp"),
        elementwise.residual(x, bias=model.mlp_bias),
    ]


def _mlp_forward(x: Shapes) -> list[Operator]:
    h, f, inputs = float(x.model.hidden_size), x.model.intermediate_size / x.t, layer_inner_width(x)
    # A fused gate recomputes the product from its inputs; otherwise the down projection keeps it.
    keeps_product = not (x.model.gated and "activation" in x.framework.fused)
    return [
        *projection_forward(
            x,
            "mlp",
            h,
            inputs,
            targets=_up_targets(x),
            saved_bytes=x.residual_bytes,
            name="up",
            shares=_gate_shares(x),
        ),
        elementwise.activation(x, f),
        *projection_forward(
            x, "mlp", f, h, targets=DOWN, saved_bytes=x.element_bytes * x.tokens * f * keeps_product, name="down"
        ),
    ]


def layer_backward(x: Shapes, attention: str) -> list[Operator]:
    """Return a layer's backward operators for one micro-batch, in order of execution.

    With sequence parallelism the inputs of the column-split projections, kept in pieces, are gathered again for the
    weight gradients.
    """
    model, h = x.model, float(x.model.hidden_size)
    f, inputs = model.intermediate_size / x.t, layer_inner_width(x)
    context = x.heads * model.head_dim
    return [
        elementwise.residual_gradient(x),
        *enter_region(x, "mlp"),
        *projection_backward(x, "mlp", f, h, targets=DOWN, bias=model.mlp_bias),
        elementwise.activation_gradient(x, f),
        *enter_region(x, "mlp"),
        *projection_backward(x, "mlp", h, inputs, targets=_up_targets(x), bias=model.mlp_bias, shares=_gate_shares(x)),
        *(leave_region(x, "mlp") if _own_norm(x) else []),
        *([elementwise.norm_gradient(x, "mlp norm")] if _own_norm(x) else []),
        elementwise.residual_gradient(x),
        *([] if model.parallel_block else enter_region(x, "output projection")),
        *projection_backward(x, "output projection", context, h, targets=OUTPUT, bias=model.output_bias),
        *core_backward(x, attention),
        *([elementwise.rope(x, backward=True)] if model.positions == "rotary" else []),
        *enter_region(x, "qkv"),
        *projection_backward(x, "qkv", h, x.qkv_width, targets=QKV, bias=model.attention_bias, shares=_qkv_shares(x)),
        *leave_region(x, "qkv"),
        elementwise.norm_gradient(x, "attention norm"),
    ]


def _qkv_shares(x: Shapes) -> tuple[float, ...]:
    """Queries, keys and values as layers of their own."""
    heads, kv_heads = x.model.heads, x.model.kv_heads
    return tuple(part / (heads + 2.0 * kv_heads) for part in (heads, kv_heads, kv_heads))


def _gate_shares(x: Shapes) -> tuple[float, ...]:
    """The gate beside the up projection, as layers of their own."""
    return (0.5, 0.5) if x.model.gated else (1.0,)


def _own_norm(x: Shapes) -> bool:
    """Whether the MLP has a norm of its own; beside attention it may take that one's."""
    return x.model.layer_norms > 1


def _up_targets(x: Shapes) -> tuple[str, ...]:
    return ("gate", "up") if x.model.gated else ("up",)


def layer_inner_width(x: Shapes) -> Number:
    """Outputs of the MLP's up projection on one device: its width, twice where it is gated."""
    return x.model.intermediate_size / x.t * (2.0 if x.model.gated else 1.0)


def projection_parameters(x: Shapes) -> Number:
    """Elements of a layer's matmul weights on one device."""
    h, f, inputs = float(x.model.hidden_size), x.model.intermediate_size / x.t, layer_inner_width(x)
    return h * (x.qkv_width + x.heads * x.model.head_dim) + h * (inputs + f)


def layer_parameters(x: Shapes) -> Number:
    """Parameters of a layer on one device: projections are split, norms and row-split biases are not."""
    model = x.model
    h, inputs = float(model.hidden_size), layer_inner_width(x)
    biases = x.qkv_width * model.attention_bias + h * model.output_bias + (inputs + h) * model.mlp_bias
    return projection_parameters(x) + biases + model.layer_norms * model.norm_parameters


def layer_adapter_parameters(x: Shapes) -> Number:
    """Parameters of a layer's adapters on one device."""
    h, f, context = float(x.model.hidden_size), x.model.intermediate_size / x.t, x.heads * x.model.head_dim
    return (
        adapter_elements(x, h, x.qkv_width, QKV, _qkv_shares(x))
        + adapter_elements(x, context, h, OUTPUT)
        + adapter_elements(x, h, layer_inner_width(x), _up_targets(x), _gate_shares(x))
        + adapter_elements(x, f, h, DOWN)
    )
