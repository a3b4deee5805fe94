"""What each kind of pipeline stage holds: layers of each kind, embedding and head."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from sightline.prediction.schedules.closed_forms import StageKinds, StageLayers, kinds_of_stages, layers_of_stages
from sightline.quantities import Number, anywhere, either, larger
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
        return not any(anywhere(count > 0) for count in (*self.kinds, self.embedding, self.head))


class Stages(NamedTuple):
    """The first, the heaviest middle and the last stage; those that a shorter pipeline lacks hold nothing."""

    first: StageContents
    middle: StageContents
    last: StageContents


def layers_to_spread(scenario: Scenario) -> int:
    """Return the layers that are spread over the stages; one of multi-token prediction counts as two, being a head too."""
    return scenario.model.layers + 2 * scenario.plan.prediction_layers


def stage_contents(scenario: Scenario) -> Stages:
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
    return _both_directions(stages, pipelined) if plan.schedule == "dualpipe" else stages


def _kinds(scenario: Scenario) -> StageKinds:
    """Layers of each kind on the stages; those of multi-token prediction are the last ones of the last stage."""
    plan, model = scenario.plan, scenario.model
    p, further = plan.pipeline_parallel, plan.prediction_layers
    layers = layers_of_stages(layers_to_spread(scenario), p)
    if not further:
        return kinds_of_stages(model.kinds, layers, p)
    alone, pipelined = 1.0 * (p == 1), 1.0 * (p > 1)
    own = StageLayers(
        first=layers.first - 2 * further * alone,
        middle=layers.middle,
        last=larger(layers.last - 2 * further * pipelined, 0.0),
    )
    first, middle, last = kinds_of_stages(model.kinds, own, p)
    return StageKinds((*first, further * alone), (*middle, 0.0), (*last, further * pipelined))


def _both_directions(stages: Stages, pipelined: Number) -> Stages:
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
