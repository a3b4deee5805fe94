"""A training step put together: block times into stages, stages into a pipeline, and what happens once per step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.cost.prices import Prices, Ranks
from sightline.cost.prices import price as price_operators
from sightline.prediction.pass_times import seconds_of
from sightline.prediction.schedules.closed_forms import (
    PipelineTime,
    dualpipe_bubble_s,
    overlapped_transfers,
    pipeline_time,
    stage_replicas,
)
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.data_parallel import (
    DataParallelTime,
    Replica,
    Replication,
    data_parallel_time,
    replication,
)
from sightline.prediction.training.knowledge import in_framework, training_groups
from sightline.prediction.training.micro_batch import PipelineSlots, Slot, pipeline_slots, run_apart_s, slots_of
from sightline.prediction.training.offload import OffloadTime, offload_time
from sightline.prediction.training.priced import Priced, with_constants
from sightline.prediction.training.stages import DenseAndExperts, Sizes, StageContents, layer_sum
from sightline.prediction.training.states import StateShares, rank_share, state_shares
from sightline.prediction.training.update import UpdateTime, step_of_optimizer, tensor_calls_s, trained_tensors
from sightline.profile import REFERENCE
from sightline.program import Block, FlashAttention, Operator, Program
from sightline.program.operators import collective
from sightline.program.routing import largest_of
from sightline.quantities import Count, Number, added_up, anywhere, either, larger, smaller
from sightline.scenario import Cluster, Scenario

DEVICE_SPREAD = 0.01
"""Relative deviation of the time that equal devices take for the same work: leakage and cooling set each one's clock.

Published: 9 % between the fastest and the slowest of 64,000 GPUs in training (PRISM, arXiv 2510.15596), which are 8.7
deviations of a normal variable, so 1.0 %; 8 % between the ends of a box plot's whiskers on five clusters of V100 and
MI60 (arXiv 2208.11035), which are 5.4 deviations, so 1.5 %; 0.4 % from one group of four tensor-parallel ranks to the
next in two traces of training (arXiv 2505.05713, its artifact), so 0.6 % of a device. Estimated from the three.
"""


def for_slowest_device_s(devices: Count, slot: Slot, micro_batches: Number, *, blocking: bool = False) -> Number:
    """Return the seconds by which a step on ``devices`` outlasts that of the mean device; exactly 0 for one.

    ``m max(s c(n) w - h, 0)``: in each of ``m`` micro-batches the slowest device lags by ``s c(n)`` of its work ``w``,
    less the time ``h`` that devices wait for their hosts, which is nobody's gain where launches are ``blocking``. A
    device is slow throughout, so it does not matter where the others meet it: in the collectives of its tensor-parallel
    group, as the next stage of a pipeline, or in the reduction of gradients. Its delay is handed on from there and
    shows once in the step. Left out: machines far out of line, which are taken out of a run (0.5 % of them, 10 %
    slower, in arXiv 2402.15627), slow phases that last minutes, and scatter from one micro-batch to the next, most of
    which comes from the samples.
    """
    behind = DEVICE_SPREAD * (
        largest_of(devices.astype(float)) if isinstance(devices, np.ndarray) else _largest_of(devices)
    )
    hidden_s = 0.0 if blocking else slot.forward_wait_s + slot.backward_wait_s
    work_s = slot.forward.work_s + slot.recompute.work_s + slot.backward.work_s
    return micro_batches * larger(behind * work_s - hidden_s, 0.0)


@lru_cache(maxsize=256)
def _largest_of(devices: float) -> float:
    return float(largest_of(devices))


def for_longest_samples_s(
    scenario: Scenario, program: Program, prices: Prices, stage: StageContents, slot_s: Number, micro_batches: Number
) -> Number:
    """Return the seconds by which the slowest replica's step is expected to outlast the mean one's.

    ``slot_s`` is a micro-batch on the pace-setting ``stage``. Work that scatters by a relative deviation from row to
    row does so by 1 / sqrt(n) of it over the n rows (packed) or micro-batches (padded) of a replica's step; the largest
    of d such sums lies a few deviations up. All of a padded micro-batch scatters, of packed rows only attention does.
    Left out: that micro-batches of different length lengthen a pipeline's bubble, and batches sorted by length.
    """
    workload, plan = scenario.workload, scenario.plan
    if workload.lengths is None:
        return 0.0
    spread = workload.rows(plan.sequences).spread
    work_s, drawn = slot_s, micro_batches
    if workload.packing:
        work_s = layer_sum(stage, [_attention_s(block, prices) for block in program.layers])
        drawn = micro_batches * plan.sequences
    deviations = largest_of(np.asarray(plan.data_parallel, dtype=float))
    return deviations * spread / np.sqrt(drawn) * micro_batches * work_s


def _attention_s(block: Block, prices: Prices) -> Number:
    """Seconds of a layer's fused attention in all passes; kernels that write scores work on whole rows."""
    once, again = (
        seconds_of([op for op in operators if isinstance(op, FlashAttention)], prices)
        for operators in ((*block.forward, *block.backward), block.recomputed)
    )
    return once + block.recomputed_share * again


