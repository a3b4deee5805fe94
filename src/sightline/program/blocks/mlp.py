"""The MLP of a layer: dense, gated or not, or a mixture of experts with its router and the experts all tokens share."""

from typing import Any

from sightline.program.address import Module, Part
from sightline.program.kernels import Kernels
from sightline.program.program import LinearLayer, Step, Sublayer
from sightline.quantities import Number
from sightline.scenario import Experts
from sightline.scenario.model import WeightPart


def dense_mlp(x: Kernels, width: float, module: Module = "mlp", of: WeightPart = "dense") -> Sublayer:
    """Return an MLP of ``width``, split over the tensor-parallel ranks.

    In a parallel block without a norm of its own it works on what attention has gathered already.
    """
    model, f = x.model, width / x.t
    pieces: tuple[tuple[Part, Number], ...] = (("up", f),) * (2 if model.gated else 1)
    targets = ("gate", "up") if model.gated else ("up",)
    inputs, shares = f * len(pieces), (1.0 / len(pieces),) * len(pieces)
    joined: Any = {"name": "gate-up", "pieces": pieces, "shares": shares, "targets": targets, "gathered": True}
    up = LinearLayer(module, "up", x.h, inputs, of, kept=x.entered_share, bias=model.mlp_bias, **joined)
    output: Any = {"targets": ("down",), "bias": model.mlp_bias, "scattered": True}
    down = LinearLayer(module, "down", f, x.h, of, kept=x.product_share, **output)
    return Sublayer(
        module="mlp norm",
        steps=[
            *x.region(module, [x.projection(up)], targets, enters=model.layer_norms > 1),
            x.activation(f, module=module),
            x.projection(down),
            *x.leave(module),
        ],
        widest=x.tokens * inputs,
        widest_weight=x.h * f,
    )


def experts(x: Kernels, of: Experts) -> Sublayer:
    """Return the routed and the shared experts of one layer; routed ones may work on a latent vector of each token."""
    routed, f = x.experts(of), of.width / x.u
    inputs = f * (2.0 if x.model.gated else 1.0)
    shared = dense_mlp(x, float(of.shared * of.shared_width), "shared experts", "shared") if of.shared else None
    up, down = routed.product("up", routed.width, inputs), routed.product("down", f, routed.width, kept=x.product_share)
    into, out = _latent(x, of)
    return Sublayer(
        module="mlp norm",
        steps=[
            # The norm's output feeds router and experts; shared experts keep it where there are any.
            *routed.router(reads_norm=shared is None),
            *into,
            *routed.dispatch(),
            up,
            x.activation(f, module="experts", rows=routed.rows),
            down,
            *routed.combine(),
            *out,
            *([*shared.steps, *routed.shared_sum()] if shared else []),
            *x.leave("experts"),
        ],
        expert_weights=up.weights + down.weights,
        expert_parameters=up.weights + down.weights + up.other_parameters + down.other_parameters,
        widest=routed.rows * inputs,
        widest_weight=routed.local * routed.width * f,
    )


def _latent(x: Kernels, of: Experts) -> tuple[list[Step], list[Step]]:
    """Projections of each token to what the routed experts work on, and back; none where that is the hidden vector."""
    if of.latent_width is None:
        return [], []
    width = float(of.latent_width)
    into = x.linear(LinearLayer("experts", "to latent", x.h, width, of="shared", kept=0.0, rows=x.own_tokens))
    return [into], [x.linear(LinearLayer("experts", "from latent", width, x.h, of="shared", rows=x.own_tokens))]
