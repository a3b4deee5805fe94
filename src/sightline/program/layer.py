"""A decoder layer of one kind: norm, mixer, residual, norm, MLP, residual - forward and backward.

Where a block's output is normed (OLMo 2) instead of its input the same operators run in another order, which costs and
keeps as much; where both are (Gemma 2), the second norm is one more.
"""

from dataclasses import replace

import numpy as np

from sightline.program import elementwise
from sightline.program.attention import attended
from sightline.program.compressed_attention import compressed_attention
from sightline.program.context_parallel import exchange_bytes
from sightline.program.dense_mlp import dense_mlp
from sightline.program.experts import experts
from sightline.program.latent_attention import latent_attention
from sightline.program.linear_attention import linear_attention
from sightline.program.low_precision import blended, narrow_weights
from sightline.program.muon import with_muon
from sightline.program.operators import Operator
from sightline.program.program import Block
from sightline.program.quantized_weights import stored_bytes
from sightline.program.recompute import with_recompute
from sightline.program.residual_streams import read_streams, write_streams
from sightline.program.self_attention import self_attention
from sightline.program.shapes import Shapes
from sightline.program.state_space import state_space
from sightline.program.sublayer import Sublayer
from sightline.quantities import Number
from sightline.scenario import Heads, LayerKind, Model, Plan


def layer_block(x: Shapes, kind: LayerKind, plan: Plan) -> Block:
    """Return one layer of ``kind`` as one micro-batch executes it: the mean of those in few bits and those left wide."""
    block = _block(x, kind, plan)
    if x.low is None or not np.any(plan.bf16_layers):
        return block
    return blended(block, _block(replace(x, low=None), kind, plan), plan.bf16_layers / x.model.layers)


def _block(x: Shapes, kind: LayerKind, plan: Plan) -> Block:
    """Return one layer, all of it in one precision, recomputation included."""
    x = replace(x, shape=core_heads(x.model, kind))
    halves = [half for half in (_mixer(x, kind, plan), _mlp(x, kind)) if half is not None]
    weights = sum(half.weights for half in halves)
    norms = x.model.layer_norms * len(halves) // 2 * x.model.norm_parameters + len(halves) * x.model.stream_parameters
    parameters = sum(half.parameters for half in halves) + norms
    # Without an adapter, what is not quantized is trained.
    frozen = parameters if plan.adapter is not None else weights * (not x.trained.projections)
    quantized = plan.quantization != "none"
    last = halves[-1]
    core = sum(half.core_input_bytes for half in halves)
    block = Block(
        name=_name(x, kind),
        layers=kind.count,
        leading=kind.leading,
        forward=_forward(x, halves),
        backward=_backward(x, halves),
        transient_bytes=np.maximum(
            _transient_bytes(x, last, quantized=quantized), exchange_bytes(attended(x)) * np.any(core)
        ),
        parameters=parameters,
        expert_parameters=sum(half.expert_parameters for half in halves),
        frozen_parameters=frozen,
        quantized_parameters=weights * quantized,
        quantized_bytes=stored_bytes(x),
        narrow=narrow_weights(x, weights, sum(half.expert_weights for half in halves)),
        adapter_parameters=sum(half.adapter_parameters for half in halves),
    )
    if plan.optimizer == "muon":
        block = with_muon(block, plan.wide_dtype)
    how = plan.recomputation
    return with_recompute(
        block,
        how,
        x.residual_bytes * x.model.residual_streams,
        core,
        stops_early=plan.framework.memory.recompute_stops_early,
        share=1.0 if how is None else how.share_of(x.model.layers, plan.pipeline_parallel * 1.0),
    )


def _transient_bytes(x: Shapes, last: Sublayer, *, quantized: bool) -> Number:
    """Bytes that live for a moment of the backward pass: gradients of the widest activation, and its expanded weight.

    A kept product gives its place to its gradient. Where gradients come back with the pass there are also that of the
    layer's output, that of a weight, and either those of the product's two inputs or, gathered, the output's again.
    """
    widest, weight = x.element_bytes * last.widest, x.element_bytes * last.widest_weight
    if x.framework.memory.keeps_product and x.framework.allocation.frees_gradients:
        return x.residual_bytes + weight + np.maximum(widest, 0.5 * widest + x.split * x.hidden_bytes)
    return (2.0 - x.framework.memory.keeps_product) * widest + quantized * weight


def core_heads(model: Model, kind: LayerKind) -> Heads:
    """Return the head shape that the attention core works with; latent attention is expanded to full heads."""
    if kind.mixer not in ("latent", "sparse") or model.latent is None:
        return model.heads_of(kind)
    latent = model.latent
    return Heads(
        heads=model.heads, kv_heads=model.heads, head_dim=latent.head_dim, value_head_dim=latent.value_head_dim
    )


def _name(x: Shapes, kind: LayerKind) -> str:
    """A kind's name: layer where there is one kind, else what sets it apart."""
    if len(x.model.kinds) == 1:
        return "layer"
    return ", ".join(part for part in (kind.mixer, kind.mlp) if part != "none")


def _mixer(x: Shapes, kind: LayerKind, plan: Plan) -> Sublayer | None:
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
            return latent_attention(x, kind, plan.attention)
        case _:
            return self_attention(x, kind, plan.attention)


def _mlp(x: Shapes, kind: LayerKind) -> Sublayer | None:
    match kind.mlp:
        case "none":
            return None
        case "experts":
            return experts(x)
        case _:
            return dense_mlp(x, float(x.model.width_of(kind)))


def _forward(x: Shapes, halves: list[Sublayer]) -> list[Operator]:
    operators: list[Operator] = []
    for half in halves:
        norm = [elementwise.norm(x, half.module)] if _has_norm(x, half, halves) else []
        after = [elementwise.norm(x, half.module)] if x.model.layer_norms > 2 else []
        leaving = write_streams(x, backward=False) or [elementwise.residual(x, bias=half.output_bias)]
        operators += [*read_streams(x, backward=False), *norm, *half.forward, *after, *leaving]
    return operators


def _backward(x: Shapes, halves: list[Sublayer]) -> list[Operator]:
    operators: list[Operator] = []
    for half in reversed(halves):
        norm = [elementwise.norm_gradient(x, half.module)] if _has_norm(x, half, halves) else []
        after = [elementwise.norm_gradient(x, half.module)] if x.model.layer_norms > 2 else []
        leaving = write_streams(x, backward=True) or [elementwise.residual_gradient(x)]
        operators += [*leaving, *after, *half.backward, *norm, *read_streams(x, backward=True)]
    return operators


def _has_norm(x: Shapes, half: Sublayer, halves: list[Sublayer]) -> bool:
    """Whether a half has a norm of its own; beside attention the MLP may take that one's."""
    return half is halves[0] or x.model.layer_norms > 1
