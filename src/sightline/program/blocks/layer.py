"""A decoder layer of one kind: norm, mixer, residual, norm, MLP, residual.

Where a block's output is normed (OLMo 2) instead of its input the same operators run in another order, which costs and
keeps as much; where both are (Gemma 2), the second norm is one more.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sightline.program.blocks.compressed_attention import compressed_attention
from sightline.program.blocks.experts import experts
from sightline.program.blocks.latent_attention import latent_attention
from sightline.program.blocks.mlp import dense_mlp
from sightline.program.blocks.recurrent import linear_attention, state_space
from sightline.program.blocks.self_attention import self_attention
from sightline.program.kernels import Kernels
from sightline.program.program import Step, Sublayer
from sightline.scenario import LayerKind, Model


class Layer(NamedTuple):
    """One layer written out."""

    steps: Sequence[Step]
    halves: Sequence[Sublayer]
    """The mixer and the MLP, as far as the layer has them."""


def layer(x: Kernels, kind: LayerKind) -> Layer:
    """Return one layer of ``kind``, whose heads are those of ``x``."""
    halves = [half for half in (_mixer(x, kind), _mlp(x, kind)) if half is not None]
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


def _mixer(x: Kernels, kind: LayerKind) -> Sublayer | None:
    match kind.mixer:
        case "none":
            return None
        case "linear":
            return linear_attention(x)
        case "state-space":
            return state_space(x)
        case "compressed":
            return compressed_attention(x, kind)
        case "latent" | "sparse" if x.model.latent is not None:
            return latent_attention(x, kind)
        case _:
            return self_attention(x, kind)


def _mlp(x: Kernels, kind: LayerKind) -> Sublayer | None:
    match kind.mlp:
        case "none":
            return None
        case "experts":
            return experts(x)
        case _:
            return dense_mlp(x, float(x.model.width_of(kind)))
