"""Several residual streams (hyper-connections, arXiv 2409.19606; constrained as in DeepSeek V4, arXiv 2512.24880).

A block reads a mix of ``n`` streams and its output is added to all of them, which are mixed among themselves; the mixing
depends on the token: one product of the normed streams with ``n (n + 2)`` columns, in fp32. One stream is the ordinary
residual, which `sightline.program.kernels.training_elementwise` has; here it adds nothing.
"""

from typing import TYPE_CHECKING

from sightline.program.address import Part
from sightline.program.program import LinearLayer, Step, elementwise
from sightline.quantities import Number

if TYPE_CHECKING:
    from sightline.program.kernels.training_linear import TrainingLinear

SINKHORN_KERNELS = 3.0
"""Sigmoids, and the rounds that make the mixing doubly stochastic in one kernel."""


def read_streams(x: "TrainingLinear") -> list[Step]:
    """Return what stands before a block: the streams' norm, the coefficients, and the block's input."""
    n = float(x.model.residual_streams)
    if n == 1.0:
        return []
    columns, stream = n * (n + 2.0), x.residual_bytes
    mixed = x.piece_tokens * columns
    return [
        _mix(x, "streams' norm", (n * stream, 3.0 * n * stream), kernels=(2.0, 2.0)),
        x.linear(LinearLayer("residual", "coefficients", n * x.h, columns, kept=0.0, rows=x.piece_tokens)),
        _mix(
            x, "mixing", (32.0 * mixed, 64.0 * mixed), kernels=(SINKHORN_KERNELS, SINKHORN_KERNELS), saved=8.0 * mixed
        ),
        # The streams are kept, for this sum and for the mixing behind the block.
        _mix(x, "streams read", ((n + 1.0) * stream, (3.0 * n + 1.0) * stream), saved=n * stream),
    ]


def write_streams(x: "TrainingLinear") -> list[Step]:
    """Return what takes the place of the residual addition behind a block; its output is kept."""
    n, stream = float(x.model.residual_streams), x.residual_bytes
    if n == 1.0:
        return []
    return [_mix(x, "streams written", ((2.0 * n + 1.0) * stream, (3.0 * n + 2.0) * stream), saved=stream)]


def join_streams(x: "TrainingLinear") -> list[Step]:
    """Return how the streams become one vector before the last norm."""
    n, stream = float(x.model.residual_streams), x.residual_bytes
    if n == 1.0:
        return []
    return [
        x.linear(LinearLayer("head", "coefficients", n * x.h, n, rows=x.piece_tokens)),
        _mix(x, "streams joined", ((n + 1.0) * stream, (3.0 * n + 1.0) * stream), kernels=(1.0, 1.0)),
    ]


def _mix(
    x: "TrainingLinear",
    part: Part,
    traffic_bytes: tuple[Number, Number],
    kernels: tuple[float, float] = (1.0, 2.0),
    saved: Number = 0.0,
) -> Step:
    elements = x.residual_bytes / x.element_bytes * x.model.residual_streams
    return elementwise("residual", part, elements, traffic_bytes, kernels, saved_bytes=saved)
