"""The attention core: scores, softmax and context, as one flash kernel or as separate eager kernels."""

from sightline.program.adapter import keeps_input
from sightline.program.operators import Elementwise, FlashAttention, Matmul, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number

MODULE = "attention core"

SOFTMAX_ARITHMETIC = 20.0
"""Vector instructions per score: scale, mask, maximum, exponential, sum, division, conversions (estimate)."""
RANDOM_ARITHMETIC = 40.0
"""Vector instructions per element of a dropout: a share of ten Philox rounds, comparison, scale (estimate)."""


def core_forward(x: Shapes, kernel: str) -> list[Operator]:
    """Return the forward operators from queries, keys and values to the context."""
    return [flash(x, backward=False)] if kernel == "flash" else _eager_forward(x)


def core_backward(x: Shapes, kernel: str) -> list[Operator]:
    """Return the backward operators from the context's gradient to those of queries, keys and values."""
    return [flash(x, backward=True)] if kernel == "flash" else _eager_backward(x)


def flash(x: Shapes, *, backward: bool) -> FlashAttention:
    """Return the flash kernel; forward keeps queries, keys, values and a float per row and head.

    Its output is kept by the output projection, where that keeps its input as it is. Values that are a view of one
    joined tensor keep all of that alive beside the rotated queries and keys.
    """
    kept = x.element_bytes * x.tokens * x.qkv_width + 4.0 * x.tokens * x.heads
    if not keeps_input(x, "output"):
        kept = kept + x.element_bytes * x.tokens * x.heads * x.model.head_dim
    if x.framework.keeps_joined_qkv and x.model.heads == x.model.kv_heads:
        kept = kept + x.element_bytes * x.tokens * (x.heads + x.kv_heads) * x.model.head_dim
    return FlashAttention(
        module=MODULE,
        name="flash attention",
        batch=x.b,
        heads=x.heads,
        kv_heads=x.kv_heads,
        head_dim=float(x.model.head_dim),
        query_tokens=x.s,
        context_tokens=x.s,
        causal=True,
        backward=backward,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        saved_bytes=0.0 if backward else kept,
        kernels=4.0 if backward else 1.0,
    )


def _product(x: Shapes, name: str, m: Number, n: Number, k: Number, saved_bytes: Number = 0.0) -> Matmul:
    return Matmul(
        module=MODULE,
        name=name,
        m=m,
        n=n,
        k=k,
        batch=x.b * x.heads,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        output_bytes=x.element_bytes,
        saved_bytes=saved_bytes,
    )


def _scores(x: Shapes) -> Number:
    """Elements of the scores of one micro-batch on one device."""
    return x.b * x.heads * x.s * x.s


def _softmax_fused(x: Shapes) -> Number:
    """1.0 where the framework's fused softmax takes the scores' count of matrices, else 0.0."""
    return ("softmax" in x.framework.fused) * (x.b * x.heads % x.framework.softmax_granule == 0) * 1.0


def _eager_forward(x: Shapes) -> list[Operator]:
    e, d, elements = x.element_bytes, float(x.model.head_dim), _scores(x)
    queries = x.tokens * x.heads * d
    keys = x.tokens * x.kv_heads * d
    fused = _softmax_fused(x)
    operators: list[Operator] = [
        _product(x, "scores", x.s, x.s, d, saved_bytes=e * (queries + keys)),
        # Unfused: cast to fp32, scale, build the mask, fill it in, softmax, cast back.
        Elementwise(
            module=MODULE,
            name="softmax",
            traffic_bytes=(6.0 * e + 12.0 - fused * (4.0 * e + 12.0)) * elements,
            arithmetic=SOFTMAX_ARITHMETIC * elements,
            kernels=9.0 - 8.0 * fused,
            saved_bytes=(e + 4.0 * (1.0 - fused)) * elements,
        ),
        # The values, and the probabilities after dropout.
        _product(x, "context", x.s, d, x.s, saved_bytes=e * keys + e * elements * (x.model.dropout > 0)),
        Elementwise(module=MODULE, name="layout", traffic_bytes=2.0 * e * queries, kernels=3.0),
    ]
    if x.model.positions == "alibi":
        operators.append(Elementwise(module=MODULE, name="alibi", traffic_bytes=2.0 * e * elements))
    if x.model.dropout > 0:
        operators.append(
            Elementwise(
                module=MODULE,
                name="dropout",
                traffic_bytes=(2.0 * e + 1.0) * elements,
                arithmetic=RANDOM_ARITHMETIC * elements,
                saved_bytes=elements,
            )
        )
    return operators


def _eager_backward(x: Shapes) -> list[Operator]:
    e, d, elements = x.element_bytes, float(x.model.head_dim), _scores(x)
    widths = x.tokens * x.qkv_width
    fused = _softmax_fused(x)
    operators: list[Operator] = [
        _product(x, "probabilities gradient", x.s, x.s, d),
        _product(x, "values gradient", x.s, d, x.s),
        Elementwise(
            module=MODULE,
            name="softmax gradient",
            traffic_bytes=(5.0 * e + 12.0 - fused * (2.0 * e + 12.0)) * elements,
            kernels=7.0 - 6.0 * fused,
        ),
        _product(x, "queries gradient", x.s, d, x.s),
        _product(x, "keys gradient", x.s, d, x.s),
        Elementwise(module=MODULE, name="layout gradient", traffic_bytes=3.0 * e * widths, kernels=4.0),
    ]
    if x.model.dropout > 0:
        operators.append(Elementwise(module=MODULE, name="dropout gradient", traffic_bytes=(2.0 * e + 1.0) * elements))
    return operators
