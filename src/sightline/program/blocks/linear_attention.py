"""Linear attention: the gated delta rule (arXiv 2412.06464) and Kimi's with a decay per channel (2510.26692).

A short convolution over queries, keys and values, norms of queries and keys, the rule itself, a gated norm of its output.
"""

from sightline.program.kernels import Kernels
from sightline.program.step import Step, Sublayer
from sightline.quantities import Number
from sightline.scenario import LinearAttention


def linear_attention(x: Kernels) -> Sublayer:
    """Return the linear attention of one layer."""
    linear = x.model.linear
    if linear is None:
        raise ValueError(f"{x.model.name} has no linear attention")
    key, value = linear.key_width / x.t, linear.value_width / x.t
    rule = [
        *x.convolution("linear attention", 2.0 * key + value, float(linear.conv_width)),
        *x.gated_delta(linear),
        x.gated_norm("linear attention", value),
    ]
    exchanged = 2.0 * key + 2.0 * value
    return Sublayer(
        module="attention norm",
        steps=[
            *x.region("qkv", _projections(x, linear, key, value)),
            *x.whole_sequences("linear attention", exchanged, value, rule),
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
