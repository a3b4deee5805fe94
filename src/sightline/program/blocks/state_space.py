"""Mamba-2 (arXiv 2405.21060), as Nemotron-H has it: one projection, a short convolution, the scan, a gated norm.

Its fused kernel keeps the projection's output and its own, and runs the convolution once more in the backward pass, as
the authors' implementation and the frameworks that call it do.
"""

from sightline.program.address import STATE_SPACE
from sightline.program.blocks.linear_attention import convolution
from sightline.program.kernels import Kernels
from sightline.program.mixer_operators import StateSpaceScan
from sightline.program.step import Sublayer
from sightline.scenario import StateSpace


def state_space(x: Kernels) -> Sublayer:
    """Return the state-space mixer of one layer."""
    space = x.model.state_space
    if space is None:
        raise ValueError(f"{x.model.name} has no state-space layers")
    inner, projected = space.inner_width / x.t, space.projected_width / x.t
    channels, heads = space.conv_channels / x.t, space.heads / x.t
    scan = [
        # Gate and steps, which the gated norm and the scan keep, lie next to the channels.
        *convolution(x, STATE_SPACE, channels, float(space.conv_width), gates=heads, again=True),
        *(x.recurrent(_scan(group, space), kernels=(5.0, 10.0)) for group in x.groups()),
        x.gated_norm(STATE_SPACE, inner),
    ]
    return Sublayer(
        module="attention norm",
        steps=[
            *x.region("qkv", [x.projection("qkv", "input", x.h, projected, kept=x.entered_share)]),
            *x.whole_sequences(STATE_SPACE, projected, inner, scan),
            x.projection("output projection", "matmul", inner, x.h),
            *x.leave("output projection"),
        ],
        small_parameters=space.small_parameters / x.t,
        widest=x.tokens * projected,
        widest_weight=x.h * projected,
    )


def _scan(x: Kernels, space: StateSpace) -> StateSpaceScan:
    """The scan in chunks over whole sequences, or an update of each sequence's state."""
    return StateSpaceScan(
        module=STATE_SPACE,
        part="scan",
        sequences=x.b,
        new_tokens=x.sequence_tokens,
        heads=space.heads / x.head_ranks,
        head_dim=float(space.head_dim),
        groups=space.groups / x.head_ranks,
        state=float(space.state),
        decode=x.decode,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
    )
