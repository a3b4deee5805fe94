"""The one writer: a training micro-batch, a prefill, a decode step or a mixed batch, written out for one device."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sightline.program.blocks.layer import Layer, TokenMixer, layer, layer_name, mixer_of
from sightline.program.kernels import Kernels, TrainingKernels, training_kernels
from sightline.program.operators import ADAPTER_PARTS, collective
from sightline.program.program import Block, LinearLayer, Program, Step, Sublayer, backward_of, elementwise, forward_of
from sightline.program.shapes import Shapes
from sightline.program.techniques.context_parallel import exchange_bytes
from sightline.program.techniques.low_precision import blended, low_precision_weights, stored_bytes
from sightline.program.techniques.muon import with_muon
from sightline.program.techniques.recomputation import with_recompute
from sightline.program.techniques.tensor_parallel import enter_region, handed_on, handed_on_in_shares
from sightline.quantities import Number, anywhere, larger
from sightline.scenario import LayerKind, Scenario, Workload

if TYPE_CHECKING:
    from sightline.program.kernels import InferenceKernels

K = TypeVar("K", bound=Shapes)


def write_out(scenario: Scenario) -> Program:
    """Return the operators that one micro-batch of ``scenario`` executes, block kind by block kind."""
    program, workload = write(training_kernels(scenario)), scenario.workload
    if not workload.passes_without_gradient:
        return program
    return replace(
        program,
        embedding=_with_reference(program.embedding, workload),
        layers=tuple(_with_reference(layer, workload) for layer in program.layers),
        head=_with_reference(program.head, workload),
    )


def _with_reference(block: Block, workload: Workload) -> Block:
    """``block`` with its passes of preference training that have no backward pass; a reference has no adapters."""
    trained = workload.passes_without_gradient - workload.reference_passes
    plain = [op for op in block.forward if op.part not in ADAPTER_PARTS]
    return replace(block, without_gradient=[*block.forward] * trained + plain * workload.reference_passes)


def write(x: Kernels) -> Program:
    """Return the operators of one pass on one device: of a micro-batch of training, or of an engine's batch."""
    return _training(x) if isinstance(x, TrainingKernels) else _inference(x)


def _training(x: TrainingKernels) -> Program:
    in_16_bit = x if x.low is None else replace(x, low=None)
    layers, last = [layer_block(x, kind) for kind in x.model.kinds], head_block(x if x.plan.narrow_head else in_16_bit)
    if x.plan.prediction_layers:
        layers.append(prediction_block(x, last))
        # The logits of every depth live until the backward pass.
        last = replace(last, logits=last.logits * (1.0 + x.plan.prediction_layers))
    return Program(
        embedding=embedding_block(in_16_bit),
        layers=tuple(layers),
        head=last,
        boundary=handed_on(x, x.hidden_bytes * x.model.residual_streams),
    )


def embedding_steps(x: Kernels) -> list[Step]:
    """Return the tokens' vectors as wide as the layers take them, and those that each layer adds (Gemma 3n)."""
    steps, width = x.embed(), float(x.model.table_width)
    if width != x.h:
        steps.append(x.linear(LinearLayer("embedding", "transform", width, x.h, of=None)))
    if added := float(x.model.layers * x.model.layer_embedding_width):
        steps.append(x.linear(LinearLayer("embedding", "layer inputs", x.h, added, of=None)))
    return steps


def head_steps(x: Kernels) -> list[Step]:
    """Return the steps from the last layer's output to the loss, or to the next tokens."""
    return [*x.final_norm(), *x.logits(), *x.choose()]


def _inference(x: "InferenceKernels") -> Program:
    return Program(
        embedding=Block(name="embedding", forward=forward_of(embedding_steps(x))),
        layers=tuple(_inference_layer(x, kind) for kind in x.model.kinds),
        head=Block(name="head", forward=forward_of(head_steps(x))),
        boundary=handed_on_in_shares(x, x.hidden_bytes),
    )


def _inference_layer(x: "InferenceKernels", kind: LayerKind) -> Block:
    """One layer of ``kind``, with what surrounds its products in other formats than the library computes in."""
    from sightline.program.kernels.inference_linear import converted

    mixer = mixer_of(x.model, kind)
    x = _with_heads_of(x, mixer)
    written = layer(x, mixer)
    return Block(
        name=layer_name(x.model, kind),
        count=kind.count,
        forward=converted(x, forward_of(written.steps)),
        adapter_parameters=sum(half.adapter_parameters for half in written.halves),
    )


def _with_heads_of(x: K, mixer: TokenMixer[Any]) -> K:
    """``x`` with the head shape that ``mixer`` works with, a copy only where that is not the model's own."""
    heads = mixer.heads
    return x if x.shape == heads else replace(x, shape=heads)


def embedding_block(x: TrainingKernels) -> Block:
    """Return the embedding of the tokens and, where they are learned, of their positions."""
    steps = embedding_steps(x)
    parameters = x.model.embedding_parameters + (x.vocabulary - x.model.vocab_size) * x.model.table_width
    with_adapter = x.trained.adapter is not None
    return Block(
        name="embedding",
        forward=forward_of(steps),
        backward=backward_of(steps),
        boundary_bytes=x.hidden_bytes * x.model.residual_streams,
        parameters=parameters,
        frozen_parameters=parameters * with_adapter,
        copied_parameters=parameters * (with_adapter and x.trained.embedding),
    )