@record
class StepTimes:
    """Seconds of a step by what happens in them, and what the other answers (memory, table, trace) need."""

    slots: PipelineSlots
    on: Replication
    """Where replicas run."""
    sent: "Sent"
    """What stages hand to each other."""
    stage_sizes: Sequence[Sizes]
    """Parameters and bytes of the stages of ``slots``."""
    shares: StateShares
    micro_batches: Number
    host_s: Number
    """Seconds per step that the device waits for the host."""
    tensor_calls_s: Number
    """Part of them in loops over trained tensors."""
    forward_pass_s: Number
    """A micro-batch's forward pass on the first stage, with the host's time per micro-batch."""
    pipeline: PipelineTime
    data_parallel: DataParallelTime
    tied_embedding_s: Number
    """Summing a shared table's gradients between the first and the last stage."""
    longest_samples_s: Number
    """Waiting for the replica with the longest samples."""
    slowest_device_s: Number
    """Waiting for the slowest device."""
    offload: OffloadTime
    update: UpdateTime

    @property
    def slot_s(self) -> dict[str, tuple[Number, Number, Number]]:
        """Seconds of a micro-batch by stage: forward, backward, weight gradients in it.

        Data and loss count as forward, recomputation as backward.
        """
        pairs = zip(self.slots.stages, self.slots.slots, strict=True)
        return {stage.name: (slot.forward_s + slot.code_s, slot.backward_s, slot.weight_s) for stage, slot in pairs}

    @property
    def terms_of_phases(self) -> dict[str, tuple[Number, ...]]:
        """The summands of each phase."""
        m, slot = self.micro_batches, self.slots.slot
        collective_s = slot.forward.collective_s + slot.recompute.collective_s + slot.backward.collective_s
        reference_s = slot.reference.work_s
        reference = {REFERENCE: (m * reference_s,)} if anywhere(slot.reference.launches) else {}
        return {
            "forward": (m * (slot.forward.work_s - reference_s),),
            **reference,
            "backward": (m * slot.backward.work_s,),
            "recompute": (m * slot.recompute.work_s,),
            "optimizer": (self.update.update_s, self.offload.update_s),
            "communication_exposed": (
                m * collective_s,
                self.pipeline.transfer_s,
                self.data_parallel.exposed_s,
                self.tied_embedding_s,
                self.update.gather_s,
                self.longest_samples_s,
                self.slowest_device_s,
                self.offload.exposed_s,
            ),
            "pipeline_bubble": (self.pipeline.bubble_s,),
            "host": (self.host_s,),
        }

    @property
    def phases(self) -> Mapping[str, Number]:
        """Seconds by phase; they sum to the step."""
        return {name: added_up(terms) for name, terms in self.terms_of_phases.items()}

    @property
    def step_time_s(self) -> Number:
        """All of it."""
        return added_up(self.terms)

    @property
    def terms(self) -> list[Number]:
        """Summands of the step."""
        return [term for terms in self.terms_of_phases.values() for term in terms]


