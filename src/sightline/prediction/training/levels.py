"""Seconds of a step by the level of the machine that binds them: compute, dram, l2, network or host.

They sum to the step. Exposed communication is the network's. A device that waits for other devices - in the pipeline's
bubble, for the slowest one, for the longest samples - waits for their passes, so its seconds are split as a
micro-batch's are.
"""

from collections.abc import Iterator, Sequence

from sightline.prediction.levels import multiple, streaming_level, summed, work_by_level
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.step import StepTimes
from sightline.program import Operator
from sightline.quantities import Number, larger

OPTIMIZER = "optimizer"


def passes_of(priced: Priced, times: StepTimes) -> Iterator[tuple[str, str, Number, Sequence[Operator]]]:
    """Yield phase, block, executions in a step and operators of each pass on the pace-setting stage."""
    stage, m = times.slots.slowest, times.micro_batches
    for block, count in zip(priced.program.blocks, [stage.embedding, *stage.kinds, stage.head], strict=True):
        yield "forward", block.name, m * count, block.forward
        yield "recompute", block.name, m * count * block.recomputed_share, block.recomputed
        yield "backward", block.name, m * count, block.backward
        yield OPTIMIZER, block.name, count * times.update.share, block.update


def levels_of(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """Return the seconds of a step by level (``LEVELS``)."""
    slot, phases = levels_of_slot(priced, times), times.phases
    waiting_s = phases["pipeline_bubble"] + times.longest_samples_s + times.slowest_device_s
    slot_s = sum(slot.values())
    outside = {
        "network": phases["communication_exposed"] - slot["network"] - times.longest_samples_s - times.slowest_device_s,
        "host": phases["host"] - slot["host"] + times.offload.update_s,
    }
    return summed(slot, multiple(slot, waiting_s / slot_s), _update(priced, times), outside)


def levels_of_slot(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """Return the seconds of all micro-batches on the pace-setting stage by level, without what is outside of them."""
    work = [
        multiple(work_by_level(operators, priced.prices, priced.device_model), count)
        for phase, _, count, operators in passes_of(priced, times)
        if phase != OPTIMIZER
    ]
    slot, m = times.slots.slot, times.micro_batches
    collective_s = slot.forward.collective_s + slot.recompute.collective_s + slot.backward.collective_s
    waits_s = slot.forward_wait_s + slot.backward_wait_s + priced.constants.micro_batch_s
    return summed(*work, {"network": m * collective_s, "host": m * waits_s})


def level_of_update(priced: Priced) -> str:
    """Return what binds the optimizer's element-wise kernels, of plain numbers."""
    return "l2" if streaming_level(priced.device_model) else "dram"


def _update(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """The optimizer's step on the device: its operators, at the pace of the rank that has most, and its kernels."""
    update = times.update
    rest_s, beyond = update.update_s - update.operators_s, streaming_level(priced.device_model)
    kernels = {"dram": rest_s * (1.0 - beyond), "l2": rest_s * beyond}
    work = summed(
        *(
            multiple(work_by_level(operators, priced.prices, priced.device_model), count)
            for phase, _, count, operators in passes_of(priced, times)
            if phase == OPTIMIZER and operators
        )
    )
    slower = update.operators_s / larger(sum(work.values()), 1e-30)
    return summed(kernels, multiple(work, slower))
