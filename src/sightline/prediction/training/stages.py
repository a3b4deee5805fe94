"""What each kind of pipeline stage holds: layers, embedding and head, and their parameters and bytes on one device."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import mul
from typing import NamedTuple

from sightline.content import record
from sightline.prediction.schedules.closed_forms import Stages, kinds_of_stages, layers_of_stages
from sightline.program import Block, Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, either, larger, plain, smaller
from sightline.scenario import Plan, Scenario


@record
class StageContents:
    """What one kind of stage holds: layers of each kind, and whether embedding and head are there (1.0 or 0.0)."""

    name: str
    kinds: tuple[Number, ...]
    """Layers of each of the program's kinds; fractions where kinds alternate."""
    embedding: Number
    head: Number
    tied_copy: Number = 0.0
    """1.0 where the head is tied to the embedding of another stage."""

    @property
    def layers(self) -> Number:
        """Layers of all kinds."""
        return sum(self.kinds)

    @property
    def is_empty(self) -> bool:
        """Whether no plan's pipeline has such a stage."""
        return not anywhere(self.layers + self.embedding + self.head > 0)


def layers_to_spread(scenario: Scenario) -> int:
    """Return the layers that are spread over the stages.

    One of multi-token prediction counts as two, being a head too.
    """
    return scenario.model.layers + 2 * scenario.plan.prediction_layers


def stage_contents(scenario: Scenario) -> Stages[StageContents]:
    """Return what the first, the heaviest middle and the last stage hold; with one stage the last two hold nothing."""
    plan, model = scenario.plan, scenario.model
    kinds = _kinds(scenario)
    pipelined = 1.0 * (plan.pipeline_parallel > 1)
    tied = pipelined * (model.tied_embeddings or plan.prediction_layers > 0)
    stages = Stages(
        StageContents(name="first", kinds=kinds.first, embedding=1.0, head=1.0 - pipelined),
        StageContents(name="middle", kinds=kinds.middle, embedding=0.0, head=0.0),
        StageContents(name="last", kinds=kinds.last, embedding=0.0, head=pipelined, tied_copy=tied),
    )
    return _both_directions(stages, pipelined) if plan.both_ways else stages


def alone_on_a_stage(scenario: Scenario) -> Scenario:
    """Return the scenario with all layers, embedding and head on one stage."""
    return replace(scenario, plan=replace(scenario.plan, pipeline_parallel=1, schedule="1f1b", virtual_stages=1))


def _kinds(scenario: Scenario) -> Stages[tuple[Number, ...]]:
    """Layers of each kind on the stages; those of multi-token prediction are the last ones of the last stage."""
    plan, model = scenario.plan, scenario.model
    p, further = plan.pipeline_parallel, plan.prediction_layers
    layers = layers_of_stages(layers_to_spread(scenario), p)
    if not further:
        return kinds_of_stages(model.kinds, layers, p)
    alone, pipelined = 1.0 * (p == 1), 1.0 * (p > 1)
    own = Stages(
        first=layers.first - 2 * further * alone,
        middle=layers.middle,
        last=larger(layers.last - 2 * further * pipelined, 0.0),
    )
    first, middle, last = kinds_of_stages(model.kinds, own, p)
    return Stages((*first, further * alone), (*middle, 0.0), (*last, further * pipelined))


def _both_directions(stages: Stages[StageContents], pipelined: Number) -> Stages[StageContents]:
    """What a micro-batch finds on a device that has a stage of each direction: the mean of the two."""
    first, middle, last = stages

    def mean(a: Number, b: Number) -> Number:
        return either(pipelined > 0, 0.5 * (a + b), a)

    outer = replace(
        first,
        kinds=tuple(mean(a, b) for a, b in zip(first.kinds, last.kinds, strict=True)),
        embedding=mean(first.embedding, last.embedding),
        head=mean(first.head, last.head),
    )
    opposite = replace(
        last,
        tied_copy=0.0,
        kinds=tuple(kind * pipelined for kind in outer.kinds),
        embedding=outer.embedding * pipelined,
        head=outer.head * pipelined,
    )
    return Stages(outer, middle, opposite)


class DenseAndExperts(NamedTuple):
    """Parameters or bytes on one device before ZeRO.

    Routed experts are apart, since their replicas are fewer than all others'.
    """

    dense: Number
    experts: Number

    def times(self, factor: Number) -> "DenseAndExperts":
        """Both, multiplied."""
        return DenseAndExperts(self.dense * factor, self.experts * factor)

    @property
    def total(self) -> Number:
        """Both together."""
        return self.dense + self.experts


