"""A decoder layer of one kind: norm, mixer, residual, norm, MLP, residual; and what every kind of mixer answers.

Where a block's output is normed (OLMo 2) instead of its input the same operators run in another order, which costs and
keeps as much; where both are (Gemma 2), the second norm is one more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from sightline.on_demand import named
from sightline.program.formats import Formats
from sightline.program.kernels import Kernels
from sightline.program.operators import Module, Part
from sightline.program.program import LinearLayer, Step, Sublayer, group_by_group
from sightline.quantities import Number
from sightline.scenario import (
    CompressedAttention,
    Experts,
    GatedConvolution,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    Model,
    SideBySide,
    StateSpace,
)
from sightline.scenario.model import WeightPart

Figures = TypeVar("Figures")


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenMixer(ABC, Generic[Figures]):
    """The mixer of one kind of layers of a model."""

    model: Model
    kind: LayerKind
    figures: Figures
    """What describes it (`sightline.scenario.blocks`)."""

    @property
    def heads(self) -> Heads:
        """The head shape that its core works with."""
        return self.model.heads_of(self.kind)

    @property
    def calibration(self) -> tuple[str, str] | None:
        """What its kernels are called and the part of a calibration they are in, where they are not plain attention."""
        return None

    @property
    def matrix_elements(self) -> float:
        """Elements of the matrices that a token is multiplied with in one layer.

        An indexer learns from a loss of its own, which hands no gradient on to its inputs: 4 FLOPs of 6.
        """
        return self.model.mixer_parameters(self.kind) - self.model.indexer_parameters(self.kind) / 3.0

    @abstractmethod
    def sublayer(self, x: Kernels) -> Sublayer | None:
        """Return its steps in one layer, whose heads are those of ``x``; None where the layer has no mixer."""

    @abstractmethod
    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """Return the bytes that a sequence of ``tokens`` keeps in one layer on each of ``t`` tensor-parallel ranks.

        ``element_bytes`` is the size of a cached element of attention.
        """

    @abstractmethod
    def products(self, tokens: float) -> float:
        """Return the multiply-adds of a token in a sequence of ``tokens``: with a state, or of scores and context."""


class NoMixer(TokenMixer[None]):
    """A layer without a mixer (pruned models)."""

    def sublayer(self, x: Kernels) -> None:
        """Nothing runs."""

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """Nothing is kept."""
        return 0.0

    def products(self, tokens: float) -> float:
        """Nothing is multiplied."""
        return 0.0


def by_group(x: Kernels, write: Callable[[Kernels], Iterable[Step]]) -> list[Step]:
    """Return the steps of a mixer that treats each group of a batch's sequences by itself."""
    groups: Sequence[Kernels] = x.groups()
    return group_by_group(groups, write)


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


def experts(x: Kernels, figures: Experts) -> Sublayer:
    """Return the routed and the shared experts of one layer; routed ones may work on a latent vector of each token."""
    routed = x.experts(figures)
    x, f = cast("Kernels", routed.x), figures.width / routed.x.u
    inputs = f * (2.0 if x.model.gated else 1.0)
    shared = (
        dense_mlp(x, float(figures.shared * figures.shared_width), "shared experts", "shared")
        if figures.shared
        else None
    )
    up, down = routed.product("up", routed.width, inputs), routed.product("down", f, routed.width, kept=x.product_share)
    into, out = _latent(x, figures)
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


def _latent(x: Kernels, figures: Experts) -> tuple[list[Step], list[Step]]:
    """Projections of each token to what the routed experts work on, and back; none where that is the hidden vector."""
    if figures.latent_width is None:
        return [], []
    width = float(figures.latent_width)
    into = x.linear(LinearLayer("experts", "to latent", x.h, width, of="shared", kept=0.0, rows=x.own_tokens))
    return [into], [x.linear(LinearLayer("experts", "from latent", width, x.h, of="shared", rows=x.own_tokens))]


MIXERS: Mapping[type, str] = {
    Heads: "attention:SoftmaxAttention",
    LatentAttention: "attention:MultiHeadLatentAttention",
    CompressedAttention: "attention:CompressedSoftmaxAttention",
    LinearAttention: "recurrent:GatedDeltaNet",
    StateSpace: "recurrent:Mamba2",
    SideBySide: "recurrent:AttentionBesideStates",
    GatedConvolution: "recurrent:ConvolutionMixer",
    type(None): "layer:NoMixer",
}
"""The kinds of token mixers, by what describes them in a model, as ``module:class`` of this folder."""


class Layer(NamedTuple):
    """One layer written out."""

    steps: Sequence[Step]
    halves: Sequence[Sublayer]
    """The mixer and the MLP, as far as the layer has them."""


def layer(x: Kernels, mixer: TokenMixer[Any]) -> Layer:
    """Return one layer of the kind that ``mixer`` is of, whose heads are those of ``x``."""
    halves = [half for half in (mixer.sublayer(x), _mlp(x, mixer.kind)) if half is not None]
    steps: list[Step] = []
    for half in halves:
        steps += x.read_residual(half.module, first=half is halves[0])
        steps += half.steps
        steps += x.write_residual(half.module)
    return Layer(steps, halves)


def layer_name(model: Model, kind: LayerKind) -> str:
    """Return a kind's name: layer where there is one kind, else what sets it apart."""
    if len(model.kinds) == 1:
        return "layer"
    return ", ".join(part for part in (kind.mixer, kind.mlp) if part != "none")


def mixer_of(model: Model, kind: LayerKind) -> TokenMixer[Any]:
    """Return the token mixer of layers of ``kind``."""
    figures = model.mixer_figures(kind)
    mixer: TokenMixer[Any] = named(f"sightline.program.blocks.{MIXERS[type(figures)]}")(
        model=model, kind=kind, figures=figures
    )
    return mixer


def cached_bytes(model: Model, formats: Formats, tokens: Number, tensor_parallel: Number = 1.0) -> Number:
    """Return the bytes that one sequence of ``tokens`` keeps on one device, all layers together.

    Left out: partly filled blocks.
    """
    stored, t = formats.cache_bytes, tensor_parallel
    return sum(kind.count * mixer_of(model, kind).cached_bytes(tokens, stored, t) for kind in model.kinds)


def _mlp(x: Kernels, kind: LayerKind) -> Sublayer | None:
    if kind.mlp == "none":
        return None
    if kind.mlp == "experts" and x.model.experts is not None:
        mlp = experts(x, x.model.experts)
    else:
        mlp = dense_mlp(x, float(x.model.width_of(kind)))
    return replace(mlp, steps=[*mlp.steps, *_layer_input(x)]) if x.model.layer_embedding_width else mlp


def _layer_input(x: Kernels) -> list[Step]:
    """The layer's own embedding of each token, gated by its output and added to it (Gemma 3n); every rank does all."""
    width = float(x.model.layer_embedding_width)
    gate = x.linear(LinearLayer("mlp", "layer input", x.h, width, of=None))
    added = x.linear(LinearLayer("mlp", "layer input", width, x.h, of=None))
    return [gate, x.activation(width), added, x.norm("mlp norm")]
