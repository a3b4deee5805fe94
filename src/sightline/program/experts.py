"""A mixture of experts in training: router, dispatch, the experts' products, combine, shared experts - and backward.

Symbols: ``k`` experts per token, ``e`` ranks that the experts are spread over, ``u`` ranks that each is cut over. Every
rank of a stage brings the tokens that are its own (tokens / t) and works on as many, times ``u``, as the router sends on
average; the busiest rank sets the pace (`sightline.program.routing`), unless experts are padded to a capacity. Grouped
products are one matmul per expert side by side. Source of the flow: Megatron-Core MoE (arXiv 2504.14960).
"""

from dataclasses import replace
from typing import Final

import numpy as np

from sightline.program import elementwise
from sightline.program.address import Part
from sightline.program.dense_mlp import dense_mlp, keeps_product
from sightline.program.expert_exchange import MODULE, Exchange
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.projection import projection_backward, projection_forward
from sightline.program.routing import busiest_share
from sightline.program.shapes import Shapes
from sightline.program.sublayer import Sublayer
from sightline.quantities import Number
from sightline.scenario import Experts

SHARED: Final = "shared experts"
BEHIND_COUNTS = frozenset({MODULE, SHARED})
"""Modules whose operators are launched once the numbers of tokens of each expert are known."""
ROUTER_KERNELS = 6.0
"""Softmax, choice of the largest, their weights, the map of tokens to experts, its counts, and the balance loss."""


def experts(x: Shapes) -> Sublayer:
    """Return the routed and the shared experts of one layer."""
    of = x.model.experts
    if of is None:
        raise ValueError(f"{x.model.name} has no experts")
    h, e = float(x.model.hidden_size), x.element_bytes
    own = x.tokens / x.t
    width, f = float(of.latent_width or h), of.width / x.u
    inputs = f * (2.0 if x.model.gated else 1.0)
    local = np.ceil(of.count / x.e)
    each, copies = _loads(x, of, own)
    rows = each * local
    exchange = Exchange(x=x, of=of, own=own, copies=copies, width=width)
    latent = of.latent_width is not None
    shared = dense_mlp(x, float(of.shared * of.shared_width), SHARED) if of.shared else None
    up_forward, up_backward = _grouped(x, "up", width, inputs, each, local, saved_bytes=e * rows * width)
    kept = e * rows * f * keeps_product(x)
    down_forward, down_backward = _grouped(x, "down", f, width, each, local, saved_bytes=kept)
    # The norm's output feeds router and experts; shared experts keep it where there are any.
    read = e * own * h * (shared is None)
    forward: list[Operator] = [
        linear_forward(x, "router", h, float(of.count), saved_bytes=read, part="router", rows=own),
        _choice(own * of.count, backward=False),
        *(_latent_forward(x, "to latent", h, width, own, kept=0.0) if latent else []),
        exchange.permutation(backward=False),
        *exchange.travel("dispatch", gathers=True),
        *up_forward,
        elementwise.activation(x, f, module=MODULE, rows=rows),
        *down_forward,
        *exchange.travel("combine", gathers=False),
        exchange.weighted_sum(backward=False),
        *(_latent_forward(x, "from latent", width, h, own, kept=e * own * width) if latent else []),
        *([*shared.forward, _joined(x, e * own * h)] if shared else []),
    ]
    backward: list[Operator] = [
        *([_joined(x, e * own * h), *shared.backward] if shared else []),
        *(linear_backward(x, MODULE, width, h, bias=False, rows=own) if latent else []),
        exchange.weighted_sum(backward=True),
        *exchange.travel("combine", gathers=True),
        *down_backward,
        elementwise.activation_gradient(x, f, module=MODULE, rows=rows),
        *up_backward,
        *exchange.travel("dispatch", gathers=False),
        exchange.permutation(backward=True),
        *(linear_backward(x, MODULE, h, width, bias=False, rows=own) if latent else []),
        _choice(own * of.count, backward=True),
        *linear_backward(x, "router", h, float(of.count), bias=False, rows=own),
    ]
    to_latent = h * width * latent
    expert_weights = local * width * (inputs + f)
    biases = local * (inputs + width) * x.model.mlp_bias
    router = (h + x.model.mlp_bias) * of.count
    return Sublayer(
        module="mlp norm",
        forward=forward,
        backward=backward,
        weights=expert_weights + (shared.weights if shared else 0.0) + 2.0 * to_latent,
        parameters=expert_weights + biases + (shared.parameters if shared else 0.0) + router + 2.0 * to_latent,
        expert_weights=expert_weights,
        expert_parameters=expert_weights + biases,
        adapter_parameters=shared.adapter_parameters if shared else 0.0,
        widest=rows * inputs,
        widest_weight=local * width * f,
    )


