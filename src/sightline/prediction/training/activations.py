"""What a stage's device keeps of activations between forward and backward pass, logits, loss, and placeholders.

Placeholders stand in for weight gradients which were added up inside their matmuls already. PyTorch wants a gradient
for every weight, so the matmul's wrapper returns an empty one of the weight's shape. TransformerEngine keeps one per
shape for as long as it trains; Megatron-Core makes the head's anew each time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.prediction.training.stages import ProgramSizes, StageContents, layer_sum
from sightline.program import Block, Matmul, Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, either, identity, larger, rounded_up, smaller
from sightline.scenario import Plan, Scenario


class Shape(NamedTuple):
    """Rows and columns of a weight."""

    m: Number
    n: Number

    @property
    def elements(self) -> Number:
        """Their product."""
        return self.m * self.n

    @property
    def varies(self) -> bool:
        """Whether plans of a mesh have different ones."""
        return isinstance(self.m, np.ndarray) or isinstance(self.n, np.ndarray)

    def equals(self, other: "Shape") -> Any:
        """Return where both are the same, plan by plan."""
        return (self.m == other.m) & (self.n == other.n)


Shapes = Mapping[tuple[object, object], Shape]
"""The shapes of weights, each once."""


def of_layers(kinds: Sequence[Number], shapes: Sequence[Shapes], element_bytes: float) -> Number:
    """Bytes of one placeholder for each shape of weight in ``kinds`` layers of each kind; experts share theirs."""
    there: dict[tuple[object, object], tuple[Shape, Number]] = {}
    for count, of_kind in zip(kinds, shapes, strict=True):
        for key, shape in of_kind.items():
            before = there[key][1] if key in there else 0.0
            there[key] = (shape, larger(before, 1.0 * (count > 0)))
    total: Number = 0.0
    seen: list[tuple[Shape, Number]] = []
    for shape, present in there.values():
        total = total + element_bytes * shape.elements * present * (1.0 - _taken(shape, seen))
        seen.append((shape, present))
    return total


def _taken(shape: Shape, seen: Sequence[tuple[Shape, Number]]) -> Number:
    """1.0 in the plans of a mesh in which a shape is one that was seen, though they differ in others; 0.0 elsewhere."""
    taken: Number = 0.0
    for other, present in seen:
        if (shape.varies or other.varies) and anywhere(same := shape.equals(other)):
            taken = larger(taken, present * same)
    return taken


def of_head(program: Program, element_bytes: float) -> Number:
    """Bytes of the head's placeholder."""
    return sum(element_bytes * shape.elements for shape in _shapes(program.head).values())


def layer_shapes(program: Program) -> list[Shapes]:
    """Return the shapes of weights with gradients in each kind of layer."""
    return [_shapes(block, "head") for block in program.layers]


def _shapes(block: Block, other_block: str = "") -> Shapes:
    """Shapes of weights that get a gradient; routers are kept apart in fp32.

    Weights of the module ``other_block`` are another block's.
    """
    return {
        (identity(op.m), identity(op.n)): Shape(op.m, op.n)
        for op in block.backward
        if isinstance(op, Matmul) and op.makes_own_weight_gradient and op.module not in ("router", other_block)
    }


@record
class Activations:
    """Bytes of activations on one device when a stage holds most of them."""

    layers: Number
    """Saved activations of layers, of all micro-batches in flight."""
    others: Number
    """Those of embedding, head and loss, and buffers of the pipeline."""
    head: Number
    """Those of head and loss of one micro-batch, which are gone when its layers' backward passes run."""
    on_device: Number
    """Those that are not offloaded."""
    logits: Number
    """Further bytes of logits and loss while the loss runs."""

    @property
    def offloaded(self) -> Number:
        """Those in the host's memory."""
        return self.layers + self.others - self.on_device


