"""Bandwidth-bound chains of a transformer, in bytes as fused or separate kernels really move them.

Each function returns one operator for a micro-batch on one device, with the bytes its kernels move and what it keeps.
"""

from dataclasses import replace

from sightline.program.address import Module
from sightline.program.operators import Elementwise
from sightline.program.shapes import Shapes
from sightline.quantities import Number


def norm(x: Shapes, module: Module) -> Elementwise:
    """Forward norm: read and write; unfused it upcasts, squares, averages, scales and casts back in seven kernels."""
    n = x.residual_bytes / x.element_bytes
    if _norm_is_fused(x):
        return Elementwise(
            module=module, part="norm", traffic_bytes=2.0 * x.residual_bytes, saved_bytes=x.residual_bytes, elements=n
        )
    return Elementwise(
        module=module,
        part="norm",
        traffic_bytes=(28.0 + 4.0 * x.element_bytes) * n,
        kernels=7.0,
        # The normalized input in 16 bits is for the weight's gradient.
        saved_bytes=(4.0 + x.element_bytes * x.trained.rest) * n,
        elements=n,
    )


def _norm_is_fused(x: Shapes) -> bool:
    """LayerNorm is one kernel of PyTorch's own; an RMSNorm is written out unless the framework fuses it."""
    return "norm" in x.framework.fusion.fused or x.model.norm == "layernorm"


def norm_gradient(x: Shapes, module: Module) -> Elementwise:
    """Backward norm: input and output gradient in, input gradient out, and the weight's sums."""
    n = x.residual_bytes / x.element_bytes
    if _norm_is_fused(x):
        return Elementwise(
            module=module,
            part="norm",
            direction="backward",
            traffic_bytes=4.0 * x.residual_bytes,
            kernels=2.0,
            elements=n,
        )
    return Elementwise(
        module=module,
        part="norm",
        direction="backward",
        traffic_bytes=(48.0 + 8.0 * x.element_bytes) * n,
        # Ten of them for the input, four for the weight.
        kernels=10.0 + 4.0 * x.trained.rest,
        elements=n,
    )


def head_norm(x: Shapes, *, backward: bool) -> Elementwise:
    """Norms of the query and key heads, a call for each."""
    whole = norm_gradient(x, "qkv") if backward else norm(x, "qkv")
    heads = narrower(whole, x.tokens * (x.query_width + x.key_width))
    return replace(heads, part="head norm", kernels=2.0 * whole.kernels)


def narrower(norm: Elementwise, elements: Number) -> Elementwise:
    """Return a hidden-wide ``norm`` as it is over ``elements``."""
    share = elements / norm.elements
    return replace(
        norm, traffic_bytes=norm.traffic_bytes * share, saved_bytes=norm.saved_bytes * share, elements=elements
    )


def rope(x: Shapes, *, backward: bool, fused: bool | None = None) -> Elementwise:
    """Rotary embedding of queries and keys: read and write; unfused it slices, negates, joins, multiplies and adds.

    ``fused`` is whether one kernel does it; None asks the framework.
    """
    rotated = x.element_bytes * x.tokens * (x.query_width + x.key_width)
    fused = "rope" in x.framework.fusion.fused if fused is None else fused
    # In complex numbers a cast to fp32, one product and a cast back, of either tensor.
    apart = (10.0, 6.0) if x.framework.native.complex_rope else (9.0, 10.0)
    return Elementwise(
        module="rope",
        part="rope",
        direction="backward" if backward else "forward",
        traffic_bytes=(2.0 if fused else apart[0]) * rotated,
        kernels=2.0 if fused else apart[1],
        elements=rotated / x.element_bytes,
    )


def activation(x: Shapes, width: Number, *, module: Module = "mlp", rows: Number | None = None) -> Elementwise:
    """Forward GELU, ReLU or SwiGLU over ``width`` elements of each of ``rows`` (the tokens): inputs in, product out.

    The inputs are kept.
    """
    rows = x.tokens if rows is None else rows
    tensor = x.element_bytes * rows * width
    if not x.model.gated:
        kernels = 2.0 if _squares_apart(x) else 1.0
        return Elementwise(
            module=module,
            part="activation",
            traffic_bytes=2.0 * kernels * tensor,
            kernels=kernels,
            saved_bytes=tensor,
            elements=rows * width,
        )
    fused = "activation" in x.framework.fusion.fused
    return Elementwise(
        module=module,
        part="activation",
        traffic_bytes=(3.0 if fused else 5.0) * tensor,
        kernels=1.0 if fused else 2.0,
        saved_bytes=(2.0 if fused else 3.0) * tensor,
        elements=rows * width,
    )


def activation_gradient(x: Shapes, width: Number, *, module: Module = "mlp", rows: Number | None = None) -> Elementwise:
    """Backward of ``activation``."""
    rows = x.tokens if rows is None else rows
    tensor = x.element_bytes * rows * width
    if not x.model.gated:
        # Eager PyTorch makes pow(x, 2)'s gradient as grad * (2 * x ** 1), each a kernel, and then that of ReLU.
        apart = _squares_apart(x)
        return Elementwise(
            module=module,
            part="activation",
            direction="backward",
            traffic_bytes=(10.0 if apart else 3.0) * tensor,
            kernels=4.0 if apart else 1.0,
            elements=rows * width,
        )
    fused = "activation" in x.framework.fusion.fused
    return Elementwise(
        module=module,
        part="activation",
        direction="backward",
        traffic_bytes=(5.0 if fused else 9.0) * tensor,
        kernels=1.0 if fused else 3.0,
        elements=rows * width,
    )


def _squares_apart(x: Shapes) -> bool:
    """Whether a squared ReLU is eager PyTorch's two functions, with a kernel for each and four for their gradients."""
    return x.model.activation == "relu2" and "squared-relu" not in x.framework.fusion.fused


def residual(x: Shapes, *, bias: bool) -> Elementwise:
    """Bias, dropout and residual addition; a dropout keeps one byte per element."""
    mask = x.residual_bytes / x.element_bytes * (x.model.dropout > 0)
    if "bias-dropout-add" in x.framework.fusion.fused or not (bias or x.model.dropout > 0):
        return Elementwise(
            module="residual",
            part="residual",
            traffic_bytes=3.0 * x.residual_bytes + mask,
            saved_bytes=mask,
            elements=x.residual_bytes / x.element_bytes,
        )
    steps = 2.0 if x.model.dropout > 0 else 1.0
    return Elementwise(
        module="residual",
        part="residual",
        traffic_bytes=(1.0 + 2.0 * steps) * x.residual_bytes + mask,
        kernels=steps,
        saved_bytes=mask,
        elements=x.residual_bytes / x.element_bytes,
    )


def residual_gradient(x: Shapes) -> Elementwise:
    """Backward of the residual: the branch's masked gradient, and the sum where branches meet."""
    mask = x.residual_bytes / x.element_bytes * (x.model.dropout > 0)
    branches = 5.0 if x.model.dropout > 0 else 3.0
    return Elementwise(
        module="residual",
        part="residual",
        direction="backward",
        traffic_bytes=branches * x.residual_bytes + mask,
        kernels=2.0 if x.model.dropout > 0 else 1.0,
        elements=x.residual_bytes / x.element_bytes,
    )
