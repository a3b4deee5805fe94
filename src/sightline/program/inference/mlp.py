"""The second half of a layer: a dense MLP, or experts of which each token chooses a few."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.program.address import Module, Part
from sightline.program.inference.operators import GroupedMatmul
from sightline.program.inference.shapes import PassShapes
from sightline.program.matmul_formats import WIDE_ROUTER
from sightline.program.operators import CollectiveKind, Operator
from sightline.program.routing import busiest_share, expected_active
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Experts
from sightline.scenario.model import WeightPart


def dense(x: PassShapes, width: float, module: Module = "mlp", part: WeightPart = "dense") -> list[Operator]:
    """An MLP of ``width``, cut over the tensor-parallel ranks."""
    f = width / x.t
    up: list[Operator]
    if not x.model.gated:
        up = [x.linear(module, "up", f, x.h, part), x.stream(module, "activation", 2.0 * x.tokens * f)]
    elif x.fuses("gate-up"):
        up = [x.linear(module, "up", 2.0 * f, x.h, part), x.stream(module, "activation", 3.0 * x.tokens * f)]
    else:
        up = [
            x.linear(module, "up", f, x.h, part, count=2.0),
            x.stream(module, "activation", 5.0 * x.tokens * f, kernels=2.0),
        ]
    return [*up, x.linear(module, "down", x.h, f, part)]


def experts(x: PassShapes) -> list[Operator]:
    """Router, dispatch, the experts' matmuls on the busiest rank, combine, and the experts that all tokens share."""
    of = x.model.experts
    if of is None:
        raise ValueError(f"{x.model.name} has no experts")
    local = np.ceil(of.count / x.e)  # ranks that experts do not fill evenly hold copies of busy ones
    rows, active = _busiest(x, of, local)
    f, width = of.width / x.u, float(of.latent_width or x.h)
    inputs = 2.0 * f if x.model.gated else f
    latent = of.latent_width is not None
    return [
        *_router(x, of),
        x.stream("router", "softmax", 4.0 * x.tokens * of.count, kernels=2.0, part="choice"),
        *([x.linear("experts", "to latent", width, x.h, "shared")] if latent else []),
        *_dispatch(x, of, width),
        x.stream("experts", "copy", 2.0 * rows * width, part="permutation"),
        _grouped(x, "up", rows, local, active, inputs, width),
        x.stream("experts", "activation", rows * (inputs + f)),
        _grouped(x, "down", rows, local, active, width, f),
        x.stream("experts", "copy", rows * width + x.tokens * width, part="weighted sum"),
        *_combine(x, of, width),
        *([x.linear("experts", "from latent", x.h, width, "shared")] if latent else []),
        *(dense(x, float(of.shared * of.shared_width), "shared experts", "shared") if of.shared else []),
    ]


def _router(x: PassShapes, of: Experts) -> list[Operator]:
    """The router's product; where engines keep it in fp32 its input is widened first, in a kernel of its own."""
    product = x.matmul("router", "router", x.tokens, float(of.count), x.h, x.formats.plain)
    dtype = x.formats.router_dtype
    if not dtype or x.expands_weights:
        return [product]
    wide = ELEMENT_BYTES["fp32"]
    widened = x.stream("router", "copy", x.tokens * x.h * (1.0 + wide / x.element_bytes), part="widen")
    product = replace(product, dtype=dtype, kernel=WIDE_ROUTER)
    return [widened, replace(product, element_bytes=wide, weight_bytes=wide, output_bytes=wide)]


def _busiest(x: PassShapes, of: Experts, local: Number) -> tuple[Number, Number]:
    """Rows that the busiest rank's experts get, and how many of its ``local`` experts get any.

    Tokens that are all alike choose the same experts, which lie on different ranks where these suffice.
    """
    chosen = x.tokens * x.d * of.per_token
    if x.alike:
        own = np.ceil(of.per_token / np.minimum(x.e, of.per_token))
        return x.tokens * x.d * own, own
    rows = chosen * busiest_share(x.e, chosen, skew=x.skew)
    return rows, expected_active(of.count, of.per_token, x.tokens * x.d) * local / of.count


def _grouped(
    x: PassShapes, part: Part, rows: Number, local: Number, active: Number, n: Number, k: Number
) -> GroupedMatmul:
    kernel = x.formats.parts["experts"]
    stored = x.formats.operands[kernel]
    return GroupedMatmul(
        module="experts",
        part=part,
        rows=rows,
        experts=local,
        active=active,
        n=n,
        k=k,
        dtype=stored.compute_dtype,
        element_bytes=stored.activation_bytes,
        weight_bytes=stored.weight_bytes,
        output_bytes=x.element_bytes,
        kernel=kernel,
        decode=x.decode,
    )


def _dispatch(x: PassShapes, of: Experts, width: float) -> list[Operator]:
    """Tokens of other data-parallel ranks fetched, in the experts' format; nothing where all ranks hold all tokens."""
    element_bytes = np.minimum(x.formats.operands[x.formats.parts["experts"]].activation_bytes, x.element_bytes)
    return _exchange(x, of, "all_gather", element_bytes * x.tokens * width)


def _combine(x: PassShapes, of: Experts, width: float) -> list[Operator]:
    """The experts' outputs brought back to their tokens' ranks; across tensor-parallel ranks the layer's end sums."""
    return _exchange(x, of, "reduce_scatter", x.element_bytes * x.tokens * width)


def _exchange(x: PassShapes, of: Experts, among_all: CollectiveKind, moved: Number) -> list[Operator]:
    """``moved`` bytes of each rank, to all others or only where the tokens' experts are."""
    destinations = _destinations(x, of)
    direct = (
        np.less(destinations, x.d)
        if x.engine.collectives.dispatch == "fewest-bytes"
        else x.engine.collectives.dispatch == "all-to-all"
    )
    ways: Sequence[tuple[CollectiveKind, Number, Any]] = (
        ("all_to_all", moved * destinations, direct),
        (among_all, moved * x.d, np.logical_not(direct)),
    )
    return [
        replace(op, count=op.count * used)
        for kind, size, used in ways
        if np.any(used)
        for op in x.collective("experts", kind, size, "data")
    ]


def _destinations(x: PassShapes, of: Experts) -> Number:
    """Ranks that a token goes to: those that hold one of its experts, each once."""
    return np.minimum(of.per_token, x.e)
