"""A decoder layer of one kind: norm, mixer, residual, norm, MLP, residual.

Where a block's output is normed (OLMo 2) instead of its input the same operators run in another order, which costs and
keeps as much; where both are (Gemma 2), the second norm is one more.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sightline.on_demand import named
from sightline.program.blocks.mixer import TokenMixer
from sightline.program.blocks.mlp import dense_mlp, experts
from sightline.program.formats import Formats
from sightline.program.kernels import Kernels
from sightline.program.program import Step, Sublayer
from sightline.quantities import Number
from sightline.scenario import (
    CompressedAttention,
    Heads,
    LatentAttention,
    LayerKind,
    LinearAttention,
    Model,
    StateSpace,
)

MIXERS: Mapping[type, str] = {
    Heads: "attention:SoftmaxAttention",
    LatentAttention: "latent_attention:MultiHeadLatentAttention",
    CompressedAttention: "compressed_attention:FoldedAttention",
    LinearAttention: "recurrent:GatedDeltaNet",
    StateSpace: "recurrent:Mamba2",
    type(None): "mixer:NoMixer",
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
        return experts(x, x.model.experts)
    return dense_mlp(x, float(x.model.width_of(kind)))