def activations(
    scenario: Scenario, program: Program, sizes: ProgramSizes, stage: StageContents, in_flight: Number
) -> Activations:
    """Return the activations of a stage that holds those of ``in_flight`` micro-batches."""
    plan = scenario.plan
    layers = in_flight * layer_sum(stage, sizes.saved_bytes)
    head = stage.head * bytes_of_head(plan, program)
    others = in_flight * _of_embedding_and_head(plan, program, stage, head)
    others = others + _collected(scenario, program, stage, in_flight)
    on_device = layers
    if "activations" in plan.offload:
        # Two layers' worth stays: the one at work and the one on its way.
        stays = smaller(1.0, 2.0 / larger(stage.layers * in_flight, 1.0))
        on_device = layers * either(plan.offloads("activations") > 0, stays, 1.0)
    # A device that has a head for one direction alone still holds all of its logits.
    logits = rounded_up(stage.head) * bytes_in_loss(scenario, program)
    return Activations(layers=layers, others=others, head=head, on_device=on_device + others, logits=logits)


LOG_PROBABILITY_BYTES = 8.0
"""Bytes per logit of a pass that ends in log-probabilities: logits in fp32 and their log-softmax."""
LOG_PROBABILITY_GRADIENT_BYTES = 12.0
"""The same in its backward pass: the log-softmax, its gradient, and that of the logits, all in fp32."""


def bytes_in_loss(scenario: Scenario, program: Program) -> Number:
    """Return the live bytes of the micro-batch whose loss runs, in addition to those that are saved.

    In preference training the logits of a pass without gradients stand next to those that wait for their backward
    pass (``get_batch_logps`` of LLaMA-Factory 0.9.4; trl keeps fewer).
    """
    workload, each = scenario.workload, _loss_bytes(scenario.plan)
    if workload.preference != "none":
        passes = 2.0 if workload.passes_without_gradient else 1.0
        each = max(passes * LOG_PROBABILITY_BYTES, LOG_PROBABILITY_GRADIENT_BYTES)
    return program.head.logits * each


def _loss_bytes(plan: Plan) -> Number:
    """The same per logit."""
    framework = plan.framework.compiled() if plan.compile else plan.framework
    kept, split = framework.allocation.kept_bytes_per_logit, framework.allocation.split_loss_bytes_per_logit
    whole = max(framework.loss_bytes_per_logit - kept, 0.0)
    gathered = plan.tensor_parallel if framework.allocation.gathers_logits else 1.0
    return either(plan.tensor_parallel > 1, gathered * max(split - kept, 0.0), whole) if split else whole


def _of_embedding_and_head(plan: Plan, program: Program, stage: StageContents, head: Number) -> Number:
    """Bytes that one micro-batch keeps of embedding, head and loss, and of what the stage has sent on."""
    kept = stage.embedding * program.embedding.saved_bytes + head
    if not plan.framework.allocation.keeps_stage_outputs:
        return kept
    sent = program.embedding.boundary_bytes / either(plan.sequence_parallel != 0, plan.tensor_parallel, 1)
    return kept + (1.0 - stage.head) * sent


def bytes_of_head(plan: Plan, program: Program) -> Number:
    """Return the bytes that one micro-batch keeps of head and loss."""
    return program.head.saved_bytes + program.head.logits * plan.framework.allocation.kept_bytes_per_logit


def _collected(scenario: Scenario, program: Program, stage: StageContents, in_flight: Number) -> Number:
    """Return the bytes that a pipeline's stage holds for all ``m`` micro-batches of a step; 0 without a pipeline.

    A buffer per micro-batch for the activation that comes in and for the gradient that comes back, of which those whose
    activations are kept are the input of its first layer; on the last stage the logits of all, to be handed back. Left
    out: buffers of virtual stages.
    """
    plan = scenario.plan
    if not plan.framework.allocation.collects_outputs:
        return 0.0
    m = scenario.workload.global_batch / (plan.data_parallel * plan.sequences)
    received = program.embedding.boundary_bytes / either(plan.sequence_parallel != 0, plan.tensor_parallel, 1)
    buffers = (m - in_flight) * (1.0 - stage.embedding) + m * (1.0 - stage.head)
    logits = stage.head * m * ELEMENT_BYTES[plan.high_precision_dtype] * program.head.logits
    return (plan.pipeline_parallel > 1) * (received * buffers + logits)
