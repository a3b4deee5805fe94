"""One micro-batch on the stages of a pipeline: its passes, the stage that sets the pace, the way through all stages."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import mul
from typing import NamedTuple

from sightline.prediction.pass_times import PassTimes, sum_of_passes
from sightline.prediction.schedules.closed_forms import run_apart
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.stages import StageContents, Stages, stage_contents
from sightline.quantities import Number, anywhere, either, larger
from sightline.scenario import Scenario


class Slot(NamedTuple):
    """One micro-batch on one stage."""

    forward: PassTimes = PassTimes()
    recompute: PassTimes = PassTimes()
    backward: PassTimes = PassTimes()
    weight_s: Number = 0.0
    """Part of the backward pass that makes weight gradients."""
    forward_wait_s: Number = 0.0
    """Seconds that the device waits for the host's launches."""
    backward_wait_s: Number = 0.0
    forward_s: Number = 0.0
    backward_s: Number = 0.0
    """Recomputation and backward pass."""
    total_s: Number = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PipelineSlots:
    """One micro-batch on every kind of stage."""

    stages: Stages
    slots: tuple[Slot, Slot, Slot]
    slowest: StageContents
    """The pace-setting stage."""
    slot: Slot
    """One micro-batch on it."""
    through_s: Number
    """One micro-batch through all stages."""

    def of_other_stages(self, scenario: Scenario, of: Callable[[Slot], Number]) -> Number:
        """Return the sum of a figure over all stages but the pace-setting one."""
        return _through(scenario, self.stages, self.slots, of) - of(self.slot)


def pipeline_slots(priced: Priced) -> PipelineSlots:
    """Return what one micro-batch takes on the stages of ``priced``."""
    stages = stage_contents(priced.scenario)
    first, middle, last = (_slot(priced, stage) for stage in stages)
    slots = (first, middle, last)
    slowest = _slowest(stages, slots)
    return PipelineSlots(
        stages=stages,
        slots=slots,
        slowest=slowest,
        slot=next((x for stage, x in zip(stages, slots, strict=True) if stage is slowest), None)
        or _slot(priced, slowest),
        through_s=_through(priced.scenario, stages, slots, lambda slot: slot.total_s),
    )


def _slot(priced: Priced, stage: StageContents) -> Slot:
    if stage.is_empty:
        return Slot()
    counts = (*stage.kinds, stage.embedding, stage.head)
    forward, recompute, backward = (
        sum_of_passes(counts, passes) for passes in tuple(zip(*priced.times, strict=True))[:3]
    )
    launches_s = priced.launch_forward_s * recompute.launches + priced.launch_backward_s * backward.launches
    again = sum_of_passes((1.0, 1.0), (recompute, backward))
    forward_wait_s = forward.waiting_s(priced.launch_forward_s * forward.launches)
    backward_wait_s = again.waiting_s(launches_s)
    forward_s, backward_s = forward.device_s + forward_wait_s, again.device_s + backward_wait_s
    return Slot(
        forward=forward,
        recompute=recompute,
        backward=backward,
        weight_s=sum(map(mul, counts, [block.weight_s for block in priced.times])),
        forward_wait_s=forward_wait_s,
        backward_wait_s=backward_wait_s,
        forward_s=forward_s,
        backward_s=backward_s,
        total_s=forward_s + backward_s,
    )


def _through(
    scenario: Scenario, stages: Stages, slots: tuple[Slot, Slot, Slot], of: Callable[[Slot], Number]
) -> Number:
    """A figure of one micro-batch over all stages; the middle stages share the layers that first and last leave."""
    first, middle, last = map(of, slots)
    between = scenario.model.layers + scenario.plan.prediction_layers - stages.first.layers - stages.last.layers
    return first + middle * (between / larger(stages.middle.layers, 1)) + last


def _slowest(stages: Stages, slots: tuple[Slot, Slot, Slot]) -> StageContents:
    """Contents of the stage with the longest slot, plan by plan."""
    most_s, contents = slots[0].total_s, stages[0]
    for stage, slot in zip(stages[1:], slots[1:], strict=True):
        longer = slot.total_s > most_s
        if not anywhere(longer):
            continue
        contents = stage if longer is True else _chosen(longer, stage, contents)
        most_s = larger(most_s, slot.total_s)
    return contents


def _chosen(chosen: object, one: StageContents, other: StageContents) -> StageContents:
    """The contents of one of two stages, plan by plan."""
    return StageContents(
        name="slowest",
        kinds=tuple(either(chosen, a, b) for a, b in zip(one.kinds, other.kinds, strict=True)),
        embedding=either(chosen, one.embedding, other.embedding),
        head=either(chosen, one.head, other.head),
        tied_copy=either(chosen, one.tied_copy, other.tied_copy),
    )


def run_apart_s(slots: PipelineSlots, scenario: Scenario, micro_batches: Number) -> Number:
    """Seconds of the other stages that zero bubble keeps off a micro-batch's way; 0 under other schedules."""
    if scenario.plan.schedule != "zero-bubble":
        return 0.0
    return run_apart(
        slots.of_other_stages(scenario, lambda slot: slot.weight_s),
        slots.of_other_stages(scenario, lambda slot: slot.forward_s),
        slots.of_other_stages(scenario, lambda slot: slot.backward_s - slot.weight_s),
        scenario.plan.pipeline_parallel,
        micro_batches,
    )