def _loads(x: Shapes, of: Experts, own: Number) -> tuple[Number, Number]:
    """Rows that each expert of the busiest rank works on, and rows that a rank's own tokens make.

    Without a capacity the busiest rank has its share of all the ``e u`` ranks' choices. A capacity gives every expert
    the same number of rows from every rank, dropped or padded.
    """
    ranks = x.e * x.u
    if x.capacity > 0:
        taken = np.ceil(own * of.per_token / of.count * x.capacity)
        return taken * ranks, taken * of.count
    chosen = own * ranks * of.per_token
    return chosen * busiest_share(x.e, chosen, skew=x.skew) / np.ceil(of.count / x.e), own * of.per_token


def _grouped(
    x: Shapes, part: Part, inputs: Number, outputs: Number, rows: Number, count: Number, *, saved_bytes: Number
) -> tuple[list[Operator], list[Operator]]:
    """The products of all the rank's experts, forward and backward; some libraries launch a kernel for each."""
    forward = projection_forward(
        x, MODULE, inputs, outputs, targets=(), saved_bytes=saved_bytes, part=part, shares=(), rows=rows, experts=count
    )
    backward = projection_backward(
        x, MODULE, inputs, outputs, targets=(), bias=False, shares=(), rows=rows, experts=count
    )
    if not x.framework.transformer_engine.launches_each_expert:
        return forward, backward
    return _launched_each(x, forward, count), _launched_each(x, backward, count)


SCALED_OPERANDS = 2.0
"""Kernels beside a product that bring the scales of its operands' blocks into the order that it reads them in."""


def _launched_each(x: Shapes, operators: list[Operator], count: Number) -> list[Operator]:
    """The same operators as they are launched for every expert: products, their operands' quantization and scales."""
    scaled = x.low is not None and x.low.recipe.name in ("mxfp8", "nvfp4")
    return [
        replace(op, kernels=count * (1.0 + SCALED_OPERANDS * (scaled and isinstance(op, Matmul))) * op.kernels)
        for op in operators
    ]


def _latent_forward(
    x: Shapes, part: Part, inputs: Number, outputs: Number, rows: Number, *, kept: Number
) -> list[Operator]:
    return [linear_forward(x, MODULE, inputs, outputs, saved_bytes=kept, part=part, rows=rows)]


def _choice(elements: Number, *, backward: bool) -> Elementwise:
    """The router's scores in fp32, softmax and choice; scores and probabilities are kept."""
    return Elementwise(
        module="router",
        part="choice",
        direction="backward" if backward else "forward",
        traffic_bytes=(24.0 if backward else 32.0) * elements,
        kernels=ROUTER_KERNELS,
        saved_bytes=0.0 if backward else 9.0 * elements,
        elements=elements,
    )


def _joined(x: Shapes, size: Number) -> Elementwise:
    """Outputs of the shared experts are added to those of the routed ones; their gradients meet likewise."""
    return Elementwise(module=SHARED, part="sum", traffic_bytes=3.0 * size, elements=size / x.element_bytes)
