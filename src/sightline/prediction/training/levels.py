"""Seconds of a step by the level of the machine that binds them: compute, dram, l2, network or host.

They sum to the step. Exposed communication is the network's. Time in which communication and work overlap belongs to
the longer of the two: work behind collectives and messages that outlast it is the network's, for faster kernels would
only expose more of them. A device that waits for other devices - in the pipeline's bubble, for the slowest one, for the
longest samples - waits for their passes, so its seconds are split as a micro-batch's are.
"""

from collections.abc import Iterator, Sequence

from sightline.prediction.levels import multiple, streaming_level, summed, work_by_level
from sightline.prediction.schedules.closed_forms import outlasted_passes_s
from sightline.prediction.training.micro_batch import outlasted_work
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.step import StepTimes
from sightline.program import Operator
from sightline.quantities import Number, larger, smaller

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
    passes, phases = _levels_of_passes(priced, times), times.phases
    slot = summed(*passes)
    others_s = times.longest_samples_s + times.slowest_device_s
    waiting_s = phases["pipeline_bubble"] + others_s
    slot_s = sum(slot.values())
    outside = {
        "network": phases["communication_exposed"] - _collectives_s(times) - others_s,
        "host": phases["host"] - slot["host"] + times.offload.update_s,
    }
    forward, backward, code = passes
    replicas, pace = times.data_parallel, times.slots.slot
    return summed(
        _outlasted(forward, replicas.forward.outlasted_s + _behind_messages_s(priced, times, pace.forward_s)),
        _outlasted(backward, replicas.backward.outlasted_s + _behind_messages_s(priced, times, pace.backward_s)),
        code,
        multiple(slot, waiting_s / slot_s),
        _update(priced, times),
        outside,
    )


def levels_of_slot(priced: Priced, times: StepTimes) -> dict[str, Number]:
    """Return the seconds of all micro-batches on the pace-setting stage by level, without what is outside of them."""
    return summed(*_levels_of_passes(priced, times))


def _levels_of_passes(priced: Priced, times: StepTimes) -> tuple[dict[str, Number], ...]:
    """Forward passes, backward passes with recomputation, and the framework's code, of all micro-batches."""
    work: dict[bool, list[dict[str, Number]]] = {True: [], False: []}
    for phase, _, count, operators in passes_of(priced, times):
        if phase != OPTIMIZER:
            work[phase == "forward"].append(multiple(_pass(priced, phase, operators), count))
    slot, m = times.slots.slot, times.micro_batches
    again_s = slot.recompute.collective_s + slot.backward.collective_s
    return (
        summed(*work[True], {"network": m * slot.forward.collective_s, "host": m * slot.forward_wait_s}),
        summed(*work[False], {"network": m * again_s, "host": m * slot.backward_wait_s}),
        {"host": m * priced.constants.micro_batch_s},
    )


def _collectives_s(times: StepTimes) -> Number:
    """Exposed seconds of collectives in all passes."""
    slot = times.slots.slot
    return times.micro_batches * (slot.forward.collective_s + slot.recompute.collective_s + slot.backward.collective_s)


def _pass(priced: Priced, phase: str, operators: Sequence[Operator]) -> dict[str, Number]:
    """Return the seconds of a block's work by level; what collectives outlast is the network's."""
    prices, model = priced.prices, priced.device_model
    work = work_by_level(operators, prices, model)
    found = outlasted_work(operators, prices, priced.overlap, backward=phase == "backward")
    if not found:
        return work
    hidden = {name: multiple(work_by_level(ops, prices, model), 1.0 * longer) for name, (ops, longer) in found.items()}
    # Tokens overlap with all work, and so with what other collectives overlap with.
    everything = hidden.pop("micro-batch", {})
    parts = summed(*hidden.values())
    moved = {level: larger(parts[level], everything.get(level, 0.0)) for level in work}
    return {level: seconds - moved[level] for level, seconds in work.items()} | {"network": sum(moved.values())}


def _behind_messages_s(priced: Priced, times: StepTimes, pass_s: Number) -> Number:
    """Seconds of passes behind messages between stages that outlast them."""
    plan = priced.scenario.plan
    p, v = plan.pipeline_parallel, plan.virtual_stages
    return outlasted_passes_s(times.pipeline.overlapped_s, pass_s, p, times.micro_batches, v)


def _outlasted(levels: dict[str, Number], outlasted_s: Number) -> dict[str, Number]:
    """Return the levels of passes of which so many seconds, all at most, run behind transfers that outlast them."""
    whole_s = sum(levels.values())
    moved_s = smaller(outlasted_s, whole_s)
    return summed(multiple(levels, 1.0 - moved_s / larger(whole_s, 1e-30)), {"network": moved_s})


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
