"""The dense MLP of a layer, gated or not."""

from sightline.program.address import Module, Part
from sightline.program.kernels import Kernels
from sightline.program.program import Layers, Sublayer
from sightline.quantities import Number
from sightline.scenario.model import WeightPart


def dense_mlp(x: Kernels, width: float, module: Module = "mlp", of: WeightPart = "dense") -> Sublayer:
    """Return an MLP of ``width``, split over the tensor-parallel ranks.

    In a parallel block without a norm of its own it works on what attention has gathered already.
    """
    model, f = x.model, width / x.t
    up: tuple[tuple[Part, Number], ...] = (("up", f), ("up", f)) if model.gated else (("up", f),)
    targets = ("gate", "up") if model.gated else ("up",)
    inputs = f * len(up)
    upward = x.projection(
        module,
        "up",
        x.h,
        inputs,
        of=of,
        layers=Layers("gate-up", up, (1.0 / len(up),) * len(up), targets),
        kept=x.entered_share,
        bias=model.mlp_bias,
        gathered=True,
    )
    downward = x.projection(
        module,
        "down",
        f,
        x.h,
        of=of,
        layers=Layers(targets=("down",)),
        kept=x.product_share,
        bias=model.mlp_bias,
        scattered=True,
    )
    return Sublayer(
        module="mlp norm",
        steps=[
            *x.region(module, [upward], targets, enters=model.layer_norms > 1),
            x.activation(f, module=module),
            downward,
            *x.leave(module),
        ],
        widest=x.tokens * inputs,
        widest_weight=x.h * f,
    )