class Sizes(NamedTuple):
    """Parameters (no unit) and bytes of a block, or of all blocks of a stage, on one device before ZeRO."""

    own_trained: Number
    """Parameters of the model itself that get gradients."""
    adapter: Number
    copied: Number
    """Copies of frozen modules that are trained whole together with adapters."""
    trained_experts: Number
    matrices: Number
    """Trained parameters that the optimizer treats as matrices."""
    expert_matrices: Number
    frozen_bytes: Number
    stored_bytes: Number
    """All weights as the passes read them."""
    expert_stored_bytes: Number
    low_precision_bytes: Number
    """What low-precision copies add to the weights."""
    expert_low_precision_bytes: Number
    cast_bytes: Number
    """Traffic of making low-precision copies after an update."""

    @property
    def trained(self) -> DenseAndExperts:
        """Parameters that get gradients."""
        total = self.own_trained + self.adapter + self.copied
        return DenseAndExperts(total - self.trained_experts, self.trained_experts)

    @property
    def optimized_as_matrices(self) -> DenseAndExperts:
        """Parameters that the optimizer treats as matrices."""
        return DenseAndExperts(self.matrices - self.expert_matrices, self.expert_matrices)

    @property
    def stored(self) -> DenseAndExperts:
        """Bytes of all weights as the passes read them."""
        return DenseAndExperts(self.stored_bytes - self.expert_stored_bytes, self.expert_stored_bytes)


NO_SIZES = Sizes(*(0.0 for _ in Sizes._fields))


@record
class ProgramSizes:
    """The sizes of every block of a program, read once."""

    blocks: Sequence[Sizes]
    """Each kind of layer, then embedding and head."""
    saved_bytes: Sequence[Number]
    """Activations that a micro-batch keeps of a layer, by kind."""
    working_bytes: Sequence[Number]
    """What recomputation brings back in a layer's backward pass, by kind."""
    transient_bytes: Sequence[Number]

    @property
    def embedding(self) -> Sizes:
        """Those of the embedding."""
        return self.blocks[-2]

    @property
    def head(self) -> Sizes:
        """Those of the head."""
        return self.blocks[-1]

    def of(self, stage: StageContents) -> Sizes:
        """Return the sums over a stage; an embedding that the head of another stage is tied to counts there too."""
        if stage.is_empty:
            return NO_SIZES
        counts = (*stage.kinds, stage.embedding + stage.tied_copy, stage.head)
        return Sizes(*(sum(map(mul, counts, column)) for column in zip(*self.blocks, strict=True)))

    def embedding_and_head_bytes(self, stage: StageContents) -> Number:
        """Return the bytes of a stage's weights that are no layer's, as the passes read them."""
        return stage.embedding * self.embedding.stored_bytes + stage.head * self.head.stored_bytes

    def largest_layer_bytes(self, stage: StageContents) -> Number:
        """Return the bytes of the weights of the largest layer that a stage holds."""
        return most(stage, [layer.stored_bytes for layer in self.blocks[:-2]])


def program_sizes(program: Program, plan: Plan) -> ProgramSizes:
    """Return the sizes of the program's blocks, with unquantized weights in the plan's 16-bit or 32-bit type."""
    element_bytes = ELEMENT_BYTES[plan.high_precision_dtype]
    layers = program.layers
    return ProgramSizes(
        blocks=[_sizes(block, element_bytes) for block in (*layers, program.embedding, program.head)],
        saved_bytes=[plain(block.saved_bytes) for block in layers],
        working_bytes=[plain(block.working_bytes) for block in layers],
        transient_bytes=[plain(block.transient_bytes) for block in layers],
    )


def _sizes(block: Block, element_bytes: float) -> Sizes:
    experts, copies, matrices = block.trained_expert_parameters, block.low_precision, block.matrix_parameters
    sizes = Sizes(
        own_trained=block.own_trained_parameters,
        adapter=block.adapter_parameters,
        copied=block.copied_parameters,
        trained_experts=experts,
        matrices=matrices,
        expert_matrices=smaller(experts, matrices),
        frozen_bytes=block.frozen_bytes(element_bytes),
        stored_bytes=block.stored_bytes(element_bytes),
        expert_stored_bytes=element_bytes * experts + copies.expert_gathered_bytes,
        low_precision_bytes=copies.kept_bytes,
        expert_low_precision_bytes=copies.expert_kept_bytes,
        cast_bytes=copies.cast_bytes,
    )
    return Sizes._make(map(plain, sizes))


def layer_sum(stage: StageContents, of_kinds: Sequence[Number]) -> Number:
    """Return a sum over a stage's layers of a figure that each kind of layer has."""
    total: Number = sum(map(mul, stage.kinds, of_kinds))
    return total


def most(stage: StageContents, of_kinds: Sequence[Number]) -> Number:
    """Return the largest of a figure that each kind of layer has, of the kinds that a stage holds; 0 for none."""
    there = [(count > 0) * figure for count, figure in zip(stage.kinds, of_kinds, strict=True)]
    largest: Number = reduce(larger, there)
    return largest