def step_times(
    priced: Priced,
    slots: PipelineSlots | None = None,
    on: Replication | None = None,
    boundary: Cluster | None = None,
    like: StepTimes | None = None,
) -> StepTimes:
    """Assemble the step of ``priced``; the plan's degrees may be an open mesh.

    Its pipeline's stages are those that the framework makes, its replicas and stages joined by the cluster's links,
    unless other ``slots``, replicas (``on``) or links at a stage's ``boundary`` are given. What no constant changes is
    that of a step ``like`` it with others.
    """
    scenario, constants = priced.scenario, priced.constants
    plan, forward_passes = scenario.plan, 1 + scenario.workload.passes_without_gradient
    m = scenario.micro_batches
    slots = slots or pipeline_slots(scenario, priced.times, priced.launches)
    slot, slowest = slots.slot, slots.slowest
    sizes = [priced.sizes.of(stage) for stage in slots.stages] if like is None else like.stage_sizes
    pace_sizes = next((s for stage, s in zip(slots.stages, sizes, strict=True) if stage is slowest), None)
    pace_sizes = pace_sizes or priced.sizes.of(slowest)
    shares = state_shares(plan) if like is None else like.shares
    parameters, stored = _most([size.trained for size in sizes]), _most([size.stored for size in sizes])
    on = on or replication(plan, scenario.cluster, priced.library, constants, priced.device_model)
    sent = _sent(priced, boundary or scenario.cluster) if like is None else like.sent
    tensors = trained_tensors(scenario, slowest.layers)
    loops_s = tensor_calls_s(plan, priced.device_model, tensors, m, priced.launches.forward_s)
    host_s = m * (slot.forward_wait_s + slot.backward_wait_s + slot.code_s) + constants.step_s
    data_parallel = _between_replicas(priced, slots, m, parameters, stored, on)
    offload = offload_time(
        plan,
        scenario.cluster,
        slot,
        m,
        parameters=shares.per_rank.of(parameters),
        weight_bytes=rank_share(plan, plan.zero_stage >= 3).of(stored),
        activation_bytes=layer_sum(slowest, priced.sizes.saved_bytes),
        replicas_s=data_parallel.exposed_s,
        without_gradient=scenario.workload.passes_without_gradient,
    )
    return StepTimes(
        slots=slots,
        on=on,
        sent=sent,
        stage_sizes=sizes,
        shares=shares,
        micro_batches=m,
        host_s=host_s + loops_s,
        tensor_calls_s=loops_s,
        forward_pass_s=slots.slots[0].forward_s / forward_passes + slots.slots[0].code_s,
        pipeline=_pipeline(priced, slots, m, sent.seconds(sent.activations, priced), data_parallel),
        data_parallel=data_parallel,
        tied_embedding_s=sent.seconds(sent.table, priced),
        longest_samples_s=for_longest_samples_s(
            scenario, priced.program, priced.prices, slowest, slot.total_s - slot.code_s, m
        ),
        slowest_device_s=_slowest_device_s(priced, slot, m),
        offload=offload,
        update=step_of_optimizer(priced, shares, slowest, pace_sizes, parameters, on.ranks[0].sharding),
    )


def _most(sizes: Sequence[DenseAndExperts]) -> DenseAndExperts:
    """The largest of each part over the stages, plan by plan."""
    return DenseAndExperts(*(reduce(larger, column) for column in zip(*sizes, strict=True)))


def step_with_constants(priced: Priced, times: StepTimes, constants: TrainingConstants) -> StepTimes:
    """Return the step of one plan, whose own ``times`` are known, with other constants."""
    priced = with_constants(priced, constants)
    slots = slots_of(times.slots.stages, times.slots.counts, priced.times, priced.launches)
    on = replace(times.on, constants=priced.constants, device_model=priced.device_model)
    return step_times(priced, slots, on, like=times)


def _pipeline(
    priced: Priced, slots: PipelineSlots, m: Number, message_s: Number, replicas: DataParallelTime
) -> PipelineTime:
    """Seconds of all micro-batches on the pipeline, those of the pace-setting stage's passes included.

    A message hides behind a chunk's pass and behind what replicas' transfers lengthen it by.
    """
    scenario, plan, slot = priced.scenario, priced.scenario.plan, slots.slot
    p, v = plan.pipeline_parallel, plan.virtual_stages
    if plan.both_ways:
        sent_s = 2.0 * m * message_s * (p > 1) if plan.launch_blocking else 0.0
        idle_s = dualpipe_bubble_s(slot.backward_s, slot.weight_s, slot.total_s, p)
        return PipelineTime(work_s=m * slot.total_s, transfer_s=sent_s, bubble_s=idle_s)
    # Plain 1F1B waits for each activation; only interleaving leaves other chunks to work on meanwhile.
    hidden = (v > 1) & plan.overlap.pipeline
    blocking_s = either(hidden, 0.0, message_s)
    time = pipeline_time(slot.total_s, slots.through_s, p, m, v, blocking_s, run_apart_s(slots, scenario, m))
    if not anywhere(hidden):
        return time
    overlapped_s = either(hidden, message_s, 0.0)
    forward_s, backward_s = (
        slot.forward_s + replicas.forward.exposed_s / m,
        slot.backward_s + replicas.backward.exposed_s / m,
    )
    sent_s, filling_s = overlapped_transfers(overlapped_s, forward_s, backward_s, p, m, v)
    return time._replace(
        transfer_s=time.transfer_s + sent_s, bubble_s=time.bubble_s + filling_s, overlapped_s=overlapped_s
    )


