"""The one writer: a training micro-batch, a prefill, a decode step or a mixed batch, written out for one device."""

from dataclasses import replace

from sightline.program.blocks.layer import layer, layer_name
from sightline.program.blocks.outer import embedding, head
from sightline.program.kernels import InferenceKernels, Kernels, TrainingKernels, training_kernels
from sightline.program.program import Block, Program
from sightline.program.shapes import core_heads
from sightline.program.step import forward_of
from sightline.program.techniques.weight_conversion import converted
from sightline.program.training_blocks import embedding_block, head_block, layer_block, prediction_block
from sightline.scenario import LayerKind, Scenario


def write_out(scenario: Scenario) -> Program:
    """Return the operators that one micro-batch of ``scenario`` executes, block kind by block kind."""
    return write(training_kernels(scenario))


def write(x: Kernels) -> Program:
    """Return the operators of one pass on one device: of a micro-batch of training, or of an engine's batch."""
    return _training(x) if isinstance(x, TrainingKernels) else _inference(x)


def _training(x: TrainingKernels) -> Program:
    in_16_bit = replace(x, low=None)
    layers, last = [layer_block(x, kind) for kind in x.model.kinds], head_block(x if x.plan.narrow_head else in_16_bit)
    if x.plan.prediction_layers:
        layers.append(prediction_block(x, last))
        # The logits of every depth live until the backward pass.
        last = replace(last, logits=last.logits * (1.0 + x.plan.prediction_layers))
    return Program(embedding=embedding_block(in_16_bit), layers=tuple(layers), head=last)


def _inference(x: InferenceKernels) -> Program:
    return Program(
        embedding=Block(name="embedding", forward=forward_of(embedding(x))),
        layers=tuple(_inference_layer(x, kind) for kind in x.model.kinds),
        head=Block(name="head", forward=forward_of(head(x))),
    )


def _inference_layer(x: InferenceKernels, kind: LayerKind) -> Block:
    """One layer of ``kind``, with what surrounds its products in other formats than the library computes in."""
    x = replace(x, shape=core_heads(x.model, kind))
    operators = converted(x, forward_of(layer(x, kind).steps))
    return Block(name=layer_name(x.model, kind), count=kind.count, forward=operators)
