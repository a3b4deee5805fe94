"""Mixers that keep a state of fixed size: gated delta (linear attention) and Mamba-2."""

from typing import Final

from sightline.program.address import Module
from sightline.program.inference.shapes import PassShapes
from sightline.program.mixer_operators import GatedDelta, ShortConvolution, StateSpaceScan
from sightline.program.operators import Operator
from sightline.quantities import Number

CORE: Final = "linear attention"


def gated_delta(x: PassShapes) -> list[Operator]:
    """A gated delta net's mixer (arXiv 2412.06464), as Qwen3-Next has it."""
    linear = x.model.linear
    if linear is None:
        raise ValueError(f"{x.model.name} has no linear attention")
    key, value = linear.key_heads * linear.key_dim / x.t, linear.value_heads * linear.value_dim / x.t
    heads = linear.value_heads / x.t
    if linear.gate_rank is None:
        gates = [
            x.linear("qkv", "query, key, value, gate", 2.0 * key + 2.0 * value, x.h),
            x.linear("qkv", "decay, strength", 2.0 * heads, x.h),
        ]
    else:
        rank = float(linear.gate_rank)
        gates = [
            x.linear("qkv", "query, key, value", 2.0 * key + value, x.h),
            x.linear("qkv", "strength, gates down", heads + 2.0 * rank, x.h),
            x.linear("qkv", "decay up", key, rank),
            x.linear("qkv", "gate up", value, rank),
        ]
    return [
        *gates,
        _convolution(x, CORE, 2.0 * key + value, float(linear.conv_width)),
        GatedDelta(
            module=CORE,
            part="gated delta",
            sequences=x.b,
            new_tokens=x.q,
            key_heads=linear.key_heads / x.t,
            value_heads=linear.value_heads / x.t,
            key_dim=float(linear.key_dim),
            value_dim=float(linear.value_dim),
            decode=x.decode,
            dtype=x.dtype,
            element_bytes=x.element_bytes,
        ),
        x.stream(CORE, "norm", 3.0 * x.tokens * value, part="gated norm"),
        x.linear("output projection", "output", x.h, value),
    ]


def state_space(x: PassShapes) -> list[Operator]:
    """A Mamba-2 mixer (arXiv 2405.21060), as Nemotron-H has it."""
    space = x.model.state_space
    if space is None:
        raise ValueError(f"{x.model.name} has no state-space layers")
    inner, shared = space.heads * space.head_dim / x.t, 2.0 * space.groups * space.state / x.t
    return [
        x.linear("qkv", "input", 2.0 * inner + shared + space.heads / x.t, x.h),
        _convolution(x, "state space", inner + shared, float(space.conv_width)),
        StateSpaceScan(
            module="state space",
            part="scan",
            sequences=x.b,
            new_tokens=x.q,
            heads=space.heads / x.t,
            head_dim=float(space.head_dim),
            groups=space.groups / x.t,
            state=float(space.state),
            decode=x.decode,
            dtype=x.dtype,
            element_bytes=x.element_bytes,
        ),
        x.stream("state space", "norm", 3.0 * x.tokens * inner, part="gated norm"),
        x.linear("output projection", "output", x.h, inner),
    ]


def _convolution(x: PassShapes, module: Module, channels: Number, width: float) -> ShortConvolution:
    return ShortConvolution(
        module=module,
        part="conv",
        sequences=x.b,
        new_tokens=x.q,
        channels=channels,
        width=width,
        decode=x.decode,
        element_bytes=x.element_bytes,
    )
