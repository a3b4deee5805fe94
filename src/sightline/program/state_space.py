"""Mamba-2 as it is trained (arXiv 2405.21060): one projection, a short convolution, the scan, a gated norm.

Its fused kernel keeps the projection's output and its own, and runs the convolution once more in the backward pass, as
the authors' implementation and the frameworks that call it do.
"""

from typing import Any, Final

from sightline.program.context_heads import exchange
from sightline.program.linear_attention import gated_norm
from sightline.program.mixer_operators import ShortConvolution, StateSpaceScan
from sightline.program.operators import Operator
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
from sightline.scenario import StateSpace

CORE: Final = "state space"


def state_space(x: Shapes) -> Sublayer:
    """Return the state-space mixer of one layer."""
    space = x.model.state_space
    if space is None:
        raise ValueError(f"{x.model.name} has no state-space layers")
    h, e = float(x.model.hidden_size), x.element_bytes
    inner, projected = space.inner_width / x.t, space.projected_width / x.t
    weights = h * (projected + inner)
    return Sublayer(
        module="attention norm",
        forward=[
            *enter_region(x, "qkv"),
            *projection_forward(x, "qkv", h, projected, targets=(), saved_bytes=entered_bytes(x), shares=()),
            *exchange(x, CORE, projected, "to heads"),
            *_core(x, space, backward=False),
            *exchange(x, CORE, inner, "from heads"),
            *projection_forward(
                x, "output projection", inner, h, targets=(), saved_bytes=e * x.tokens * inner, shares=()
            ),
            *leave_region(x, "output projection"),
        ],
        backward=[
            *enter_region(x, "output projection"),
            *projection_backward(x, "output projection", inner, h, targets=(), bias=False, shares=()),
            *exchange(x, CORE, inner, "from heads"),
            *_core(x, space, backward=True),
            *exchange(x, CORE, projected, "to heads"),
            *reenter_region(x, "qkv"),
            *projection_backward(x, "qkv", h, projected, targets=(), bias=False, shares=()),
            *leave_backward(x, "qkv"),
        ],
        weights=weights,
        parameters=weights + space.small_parameters / x.t,
        widest=x.tokens * projected,
        widest_weight=h * projected,
    )


def _core(x: Shapes, space: StateSpace, *, backward: bool) -> list[Operator]:
    """Convolution, scan and gated norm; backward the convolution once more, then the gradients of all three."""
    e, inner, channels = x.element_bytes, space.inner_width / x.t, space.conv_channels / x.t
    sequences: dict[str, Any] = {"sequences": x.b, "new_tokens": x.s * x.c, "decode": False}

    def convolution(*, backward: bool) -> ShortConvolution:
        return ShortConvolution(
            module=CORE,
            part="conv",
            channels=channels / x.c,
            width=float(space.conv_width),
            direction="backward" if backward else "forward",
            element_bytes=e,
            # Gate and steps, which the gated norm and the scan keep, lie beside the channels.
            saved_bytes=0.0 if backward else e * x.tokens * (channels + space.heads / x.t),
            **sequences,
        )

    scan = StateSpaceScan(
        module=CORE,
        part="scan",
        heads=space.heads / x.t / x.c,
        head_dim=float(space.head_dim),
        groups=space.groups / x.t / x.c,
        state=float(space.state),
        direction="backward" if backward else "forward",
        dtype=x.dtype,
        element_bytes=e,
        kernels=10.0 if backward else 5.0,
        **sequences,
    )
    norm = gated_norm(x, CORE, inner, backward=backward)
    if not backward:
        return [convolution(backward=False), scan, norm]
    return [convolution(backward=False), norm, scan, convolution(backward=True)]
