"""What the stages of a pipeline hold - layers of each kind, the ends, micro-batches in flight - and sums over it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sightline.prediction.schedules import StageKinds, StageLayers, in_flight, kinds_of_stages, layers_of_stages
from sightline.prediction.shared import Shared
from sightline.program import Block, Program
from sightline.quantities import Number
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageContents:
    """What one kind of stage holds: layers of each kind, and whether the model's ends are there (1.0 or 0.0)."""

    name: str
    kinds: tuple[Number, ...]
    """Layers of each of the program's kinds; fractions where kinds alternate."""
    embedding: Number
    head: Number
    tied_copy: Number
    """1.0 where the head is tied to an embedding that lives on another stage."""
    in_flight: Number
    """Micro-batches whose activations are held at the peak."""

    @property
    def layers(self) -> Number:
        """Layers of all kinds."""
        return sum(self.kinds)

    @property
    def is_empty(self) -> bool:
        """Whether a single plan's pipeline has no such stage."""
        return not (self.layers > 0 or self.embedding > 0 or self.head > 0)


def layers_to_spread(scenario: Scenario) -> int:
    """Return the layers that are spread over the stages; one of multi-token prediction counts as two, being a head too."""
    return scenario.model.layers + 2 * scenario.plan.prediction_layers


def _kinds(scenario: Scenario) -> StageKinds:
    """Layers of each kind of block on the stages.

    Those of multi-token prediction end the last stage.
    """
    plan, model = scenario.plan, scenario.model
    p, further = plan.pipeline_parallel, plan.prediction_layers
    layers = layers_of_stages(layers_to_spread(scenario), p)
    if not further:
        return kinds_of_stages(model.kinds, layers, p)
    piped = np.asarray(p) > 1
    own = StageLayers(
        first=layers.first - 2 * further * ~piped,
        middle=layers.middle,
        last=np.maximum(layers.last - 2 * further * piped, 0.0),
    )
    first, middle, last = kinds_of_stages(model.kinds, own, p)
    return StageKinds((*first, further * ~piped * 1.0), (*middle, 0.0), (*last, further * piped * 1.0))


def stage_contents(scenario: Scenario, micro_batches: Number) -> tuple[StageContents, StageContents, StageContents]:
    """Return what the first, the heaviest middle and the last stage hold; with one stage the last two hold nothing."""
    plan, model = scenario.plan, scenario.model
    p, v = plan.pipeline_parallel, plan.virtual_stages
    kinds = _kinds(scenario)
    held = in_flight(p, micro_batches, v, plan.schedule)
    piped = 1.0 * (np.asarray(p) > 1)
    tied = piped * (model.tied_embeddings or plan.prediction_layers > 0)
    stages = (
        StageContents(
            name="first", kinds=kinds.first, embedding=1.0, head=1.0 - piped, tied_copy=0.0, in_flight=held[0]
        ),
        StageContents(
            name="middle",
            kinds=kinds.middle,
            embedding=0.0,
            head=0.0,
            tied_copy=0.0,
            in_flight=held[1],
        ),
        StageContents(name="last", kinds=kinds.last, embedding=0.0, head=piped, tied_copy=tied, in_flight=held[2]),
    )
    return _mirrored(stages, piped) if plan.schedule == "dualpipe" else stages


def _mirrored(
    stages: tuple[StageContents, StageContents, StageContents], piped: Number
) -> tuple[StageContents, StageContents, StageContents]:
    """Return what a micro-batch finds on a device that has a stage of each direction: the mean of the two."""
    first, middle, last = stages

    def mean(a: Number, b: Number) -> Number:
        return np.where(piped > 0, 0.5 * (np.asarray(a) + b), a)

    outer = replace(
        first,
        kinds=tuple(mean(a, b) for a, b in zip(first.kinds, last.kinds, strict=True)),
        embedding=mean(first.embedding, last.embedding),
        head=mean(first.head, last.head),
    )
    nothing = replace(last, tied_copy=0.0)
    other = replace(
        nothing,
        kinds=tuple(kind * piped for kind in outer.kinds),
        embedding=outer.embedding * piped,
        head=outer.head * piped,
    )
    return outer, middle, other


def trained_parameters(program: Program, stage: StageContents) -> Shared:
    """Parameters of a stage that get gradients, on one device before ZeRO."""
    experts = layer_sum(program, stage, lambda block: block.trained_expert_parameters)
    total = stage_sum(program, stage, lambda block: block.trained_parameters)
    return Shared(common=total - experts, experts=experts)


def matrix_parameters(program: Program, stage: StageContents) -> Shared:
    """Parameters of a stage that the optimizer treats as matrices, on one device before ZeRO."""
    total = layer_sum(program, stage, lambda block: block.matrix_parameters)
    experts = layer_sum(
        program, stage, lambda block: np.minimum(block.trained_expert_parameters, block.matrix_parameters)
    )
    return Shared(common=total - experts, experts=experts)


def stored_bytes(program: Program, stage: StageContents, narrow: float) -> Shared:
    """Bytes of all of a stage's weights as the passes read them, on one device before ZeRO."""
    experts = narrow * layer_sum(program, stage, lambda block: block.trained_expert_parameters)
    experts = experts + layer_sum(program, stage, lambda block: block.narrow.expert_gathered_bytes)
    total = stage_sum(program, stage, lambda block: block.stored_bytes(narrow))
    return Shared(common=total - experts, experts=experts)


def end_bytes(program: Program, stage: StageContents, narrow: float) -> Number:
    """Bytes of those of a stage's weights that are no layer's, as the passes read them."""
    return stage.embedding * program.embedding.stored_bytes(narrow) + stage.head * program.head.stored_bytes(narrow)


def stage_sum(program: Program, stage: StageContents, of: Callable[[Block], Number]) -> Number:
    """Add up what ``of`` says of every block that the stage holds."""
    ends = stage.embedding * of(program.embedding) + stage.head * of(program.head)
    return layer_sum(program, stage, of) + ends + stage.tied_copy * of(program.embedding)


def layer_sum(program: Program, stage: StageContents, of: Callable[[Block], Number]) -> Number:
    """Add up what ``of`` says of every layer that the stage holds."""
    return sum(count * of(block) for count, block in zip(stage.kinds, program.layers, strict=True))
