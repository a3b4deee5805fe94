"""A linear layer: one matmul forward, two backward, and what biases and gradient accumulation add."""

from typing import Any

from sightline.program.address import Module, Part
from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number


def linear_forward(
    x: Shapes,
    module: Module,
    inputs: Number,
    outputs: Number,
    *,
    saved_bytes: Number,
    part: Part = "matmul",
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
        part=part,
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
    module: Module,
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
        part="matmul",
        direction="input gradient",
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
    module: Module,
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
            part="matmul",
            direction="weight gradient",
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
                part="accumulation",
                direction="weight gradient",
                traffic_bytes=x.framework.kernels.accumulation_traffic * experts * inputs * outputs,
                elements=experts * inputs * outputs,
            )
        )
    return operators


def bias_gradient(
    x: Shapes, module: Module, outputs: Number, *, rows: Number | None = None, experts: Number = 1.0
) -> Elementwise:
    """Return the sum of the outputs' gradients over all rows."""
    rows = x.tokens if rows is None else rows
    return Elementwise(
        module=module,
        part="bias",
        direction="weight gradient",
        traffic_bytes=x.element_bytes * experts * rows * outputs,
    )
