"""Linear attention as it is trained: the gated delta rule (arXiv 2412.06464) and Kimi's with a decay per channel (2510.26692).

A short convolution over queries, keys and values, norms of queries and keys, the rule itself in chunks, a gated norm of
its output. Kept for the backward pass is what the kernels of flash-linear-attention keep: the convolution's input, the
normed queries and keys, values, decays, the inverted triangle of every chunk, the output and its gate.
"""

from typing import Any, Final

from sightline.program.address import Direction, Module
from sightline.program.context_heads import exchange
from sightline.program.mixer_operators import GatedDelta, ShortConvolution
from sightline.program.operators import Elementwise, Operator
from sightline.program.projection import projection_backward, projection_forward
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
from sightline.scenario import LinearAttention

CORE: Final = "linear attention"
CHUNK = 64.0
"""Tokens of a chunk, whose triangle of corrections is kept."""
GATE_KERNELS = 6.0
"""Sigmoid of the strength; cast, bias, softplus, exponent and product of the decay."""


def linear_attention(x: Shapes) -> Sublayer:
    """Return the linear attention of one layer."""
    linear = x.model.linear
    if linear is None:
        raise ValueError(f"{x.model.name} has no linear attention")
    h, e = float(x.model.hidden_size), x.element_bytes
    key, value = linear.key_width / x.t, linear.value_width / x.t
    projections = _projections(x, linear, h)
    turned = 2.0 * key + 2.0 * value
    forward: list[Operator] = [*enter_region(x, "qkv")]
    for i, (inputs, outputs) in enumerate(projections):
        forward += projection_forward(
            x,
            "qkv",
            inputs,
            outputs,
            targets=(),
            # Projections of the hidden vector share their input.
            saved_bytes=entered_bytes(x) * (i == 0) + e * x.tokens * inputs * (inputs != h),
            shares=(),
        )
    forward += [
        *exchange(x, CORE, turned, "to heads"),
        *_core(x, linear, backward=False),
        *exchange(x, CORE, value, "from heads"),
        *projection_forward(x, "output projection", value, h, targets=(), saved_bytes=e * x.tokens * value, shares=()),
        *leave_region(x, "output projection"),
    ]
    backward: list[Operator] = [
        *enter_region(x, "output projection"),
        *projection_backward(x, "output projection", value, h, targets=(), bias=False, shares=()),
        *exchange(x, CORE, value, "from heads"),
        *_core(x, linear, backward=True),
        *exchange(x, CORE, turned, "to heads"),
        *reenter_region(x, "qkv"),
    ]
    for inputs, outputs in reversed(projections):
        backward += projection_backward(x, "qkv", inputs, outputs, targets=(), bias=False, shares=())
    backward += leave_backward(x, "qkv")
    weights = sum(inputs * outputs for inputs, outputs in projections) + value * h
    return Sublayer(
        module="attention norm",
        forward=forward,
        backward=backward,
        weights=weights,
        parameters=weights + linear.small_parameters / x.t,
        widest=x.tokens * turned,
        widest_weight=h * turned,
    )


def _projections(x: Shapes, linear: LinearAttention, h: float) -> list[tuple[Number, Number]]:
    """Inputs and outputs of what precedes the rule: joined queries, keys, values; output gate; decay and strength.

    With a ``gate_rank`` output gate and decay pass through that many elements, which all ranks make.
    """
    key, value, heads = linear.key_width / x.t, linear.value_width / x.t, linear.value_heads / x.t
    if linear.gate_rank is None:
        return [(h, 2.0 * key + 2.0 * value), (h, 2.0 * heads)]
    rank = float(linear.gate_rank)
    return [(h, 2.0 * key + value), (h, heads + 2.0 * rank), (rank, key), (rank, value)]


def _core(x: Shapes, linear: LinearAttention, *, backward: bool) -> list[Operator]:
    """Everything between the projections, in order of execution; backward the same in reverse."""
    e, tokens = x.element_bytes, x.tokens
    key, value, heads = linear.key_width / x.t, linear.value_width / x.t, linear.value_heads / x.t
    repeated = heads * linear.key_dim
    decays = heads if linear.gate_rank is None else repeated
    kept = 0.0 if backward else 1.0
    sequences: dict[str, Any] = {"sequences": x.b, "new_tokens": x.s * x.c, "decode": False}
    way: Direction = "backward" if backward else "forward"
    sequences |= {"direction": way}
    operators: list[Operator] = [
        ShortConvolution(
            module=CORE,
            part="conv",
            channels=(2.0 * key + value) / x.c,
            width=float(linear.conv_width),
            element_bytes=e,
            saved_bytes=kept * e * tokens * (2.0 * key + value),
            **sequences,
        ),
        # Keys are repeated for every value head; queries and keys are normed.
        Elementwise(
            module=CORE,
            part="norm of queries and keys",
            direction=way,
            traffic_bytes=(2.0 if backward else 1.0) * e * tokens * (2.0 * key + 2.0 * repeated),
            kernels=2.0 + 2.0 * (linear.value_heads > linear.key_heads),
            saved_bytes=kept * e * tokens * (2.0 * repeated + value),
            elements=tokens * 2.0 * repeated,
        ),
        Elementwise(
            module=CORE,
            part="decay and strength",
            direction=way,
            traffic_bytes=(2.0 if backward else 1.0) * tokens * (16.0 + 4.0 * e) * decays,
            kernels=GATE_KERNELS,
            saved_bytes=kept * tokens * ((4.0 + e) * decays + 4.0 * heads),
            elements=tokens * decays,
        ),
        GatedDelta(
            module=CORE,
            part="gated delta",
            key_heads=heads / x.c,
            value_heads=heads / x.c,
            key_dim=float(linear.key_dim),
            value_dim=float(linear.value_dim),
            dtype=x.dtype,
            element_bytes=e,
            saved_bytes=kept * e * tokens * heads * CHUNK,
            kernels=9.0 if backward else 5.0,
            **sequences,
        ),
        gated_norm(x, CORE, value, backward=backward),
    ]
    return operators[::-1] if backward else operators


def gated_norm(x: Shapes, module: Module, width: Number, *, backward: bool) -> Elementwise:
    """A norm of ``width`` elements per token times the activation of as wide a gate, in one kernel; both are kept."""
    tensor = x.element_bytes * x.tokens * width
    return Elementwise(
        module=module,
        part="gated norm",
        direction="backward" if backward else "forward",
        traffic_bytes=(5.0 if backward else 3.0) * tensor,
        kernels=2.0 if backward else 1.0,
        saved_bytes=0.0 if backward else 2.0 * tensor,
        elements=x.tokens * width,
    )