def _between_replicas(
    priced: Priced,
    slots: PipelineSlots,
    m: Number,
    parameters: DenseAndExperts,
    stored: DenseAndExperts,
    on: Replication,
) -> DataParallelTime:
    """What data parallelism adds, of the largest parameters of any stage and the passes of the pace-setting one.

    Interleaving takes micro-batches through its chunks of layers in groups of as many as there are stages, so a chunk's
    weights are not needed, and its gradients are whole, while a group passes the ``v - 1`` other chunks.
    """
    plan = priced.scenario.plan
    copies, p, v = stage_replicas(plan), plan.pipeline_parallel, plan.virtual_stages
    outside_layers = reduce(larger, [priced.sizes.embedding_and_head_bytes(stage) for stage in slots.stages])

    replica = Replica(
        parameters=parameters.times(copies),
        stored_bytes=stored.times(copies),
        embedding_and_head_bytes=outside_layers * copies,
        layers=slots.slowest.layers,
        forward_s=slots.slot.forward_s / (1 + priced.scenario.workload.passes_without_gradient),
        backward_s=slots.slot.backward_s,
        micro_batches=m,
        passes=larger(smaller(p, m) * (v - 1) / v, 1.0) if plan.overlap.interleaved_groups else 1.0,
        forward_passes=1.0 + priced.scenario.workload.passes_without_gradient,
    )
    return data_parallel_time(replica, on)


def _slowest_device_s(priced: Priced, slot: Slot, m: Number) -> Number:
    """Seconds of waiting for the slowest device; ideal devices and a processor's processes do not differ."""
    alike = not priced.device_model.asynchronous or priced.scenario.plan.framework.is_bound
    devices = 1 if alike else priced.scenario.cluster.devices
    return for_slowest_device_s(devices, slot, m, blocking=priced.scenario.plan.launch_blocking)


class Sent(NamedTuple):
    """What a stage hands to its neighbour over the links at their boundary, and its prices alone."""

    scenario: Scenario
    activations: Sequence[Operator]
    """Of one micro-batch; each tensor-parallel rank sends its share."""
    table: Sequence[Operator]
    """The shared table's gradients, summed once per step between the first and the last stage; none of a frozen one."""
    alone: Prices

    def seconds(self, operators: Sequence[Operator], priced: Priced) -> Number:
        """Return the seconds of handing over activations of a micro-batch, or of summing the table's gradients."""
        if not operators:
            return 0.0
        prices = in_framework(operators, self.alone, self.scenario, priced.constants, priced.device_model)
        return seconds_of(operators, prices)


def _sent(priced: Priced, boundary: Cluster) -> Sent:
    """What stages hand to each other; nothing without a pipeline."""
    scenario, plan = priced.scenario, priced.scenario.plan
    pipelined: Any = plan.pipeline_parallel > 1
    if not anywhere(pipelined):
        return Sent(scenario, (), (), {})
    table: Sequence[Operator] = ()
    if scenario.model.tied_embeddings or plan.prediction_layers > 0:
        trained = priced.program.embedding.trained_parameters
        size = trained * plan.framework.sharding.gradient_reduce_bytes[plan.high_precision_dtype]
        table = collective("embedding", "send_recv", size, pipelined * (size > 0.0), ranks="stages")
    scenario = scenario if boundary is scenario.cluster else replace(scenario, cluster=boundary)
    ranks = Ranks(
        device_model=priced.device_model, cluster=boundary, library=priced.library, group=training_groups(scenario)
    )
    activations = priced.program.boundary
    return Sent(scenario, activations, table, price_operators((*activations, *table), ranks))
