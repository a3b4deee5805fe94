"""A linear layer: one matmul forward, two backward, and what biases and gradient accumulation add."""

from typing import Any

from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number

GRADIENTS = ("input gradient", "weight gradient")
"""The products of a backward pass."""
_WEIGHT_GRADIENTS = ("weight gradient", "bias gradient", "gradient accumulation")


def makes_weight_gradient(operator: Operator) -> bool:
    """Whether an operator of a backward pass serves the update alone, so that the rest of the pass need not wait for it."""
    return operator.name.endswith(_WEIGHT_GRADIENTS)


def linear_forward(
    x: Shapes,
    module: str,
    inputs: Number,
    outputs: Number,
    *,
    saved_bytes: Number,
    name: str = "matmul",
    shares: tuple[float, ...] = (1.0,),
    rows: Number | None = None,
    experts: Number = 1.0,
) -> Matmul:
    """Return the forward matmul of ``rows x inputs`` by ``inputs x outputs``; its input is kept.

    ``rows`` are the tokens unless given. ``shares`` are the parts of the outputs that models keep as layers of their
    own. Of several ``experts`` each has a matrix and so many rows of its own.
    """
    return Matmul(
        module=module,
        name=name,
        m=x.tokens if rows is None else rows,
        n=outputs,
        k=inputs,
        batch=experts,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        output_bytes=x.element_bytes,
        saved_bytes=saved_bytes,
        shares=shares,
    )


def input_gradient(
    x: Shapes,
    module: str,
    inputs: Number,
    outputs: Number,
    *,
    shares: tuple[float, ...] = (1.0,),
    rows: Number | None = None,
    experts: Number = 1.0,
) -> Matmul:
    """Return the matmul that takes the gradient of the outputs to that of the inputs."""
    return Matmul(
        module=module,
        name="input gradient",
        m=x.tokens if rows is None else rows,
        n=inputs,
        k=outputs,
        batch=experts,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        output_bytes=x.element_bytes,
        shares=shares,
    )


def linear_backward(
    x: Shapes,
    module: str,
    inputs: Number,
    outputs: Number,
    *,
    bias: bool,
    shares: tuple[float, ...] = (1.0,),
    rows: Number | None = None,
    experts: Number = 1.0,
) -> list[Operator]:
    """Return the input- and weight-gradient matmuls, the bias gradient and the accumulation of weight gradients.

    Frameworks that fuse accumulation add the product to the gradient inside the matmul; others write a gradient and
    add or copy it in a kernel of its own, for every micro-batch.
    """
    fused = "gradient-accumulation" in x.framework.fusion.fused
    common: dict[str, Any] = {"module": module, "dtype": x.dtype, "element_bytes": x.element_bytes, "shares": shares}
    rows = x.tokens if rows is None else rows
    operators: list[Operator] = [
        input_gradient(x, module, inputs, outputs, shares=shares, rows=rows, experts=experts),
        Matmul(
            name="weight gradient",
            m=outputs,
            n=inputs,
            k=rows,
            batch=experts,
            input_row=outputs,
            output_bytes=x.framework.kernels.accumulation_traffic if fused else x.element_bytes,
            **common,
        ),
    ]
    if bias:
        operators.append(bias_gradient(x, module, outputs, rows=rows, experts=experts))
    if not fused:
        operators.append(
            Elementwise(
                module=module,
                name="gradient accumulation",
                traffic_bytes=x.framework.kernels.accumulation_traffic * experts * inputs * outputs,
                elements=experts * inputs * outputs,
            )
        )
    return operators


def bias_gradient(
    x: Shapes, module: str, outputs: Number, *, rows: Number | None = None, experts: Number = 1.0
) -> Elementwise:
    """Return the sum of the outputs' gradients over all rows."""
    rows = x.tokens if rows is None else rows
    return Elementwise(module=module, name="bias gradient", traffic_bytes=x.element_bytes * experts * rows * outputs)
