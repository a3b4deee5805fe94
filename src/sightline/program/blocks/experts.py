"""A mixture of experts: router, dispatch, the experts' products, combine, and the experts that all tokens share."""

from sightline.program.blocks.mlp import dense_mlp
from sightline.program.kernels import Kernels
from sightline.program.program import Step, Sublayer
from sightline.scenario import Experts


def experts(x: Kernels) -> Sublayer:
    """Return the routed and the shared experts of one layer; routed ones may work on a latent vector of each token."""
    of = x.model.experts
    if of is None:
        raise ValueError(f"{x.model.name} has no experts")
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
    into = x.linear("experts", "to latent", x.h, width, of="shared", kept=0.0, rows=x.own_tokens)
    return [into], [x.linear("experts", "from latent", width, x.h, of="shared", rows=x.own_tokens)]
