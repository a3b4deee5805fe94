"""Several residual streams (hyper-connections, arXiv 2409.19606; constrained as in DeepSeek V4, arXiv 2512.24880).

A block reads a mix of ``n`` streams and its output is added to all of them, which are mixed among themselves; the mixing
depends on the token: one product of the normed streams with ``n (n + 2)`` columns, in fp32. One stream is the ordinary
residual, which `sightline.program.elementwise` has; here it adds nothing.
"""

from typing import Final

from sightline.program.address import Direction, Part
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.operators import Elementwise, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number

MODULE: Final = "residual"
SINKHORN_KERNELS = 3.0
"""Sigmoids, and the rounds that make the mixing doubly stochastic in one kernel."""


def read_streams(x: Shapes, *, backward: bool) -> list[Operator]:
    """Return what stands before a block: the streams' norm, the coefficients, and the block's input."""
    n = float(x.model.residual_streams)
    if n == 1.0:
        return []
    rows = x.tokens / x.r
    wide, columns = n * x.model.hidden_size, n * (n + 2.0)
    stream = x.residual_bytes
    if not backward:
        return [
            _chain(x, "streams' norm", n * stream, kernels=2.0),
            linear_forward(x, MODULE, wide, columns, saved_bytes=0.0, part="coefficients", rows=rows),
            _chain(x, "mixing", 32.0 * rows * columns, kernels=SINKHORN_KERNELS, saved_bytes=8.0 * rows * columns),
            # The streams are kept, for this sum and for the mixing behind the block.
            _chain(x, "streams read", (n + 1.0) * stream, saved_bytes=n * stream),
        ]
    return [
        _chain(x, "streams read", direction="backward", traffic_bytes=(3.0 * n + 1.0) * stream, kernels=2.0),
        _chain(x, "mixing", direction="backward", traffic_bytes=64.0 * rows * columns, kernels=SINKHORN_KERNELS),
        *linear_backward(x, MODULE, wide, columns, bias=False, rows=rows),
        _chain(x, "streams' norm", direction="backward", traffic_bytes=3.0 * n * stream, kernels=2.0),
    ]


def write_streams(x: Shapes, *, backward: bool) -> list[Operator]:
    """Return what takes the place of the residual addition behind a block; its output is kept."""
    n = float(x.model.residual_streams)
    if n == 1.0:
        return []
    if not backward:
        return [_chain(x, "streams written", (2.0 * n + 1.0) * x.residual_bytes, saved_bytes=x.residual_bytes)]
    return [
        _chain(
            x, "streams written", direction="backward", traffic_bytes=(3.0 * n + 2.0) * x.residual_bytes, kernels=2.0
        )
    ]


def join_streams(x: Shapes, *, backward: bool) -> list[Operator]:
    """Return how the streams become one vector before the last norm."""
    n = float(x.model.residual_streams)
    if n == 1.0:
        return []
    rows, wide = x.tokens / x.r, n * x.model.hidden_size
    if not backward:
        return [
            linear_forward(x, "head", wide, n, saved_bytes=n * x.residual_bytes, part="coefficients", rows=rows),
            _chain(x, "streams joined", (n + 1.0) * x.residual_bytes),
        ]
    return [
        _chain(x, "streams joined", direction="backward", traffic_bytes=(3.0 * n + 1.0) * x.residual_bytes),
        *linear_backward(x, "head", wide, n, bias=False, rows=rows),
    ]


def _chain(
    x: Shapes,
    part: Part,
    traffic_bytes: Number,
    *,
    direction: Direction = "forward",
    kernels: float = 1.0,
    saved_bytes: Number = 0.0,
) -> Elementwise:
    return Elementwise(
        module=MODULE,
        part=part,
        direction=direction,
        traffic_bytes=traffic_bytes,
        kernels=kernels,
        saved_bytes=saved_bytes,
        elements=x.residual_bytes / x.element_bytes * x.model.residual_streams,
    )
