"""Mamba-2 (arXiv 2405.21060), as Nemotron-H has it: one projection, a short convolution, the scan, a gated norm.

Its fused kernel keeps the projection's output and its own, and runs the convolution once more in the backward pass, as
the authors' implementation and the frameworks that call it do.
"""

from sightline.program.kernels import Kernels
from sightline.program.step import Sublayer


def state_space(x: Kernels) -> Sublayer:
    """Return the state-space mixer of one layer."""
    space = x.model.state_space
    if space is None:
        raise ValueError(f"{x.model.name} has no state-space layers")
    inner, projected = space.inner_width / x.t, space.projected_width / x.t
    channels, heads = space.conv_channels / x.t, space.heads / x.t
    scan = [
        # Gate and steps, which the gated norm and the scan keep, lie next to the channels.
        *x.convolution("state space", channels, float(space.conv_width), gates=heads, runs_again=True),
        *x.scan(space),
        x.gated_norm("state space", inner),
    ]
    return Sublayer(
        module="attention norm",
        steps=[
            *x.region("qkv", [x.projection("qkv", "input", x.h, projected, kept=x.entered_share)]),
            *x.whole_sequences("state space", projected, inner, scan),
            x.projection("output projection", "matmul", inner, x.h),
            *x.leave("output projection"),
        ],
        small_parameters=space.small_parameters / x.t,
        widest=x.tokens * projected,
        widest_weight=x.h * projected,
    )
