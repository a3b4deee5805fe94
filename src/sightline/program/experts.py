"""A mixture of experts in training: router, dispatch, the experts' products, combine, shared experts - and backward.

Symbols: ``k`` experts per token, ``e`` ranks that the experts are spread over, ``u`` ranks that each is cut over. Every
rank of a stage brings the tokens that are its own (tokens / t) and works on as many, times ``u``, as the router sends on
average; the busiest rank sets the pace (`sightline.program.routing`). Grouped products are one matmul per
expert, all in one kernel. Source of the flow: Megatron-Core MoE (arXiv 2504.14960).
"""

import numpy as np

from sightline.program import elementwise
from sightline.program.dense_mlp import dense_mlp
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.operators import Collective, CollectiveKind, CollectiveRanks, Elementwise, Operator
from sightline.program.projection import projection_backward, projection_forward
from sightline.program.routing import busiest_share
from sightline.program.shapes import Shapes
from sightline.program.sublayer import Sublayer
from sightline.quantities import Number

MODULE = "experts"
ROUTER_KERNELS = 6.0
"""Softmax, choice of the largest, their weights, the map of tokens to experts, its counts, and the balance loss."""


def experts(x: Shapes) -> Sublayer:
    """Return the routed and the shared experts of one layer."""
    of = x.model.experts
    if of is None:
        raise ValueError(f"{x.model.name} has no experts")
    h, e = float(x.model.hidden_size), x.element_bytes
    own = x.tokens / x.t
    local = np.ceil(of.count / x.e)
    chosen = own * x.e * x.u * of.per_token
    rows = chosen * busiest_share(x.e, chosen, skew=x.skew)
    each = rows / local
    width, f = float(of.latent_width or h), of.width / x.u
    inputs = f * (2.0 if x.model.gated else 1.0)
    keeps_product = not (x.model.gated and "activation" in x.framework.fused)
    moved = e * own * of.per_token * width
    latent = of.latent_width is not None
    to_latent = h * width * latent
    shared = dense_mlp(x, float(of.shared * of.shared_width), "shared experts") if of.shared else None
    forward: list[Operator] = [
        linear_forward(x, "router", h, float(of.count), saved_bytes=0.0, name="router", rows=own),
        _choice(own * of.count, backward=False),
        *(_latent_forward(x, "to latent", h, width, own) if latent else []),
        _permutation(x, moved, "permutation"),
        *_exchange(x, "all_to_all", moved, "dispatch"),
        *projection_forward(
            x,
            MODULE,
            width,
            inputs,
            targets=(),
            saved_bytes=e * rows * width,
            name="up",
            shares=(),
            rows=each,
            experts=local,
        ),
        elementwise.activation(x, f, module=MODULE, rows=rows),
        *projection_forward(
            x,
            MODULE,
            f,
            width,
            targets=(),
            saved_bytes=e * rows * f * keeps_product,
            name="down",
            shares=(),
            rows=each,
            experts=local,
        ),
        *_exchange(x, "all_to_all", moved, "combine"),
        _weighted_sum(x, moved, e * own * width, backward=False),
        *(_latent_forward(x, "from latent", width, h, own) if latent else []),
        *(shared.forward if shared else []),
    ]
    backward: list[Operator] = [
        *(shared.backward if shared else []),
        *(linear_backward(x, MODULE, width, h, bias=False, rows=own) if latent else []),
        _weighted_sum(x, moved, e * own * width, backward=True),
        *_exchange(x, "all_to_all", moved, "combine gradient"),
        *projection_backward(x, MODULE, f, width, targets=(), bias=False, shares=(), rows=each, experts=local),
        elementwise.activation_gradient(x, f, module=MODULE, rows=rows),
        *projection_backward(x, MODULE, width, inputs, targets=(), bias=False, shares=(), rows=each, experts=local),
        *_exchange(x, "all_to_all", moved, "dispatch gradient"),
        _permutation(x, moved, "permutation gradient"),
        *(linear_backward(x, MODULE, h, width, bias=False, rows=own) if latent else []),
        _choice(own * of.count, backward=True),
        *linear_backward(x, "router", h, float(of.count), bias=False, rows=own),
    ]
    expert_weights = local * width * (inputs + f)
    biases = local * (inputs + width) * x.model.mlp_bias
    shared_weights = shared.weights if shared else 0.0
    shared_parameters = shared.parameters if shared else 0.0
    router = (h + x.model.mlp_bias) * of.count
    return Sublayer(
        module="mlp norm",
        forward=forward,
        backward=backward,
        weights=expert_weights + shared_weights + 2.0 * to_latent,
        parameters=expert_weights + biases + shared_parameters + router + 2.0 * to_latent,
        expert_weights=expert_weights,
        expert_parameters=expert_weights + biases,
        adapter_parameters=shared.adapter_parameters if shared else 0.0,
        widest=rows * inputs,
        widest_weight=local * width * f,
    )


def _latent_forward(x: Shapes, name: str, inputs: Number, outputs: Number, rows: Number) -> list[Operator]:
    kept = x.element_bytes * rows * inputs
    return [linear_forward(x, MODULE, inputs, outputs, saved_bytes=kept, name=name, rows=rows)]


def _choice(elements: Number, *, backward: bool) -> Elementwise:
    """The router's scores in fp32, softmax and choice; scores and probabilities are kept."""
    return Elementwise(
        module="router",
        name="choice gradient" if backward else "choice",
        traffic_bytes=(24.0 if backward else 32.0) * elements,
        kernels=ROUTER_KERNELS,
        saved_bytes=0.0 if backward else 9.0 * elements,
        elements=elements,
    )


def _permutation(x: Shapes, moved: Number, name: str) -> Elementwise:
    """Tokens are sorted by expert, before they leave and once more where several ranks sent some."""
    passes = 1.0 + (np.asarray(x.e) > 1)
    return Elementwise(
        module=MODULE, name=name, traffic_bytes=2.0 * passes * moved, kernels=passes, elements=moved / x.element_bytes
    )


def _weighted_sum(x: Shapes, moved: Number, summed: Number, *, backward: bool) -> Elementwise:
    """A token's outputs are brought together, times their weights; backward spreads the gradient to all of them."""
    passes = 1.0 + 2.0 * (np.asarray(x.e) > 1)
    return Elementwise(
        module=MODULE,
        name="weighted sum gradient" if backward else "weighted sum",
        traffic_bytes=(passes + backward) * moved + summed,
        kernels=2.0,
        saved_bytes=0.0 if backward else moved,
        elements=moved / x.element_bytes,
    )


def _exchange(x: Shapes, kind: CollectiveKind, moved: Number, name: str) -> list[Operator]:
    """Tokens travel to the ranks of their experts or back; then the ranks that share an expert get all its tokens."""
    return [
        *_collective(x.e, kind, moved, name, "expert"),
        *_collective(
            x.u,
            "all_gather" if name in ("dispatch", "combine gradient") else "reduce_scatter",
            moved * x.u,
            name,
            "expert tensor",
        ),
    ]


def _collective(
    ranks: Number, kind: CollectiveKind, buffer_bytes: Number, name: str, among: CollectiveRanks
) -> list[Operator]:
    many = np.asarray(ranks) > 1
    if not np.any(many):
        return []
    return [Collective(module=MODULE, name=name, kind=kind, buffer_bytes=buffer_bytes, ranks=among, count=many * 1.0)]