def head_block(x: TrainingKernels) -> Block:
    """Return the head: final norm, logits and loss; a head tied to the embedding has no matrix of its own."""
    steps = head_steps(x)
    matrix = (0.0 if x.model.tied_embeddings else 1.0) * x.vocabulary * x.model.logits_width
    parameters = matrix + x.model.norm_parameters + x.model.joining_parameters + x.model.transform_parameters
    with_adapter = x.trained.adapter is not None
    return Block(
        name="head",
        forward=forward_of(steps),
        backward=backward_of(steps),
        logits=x.tokens * x.vocabulary,
        parameters=parameters,
        frozen_parameters=parameters * with_adapter,
        copied_parameters=matrix * (with_adapter and x.trained.head),
        low_precision=low_precision_weights(x, matrix, 0.0),
    )


def layer_block(x: TrainingKernels, kind: LayerKind) -> Block:
    """Return one layer of ``kind``: the mean of those in low precision and those left in 16 bits."""
    mixer = mixer_of(x.model, kind)
    x = _with_heads_of(x, mixer)
    block = _layer_block(x, mixer)
    if x.low is None or not anywhere(x.plan.bf16_layers != 0):
        return block
    return blended(block, _layer_block(replace(x, low=None), mixer), x.plan.bf16_layers / x.model.layers)


def _layer_block(x: TrainingKernels, mixer: TokenMixer[Any]) -> Block:
    """Return one layer, all of it in one precision, recomputation included."""
    plan, kind, written = x.plan, mixer.kind, layer(x, mixer)
    core_input_bytes = sum(half.core_input_bytes for half in written.halves)
    block = Block(
        name=layer_name(x.model, kind),
        count=kind.count,
        leading=kind.leading,
        forward=forward_of(written.steps),
        backward=backward_of(written.steps),
        transient_bytes=larger(
            _transient_bytes(x, written.halves[-1]), exchange_bytes(x.attended) * anywhere(core_input_bytes)
        ),
        **_parameters(x, written),
    )
    if plan.optimizer == "muon":
        block = with_muon(block, plan.high_precision_dtype)
    how = plan.recomputation
    return with_recompute(
        block,
        how,
        x.residual_bytes * x.model.residual_streams,
        core_input_bytes,
        stops_early=plan.framework.memory.recompute_stops_early,
        share=1.0 if how is None else how.share_of(x.model.layers, plan.pipeline_parallel * 1.0),
    )


def _parameters(x: TrainingKernels, written: Layer) -> dict[str, Any]:
    """A layer's parameters by what becomes of them, as `Block` has them.

    Without an adapter, what is not quantized is trained.
    """
    halves, model = written.halves, x.model
    weights = sum(half.weights for half in halves)
    norms = model.layer_norms * len(halves) // 2 * model.norm_parameters + model.small_parameters_of(len(halves))
    parameters = sum(half.parameters for half in halves) + norms
    return {
        "parameters": parameters,
        "expert_parameters": sum(half.expert_parameters for half in halves),
        "frozen_parameters": parameters if x.plan.adapter is not None else weights * (not x.trained.projections),
        "quantized_parameters": weights * (x.plan.quantization != "none"),
        "quantized_bytes": stored_bytes(x),
        "low_precision": low_precision_weights(x, weights, sum(half.expert_weights for half in halves)),
        "adapter_parameters": sum(half.adapter_parameters for half in halves),
    }


def _transient_bytes(x: TrainingKernels, last: Sublayer) -> Number:
    """Bytes that live for a moment of the backward pass: gradients of the widest activation, and its expanded weight.

    A kept product gives its place to its gradient. Where gradients come back with the pass there are also that of the
    layer's output, that of a weight, and either those of the product's two inputs or, gathered, the output's again.
    """
    widest, weight = x.stream_bytes * last.widest, x.element_bytes * last.widest_weight
    keeps_product = x.framework.memory.keeps_product
    if keeps_product and x.framework.allocation.frees_gradients:
        return x.residual_bytes + weight + larger(widest, 0.5 * widest + x.split * x.hidden_bytes)
    return (2.0 - keeps_product) * widest + (x.plan.quantization != "none") * weight


def prediction_block(x: TrainingKernels, head: Block) -> Block:
    """Return multi-token prediction: a layer that goes on from the last one's output to the token after next.

    Each depth norms the output of what is before it and the embedding of the token that comes next, joins both in a
    projection from twice the hidden size, runs a layer of the model's last kind, and ends in the shared head with a
    loss of its own (DeepSeek V3, arXiv 2412.19437, section 2.2). It stands on the last pipeline stage, with the head,
    whose operators ``head`` has. The table's and the head's weights are the model's own, and so are their gradients'
    tensors.
    """
    whole, last = layer_block(x, x.model.kinds[-1]), replace(x, low=None)
    moved, elements, outputs = 4.0 * x.residual_bytes, 2.0 * x.residual_bytes / x.element_bytes, x.h / x.t
    lookup = elementwise("prediction", "lookup", x.tokens * x.h, (2.0 * x.hidden_bytes, 0.0))
    steps = [
        Step(lookup.forward),
        last.norm("prediction"),
        last.norm("prediction"),
        elementwise("prediction", "joined", elements, (moved, moved)),
        Step(enter_region(last, "prediction")),
        last.linear(LinearLayer("prediction", "joining", 2.0 * x.h, outputs, kept=1.0 / x.r)),
        Step(collective("prediction", "all_gather", x.hidden_bytes, x.t > 1)),
        Step(whole.forward, whole.backward),
        Step(head.forward, head.backward),
    ]
    return replace(
        whole,
        name="prediction",
        count=int(x.plan.prediction_layers),
        leading=False,
        forward=forward_of(steps),
        backward=backward_of(steps),
        parameters=whole.parameters + 2.0 * x.h * outputs + 3.0 * x.model.norm_parameters,
    )
