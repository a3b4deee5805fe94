"""Linear attention: the gated delta rule (arXiv 2412.06464) and Kimi's with a decay per channel (2510.26692).

A short convolution over queries, keys and values, norms of queries and keys, the rule itself, a gated norm of its output.
"""

from sightline.program.address import LINEAR_ATTENTION, Module
from sightline.program.kernels import Kernels
from sightline.program.mixer_operators import GatedDelta, ShortConvolution
from sightline.program.step import Step, Sublayer
from sightline.quantities import Number
from sightline.scenario import LinearAttention

CHUNK = 64.0
"""Tokens of a chunk of the rule, whose inverted triangle of corrections training keeps."""


def linear_attention(x: Kernels) -> Sublayer:
    """Return the linear attention of one layer."""
    linear = x.model.linear
    if linear is None:
        raise ValueError(f"{x.model.name} has no linear attention")
    key, value = linear.key_width / x.t, linear.value_width / x.t
    kept = x.element_bytes * x.tokens * linear.value_heads / x.t * CHUNK
    rule = [
        *convolution(x, LINEAR_ATTENTION, 2.0 * key + value, float(linear.conv_width)),
        *x.rule_inputs(linear),
        *(x.recurrent(_rule(group, linear), saved_bytes=kept, kernels=(5.0, 9.0)) for group in x.groups()),
        x.gated_norm(LINEAR_ATTENTION, value),
    ]
    exchanged = 2.0 * key + 2.0 * value
    return Sublayer(
        module="attention norm",
        steps=[
            *x.region("qkv", _projections(x, linear, key, value)),
            *x.whole_sequences(LINEAR_ATTENTION, exchanged, value, rule),
            x.projection("output projection", "matmul", value, x.h),
            *x.leave("output projection"),
        ],
        small_parameters=linear.small_parameters / x.t,
        widest=x.tokens * exchanged,
        widest_weight=x.h * exchanged,
    )


def _projections(x: Kernels, linear: LinearAttention, key: Number, value: Number) -> list[Step]:
    """What precedes the rule: joined queries, keys and values; output gate; decay and strength.

    With a ``gate_rank`` output gate and decay pass through that many elements, which all ranks make.
    """
    heads, entered = linear.value_heads / x.t, x.entered_share
    if linear.gate_rank is None:
        joined = 2.0 * key + 2.0 * value
        return [
            x.projection("qkv", "query, key, value, gate", x.h, joined, kept=entered),
            x.projection("qkv", "decay, strength", x.h, 2.0 * heads, kept=0.0),
        ]
    rank = float(linear.gate_rank)
    return [
        x.projection("qkv", "query, key, value", x.h, 2.0 * key + value, kept=entered),
        x.projection("qkv", "strength, gates down", x.h, heads + 2.0 * rank, kept=0.0),
        x.projection("qkv", "decay up", rank, key),
        x.projection("qkv", "gate up", rank, value),
    ]


def _rule(x: Kernels, linear: LinearAttention) -> GatedDelta:
    """The rule in chunks over whole sequences, or an update of each sequence's state."""
    return GatedDelta(
        module=LINEAR_ATTENTION,
        part="gated delta",
        sequences=x.b,
        new_tokens=x.sequence_tokens,
        key_heads=x.key_heads(linear),
        value_heads=linear.value_heads / x.head_ranks,
        key_dim=float(linear.key_dim),
        value_dim=float(linear.value_dim),
        decode=x.decode,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
    )


def convolution(
    x: Kernels, module: Module, channels: Number, width: float, *, gates: Number = 0.0, again: bool = False
) -> list[Step]:
    """Return a short convolution, whose inputs are kept with ``gates`` elements per token that others need."""
    kept = x.element_bytes * x.tokens * (channels + gates)
    return [
        x.recurrent(
            ShortConvolution(
                module=module,
                part="conv",
                sequences=group.b,
                new_tokens=group.sequence_tokens,
                channels=channels * x.t / x.head_ranks,
                width=width,
                decode=group.decode,
                element_bytes=x.element_bytes,
            ),
            saved_bytes=kept,
            again=again,
        )
        for group in x.groups()
    ]
