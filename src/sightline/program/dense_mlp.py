"""The dense MLP of a layer, gated or not."""

from sightline.program import elementwise
from sightline.program.adapter_exchange import enter_adapted
from sightline.program.address import Module
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

DOWN = ("down",)


def keeps_product(x: Shapes) -> bool:
    """Whether the down projection keeps its input: a fused gate could recompute the product from what went into it."""
    return x.framework.memory.keeps_product or not (x.model.gated and "activation" in x.framework.fusion.fused)


def dense_mlp(x: Shapes, width: float, module: Module = "mlp") -> Sublayer:
    """Return an MLP of ``width``, cut over the tensor-parallel ranks.

    In a parallel block without a norm of its own it works on what attention has gathered already.
    """
    model, h, f = x.model, float(x.model.hidden_size), width / x.t
    inputs = f * (2.0 if model.gated else 1.0)
    up_targets, shares = (("gate", "up"), (0.5, 0.5)) if model.gated else (("up",), (1.0,))
    enters = model.layer_norms > 1
    weights = h * (inputs + f)
    return Sublayer(
        module="mlp norm",
        forward=[
            *(enter_adapted(x, module, up_targets) if enters else []),
            *projection_forward(
                x,
                module,
                h,
                inputs,
                targets=up_targets,
                saved_bytes=entered_bytes(x),
                part="up",
                shares=shares,
                gathered=True,
            ),
            elementwise.activation(x, f, module=module),
            *projection_forward(
                x,
                module,
                f,
                h,
                targets=DOWN,
                saved_bytes=x.element_bytes * x.tokens * f * keeps_product(x),
                part="down",
                scattered=True,
            ),
            *leave_region(x, module),
        ],
        backward=[
            *enter_region(x, module),
            *projection_backward(x, module, f, h, targets=DOWN, bias=model.mlp_bias, gathered=True),
            elementwise.activation_gradient(x, f, module=module),
            *reenter_region(x, module),
            *projection_backward(x, module, h, inputs, targets=up_targets, bias=model.mlp_bias, shares=shares),
            *(leave_backward(x, module) if enters else []),
        ],
        weights=weights,
        parameters=weights + (inputs + h) * model.mlp_bias,
        adapter_parameters=adapter_elements(x, h, inputs, up_targets, shares) + adapter_elements(x, f, h, DOWN),
        widest=x.tokens * inputs,
        widest_weight=h * f,
        output_bias=model.mlp_bias,
    )
