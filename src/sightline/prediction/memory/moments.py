"""The moments of a step at which a device may be fullest, and what PyTorch holds in addition to their tensors.

A step's memory swings: activations pile up until the loss, whose logits come in several copies; then each layer's
backward pass gathers parameters, recomputes and makes gradients while activations go; the update has temporaries of
its own. Only the fullest moment has to fit.

What an allocator has reserved is not what a step needs: blocks that nobody uses are given back before it fails. It is
what frameworks log, though (``max_memory_reserved``). Sources: PyTorch's CUDA caching allocator (a pool of blocks for
each stream), torch.distributed.pipelining and torch.distributed.fsdp of 2024 and 2025.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sightline.prediction.training.stages import StageContents
from sightline.program import Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, added_up, anywhere, either, larger, plain
from sightline.scenario import Plan, Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """What comes and goes, in bytes per device, at one moment of a step."""

    name: str
    gradients: Number
    activations: tuple[Number, ...]
    """Summands."""
    buffers: tuple[Number, ...]
    """Summands: gathered parameters and temporaries."""

    @property
    def terms(self) -> tuple[Number, ...]:
        """Summands of all of it."""
        return (self.gradients, *self.activations, *self.buffers)

    @property
    def total(self) -> Number:
        """All of it."""
        return added_up(self.terms)


def fullest_moment(moments: Sequence[Moment]) -> dict[str, Number]:
    """Return gradients, activations and buffers at the moment with the largest total, plan by plan."""
    parts = [
        {"gradients": m.gradients, "activations": added_up(m.activations), "buffers": added_up(m.buffers)}
        for m in moments
    ]
    best, most = parts[0], added_up(parts[0].values())
    for moment in parts[1:]:
        total = added_up(moment.values())
        fuller = total > most
        if not anywhere(fuller):
            continue
        most = larger(most, total)
        best = {name: plain(either(fuller, size, best[name])) for name, size in moment.items()}
    return best


RESERVED = "reserved beyond the fullest moment"
"""Item of a stage's memory."""


def collected(scenario: Scenario, program: Program, stage: StageContents, in_flight: Number) -> Number:
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
    logits = stage.head * m * ELEMENT_BYTES[plan.wide_dtype] * program.head.logits
    return (plan.pipeline_parallel > 1) * (received * buffers + logits)


def reserved_beyond(
    plan: Plan, moments: Sequence[Moment], *, layer: Number, gathered: Number, reduced: Number
) -> Number:
    """Return the bytes that the allocator has reserved beyond the fullest of ``moments``.

    The first is the loss: its tensors are longer than any of a layer, whose temporaries (``layer`` bytes of them) left
    gaps between saved activations that are too short for them, so both are reserved. Parameters arrive in flat buffers
    on a stream of their own, for as many units as are there at once (``gathered``), and reduced gradients leave on
    another (``reduced`` bytes of them in addition to whole ones).
    """
    if not plan.framework.allocation.apart_streams:
        return 0.0
    loss, *others = [moment.total for moment in moments]
    grown = reduce(larger, [loss + layer, *others]) - reduce(larger, [loss, *others])
    sharded = (plan.replicas > 1) & (plan.zero_stage >= 2)
    return grown + sharded * (gathered + reduced)
