"""A projection of a decoder layer: a linear layer that is trained, or a frozen one, quantized or not, with adapters."""

from dataclasses import replace

from sightline.program.adapter import adapter_backward, adapter_forward, adapters_of
from sightline.program.adapter_exchange import exchange_backward, exchange_forward
from sightline.program.address import Module, Part
from sightline.program.linear import bias_gradient, input_gradient, linear_backward, linear_forward
from sightline.program.low_precision import narrowed, quantized, quantized_weights, turned_operands, turned_weights
from sightline.program.operators import Operator
from sightline.program.quantized_weights import dequantize
from sightline.program.separate_products import apart, chunked
from sightline.program.shapes import Shapes
from sightline.quantities import Number


def projection_forward(
    x: Shapes,
    module: Module,
    inputs: Number,
    outputs: Number,
    *,
    targets: tuple[str, ...],
    saved_bytes: Number,
    part: Part = "matmul",
    shares: tuple[float, ...] = (1.0,),
    rows: Number | None = None,
    experts: Number = 1.0,
    gathered: bool = False,
    scattered: bool = False,
) -> list[Operator]:
    """Return the forward operators of the projections ``targets``, which are the parts ``shares`` of the outputs.

    A frozen matmul needs no input for its backward pass; an adapter beside it does, and some libraries keep it anyway.
    ``gathered``: sequence parallelism gathers the input; ``scattered``: it scatters the output.
    """
    plain = linear_forward(
        x, module, inputs, outputs, saved_bytes=saved_bytes, part=part, shares=shares, rows=rows, experts=experts
    )
    elements = experts * (x.tokens if rows is None else rows) * inputs
    cut = gathered or scattered
    if x.trained.projections:
        return [
            *quantized_weights(x, module, experts * inputs * outputs),
            *quantized(x, module, "input quantization", elements, for_weights=True, gathered=gathered),
            *(chunked(x, narrowed(x, part)) if cut else narrowed(x, part) for part in apart(x, [plain])),
        ]
    kept = x.trained.quantization != "none" and x.framework.litgpt.quantized_keeps_inputs
    frozen = plain if kept else replace(plain, saved_bytes=0.0)
    operators = [
        *dequantize(x, module, experts * inputs * outputs),
        *quantized(x, module, "input quantization", elements, for_weights=False, gathered=gathered),
        narrowed(x, frozen),
    ]
    for i, thin in enumerate(adapters_of(x, inputs, outputs, targets, shares)):
        operators += [
            *adapter_forward(x, module, thin, input_is_kept=kept or i > 0),
            *exchange_forward(x, module, thin),
        ]
    return operators


def projection_backward(
    x: Shapes,
    module: Module,
    inputs: Number,
    outputs: Number,
    *,
    targets: tuple[str, ...],
    bias: bool,
    shares: tuple[float, ...] = (1.0,),
    rows: Number | None = None,
    experts: Number = 1.0,
    gathered: bool = False,
) -> list[Operator]:
    """Return the backward operators: a frozen weight has no gradient, but passes its outputs' on to its inputs.

    The bias beside a quantized weight is trained where no adapter is. ``gathered``: sequence parallelism gathers the
    gradient.
    """
    each = experts * (x.tokens if rows is None else rows)
    elements = each * outputs
    turned = turned_weights(x, module, experts * inputs * outputs)
    if x.trained.projections:
        products = linear_backward(x, module, inputs, outputs, bias=bias, shares=shares, rows=rows, experts=experts)
        return [
            *turned,
            *quantized(x, module, "gradient quantization", elements, for_weights=True, gathered=gathered),
            *turned_operands(x, module, elements + each * inputs),
            *(
                chunked(x, narrowed(x, part)) if gathered and part.direction == "input gradient" else narrowed(x, part)
                for part in apart(x, products)
            ),
        ]
    operators = [
        *dequantize(x, module, experts * inputs * outputs),
        *turned,
        *quantized(x, module, "gradient quantization", elements, for_weights=False, gathered=gathered),
        narrowed(x, input_gradient(x, module, inputs, outputs, shares=shares, rows=rows, experts=experts)),
    ]
    if bias and x.trained.rest:
        operators.append(bias_gradient(x, module, outputs, rows=rows, experts=experts))
    for thin in adapters_of(x, inputs, outputs, targets, shares):
        operators += [*exchange_backward(x, module, thin), *adapter_backward(x, module, thin)]
    return operators


def adapter_elements(
    x: Shapes, inputs: Number, outputs: Number, targets: tuple[str, ...], shares: tuple[float, ...] = (1.0,)
) -> Number:
    """Parameters of the adapters beside a matmul, on one device."""
    return sum((thin.parameters for thin in adapters_of(x, inputs, outputs, targets, shares)), start=0.0)
