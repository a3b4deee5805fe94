"""A training step put together: block times into stages, stages into a pipeline, and what happens once per step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.collectives.groups import pipeline_boundary
from sightline.cost.families import evidence_of, family_of, training_family
from sightline.cost.pricing import Prices, price_program
from sightline.cost.processor.constants import processor_constants
from sightline.cost.training_constants import TrainingConstants, load_training
from sightline.prediction.block_times import BlockTimes, Overlap, PassTimes, block_times
from sightline.prediction.data_parallel import DataParallelTime, data_parallel_time, ranks_of
from sightline.prediction.dualpipe import bubble_s, copies_in_pipeline
from sightline.prediction.movement import Replica
from sightline.prediction.offload import OffloadTime, Share, offload_time
from sightline.prediction.schedules import (
    PipelineTime,
    pipeline_time,
    run_apart,
)
from sightline.prediction.shared import Shared
from sightline.prediction.stages import (
    StageContents,
    end_bytes,
    layer_sum,
    stage_contents,
    stage_sum,
    stored_bytes,
    trained_parameters,
)
from sightline.prediction.update import UpdateTime, step_of_optimizer
from sightline.prediction.waiting import waiting_s
from sightline.program import Program, write_out
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Count, Number, added_up
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """A program with prices: everything that does not depend on pipeline, ZeRO or the number of micro-batches."""

    scenario: Scenario
    program: Program
    constants: TrainingConstants
    evidence: str
    prices: Prices
    overlap: Overlap
    embedding: BlockTimes
    layers: tuple[BlockTimes, ...]
    """Of each kind."""
    head: BlockTimes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """Seconds of a step by phase, and what the other answers (memory, table, trace) need."""

    phases: dict[str, Number]
    stages: tuple[StageContents, StageContents, StageContents]
    slot_s: dict[str, tuple[Number, Number, Number]]
    """Seconds of a micro-batch by stage: forward, backward (with recomputation), weight gradients in it."""
    forward_pass_s: Number
    """A micro-batch's forward pass on the first stage, with the host's time per micro-batch."""
    slowest: StageContents
    """Contents of the pace-setting stage."""
    micro_batches: Number
    pipeline: PipelineTime
    data_parallel: DataParallelTime
    tied_embedding_s: Number
    """Summing a shared table's gradients between the first and the last stage."""
    waiting_s: Number
    """Waiting for the replica with the longest samples."""
    offload: OffloadTime
    update: UpdateTime

    @property
    def step_time_s(self) -> Number:
        """The phases' sum."""
        return added_up(self.phases.values())


def price(scenario: Scenario, constants: TrainingConstants | None = None) -> Priced:
    """Write the scenario's micro-batch out and price its operators, with the catalog's constants unless some are given."""
    framework, device = scenario.plan.framework, scenario.cluster.device
    evidence = "given"
    if constants is None:
        family = training_family(device, framework.name)
        constants, evidence = load_training(family, framework.name, framework.version)
        if evidence == "calibrated" and family == family_of(device, "training"):
            evidence = evidence_of(device, "training")
        elif evidence == "calibrated":
            evidence = "extrapolated"
    program = write_out(scenario)
    prices = price_program(program, scenario, constants)
    own = scenario.cluster.host.launch_time_s
    launches = (constants.launch_forward_s, constants.launch_backward_s) if own is None else (own, own)
    overlap = Overlap(
        kind=scenario.plan.tensor_overlap or framework.overlap.tensor,
        chunks=scenario.plan.tensor_parallel * 1.0,
        slowdown=constants.overlap_slowdown,
        experts=scenario.plan.expert_overlap or scenario.plan.schedule == "dualpipe",
        counts=framework.transformer_engine.waits_for_counts and scenario.plan.expert_capacity == 0,
    )
    embedding, *layers, head = (block_times(block, prices, *launches, overlap) for block in program.blocks)
    return Priced(
        scenario=scenario,
        program=program,
        constants=constants,
        evidence=evidence,
        prices=prices,
        overlap=overlap,
        embedding=embedding,
        layers=tuple(layers),
        head=head,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Slot:
    """One micro-batch on one stage."""

    forward: PassTimes
    recompute: PassTimes
    backward: PassTimes
    weight_s: Number
    """Part of the backward pass that makes weight gradients."""

    @property
    def forward_s(self) -> Number:
        return self.forward.total_s

    @property
    def backward_s(self) -> Number:
        return (self.recompute + self.backward).total_s

    @property
    def total_s(self) -> Number:
        return self.forward_s + self.backward_s


def _slot(priced: Priced, stage: StageContents) -> _Slot:
    counted = list(
        zip((*stage.kinds, stage.embedding, stage.head), (*priced.layers, priced.embedding, priced.head), strict=True)
    )

    def passes(of: Callable[[BlockTimes], PassTimes]) -> PassTimes:
        return reduce(add, [of(block) * count for count, block in counted])

    return _Slot(
        forward=passes(lambda block: block.forward),
        recompute=passes(lambda block: block.recompute),
        backward=passes(lambda block: block.backward),
        weight_s=sum(block.weight_s * count for count, block in counted),
    )


def _most(values: Sequence[Number]) -> Number:
    """The largest of several numbers, plan by plan."""
    return reduce(np.maximum, values)


def _most_shared(values: Sequence[Shared]) -> Shared:
    """The largest of each part, plan by plan."""
    return Shared(common=_most([v.common for v in values]), experts=_most([v.experts for v in values]))


def _layers(scenario: Scenario) -> int:
    """Layers of all stages together."""
    return scenario.model.layers + scenario.plan.prediction_layers


def _through_s(layers: int, stages: tuple[StageContents, ...], totals: list[Number]) -> Number:
    """Seconds of one micro-batch through all stages; the middle stages share the layers the ends leave."""
    first, middle, last = stages
    between = layers - first.layers - last.layers
    return totals[0] + totals[1] * between / np.maximum(middle.layers, 1) + totals[2]


def _slowest(stages: tuple[StageContents, ...], totals: list[Number]) -> StageContents:
    """Contents of the stage with the longest slot."""
    best, contents = totals[0], stages[0]
    for stage, total in zip(stages[1:], totals[1:], strict=True):
        longer = np.asarray(total > best)
        if not longer.any():
            continue
        contents = StageContents(
            name="slowest",
            kinds=tuple(np.where(longer, a, b) for a, b in zip(stage.kinds, contents.kinds, strict=True)),
            **{
                name: np.where(longer, getattr(stage, name), getattr(contents, name))
                for name in ("embedding", "head", "tied_copy", "in_flight")
            },
        )
        best = np.maximum(best, total)
    return contents


def step_times(priced: Priced) -> StepTimes:
    """Assemble the step of ``priced``; the plan's degrees may be an open mesh."""
    scenario, c = priced.scenario, priced.constants
    plan, cluster, workload = scenario.plan, scenario.cluster, scenario.workload
    p, v = plan.pipeline_parallel, plan.virtual_stages
    m = np.ceil(workload.global_batch / (plan.data_parallel * plan.sequences))
    stages = stage_contents(scenario, m)
    slots = [_slot(priced, stage) for stage in stages]
    totals = [slot.total_s for slot in slots]
    transfer_s = _transfer_s(priced)
    # Plain 1F1B waits for each activation; only interleaving leaves other chunks to work on meanwhile.
    hidden = plan.framework.overlap.pipeline & (np.asarray(v) > 1)
    shown_transfer_s = np.where(hidden, 0.0, transfer_s)
    slowest = _slowest(stages, totals)
    slot = _slot(priced, slowest)
    through_s = _through_s(_layers(scenario), stages, totals)
    apart_s = _run_apart_s(scenario, stages, slots, slot, m)
    if plan.schedule == "dualpipe":
        idle_s = bubble_s(slot.backward_s, slot.weight_s, slot.total_s, p)
        pipeline = PipelineTime(total_s=m * slot.total_s + idle_s, transfer_s=0.0, bubble_s=idle_s)
    else:
        pipeline = pipeline_time(slot.total_s, through_s, p, m, v, shown_transfer_s, apart_s)

    parameters = _most_shared([trained_parameters(priced.program, stage) for stage in stages])
    narrow = ELEMENT_BYTES[plan.wide_dtype]
    stored = _most_shared([stored_bytes(priced.program, stage, narrow) for stage in stages])
    # Copies of weights in few bits are made anew.
    casts = stage_sum(priced.program, slowest, lambda block: block.narrow.cast_bytes)
    update = step_of_optimizer(scenario, priced.program, priced.prices, c, slowest, parameters, casts)
    twice = copies_in_pipeline(plan)
    beside = _passes_beside(p, v, m) if plan.framework.overlap.interleaved_groups else 1.0
    replica = Replica(
        parameters=parameters * twice,
        stored_bytes=stored * twice,
        end_bytes=twice * _most([end_bytes(priced.program, stage, narrow) for stage in stages]),
        layers=slowest.layers,
        forward_s=slot.forward_s * beside,
        backward_s=slot.backward_s * beside,
        micro_batches=m,
    )
    library = cluster_collectives(cluster)
    ranks, expert_ranks = ranks_of(plan, cluster)
    replicas = data_parallel_time(
        replica,
        plan,
        ranks=ranks,
        expert_ranks=expert_ranks,
        cluster=cluster,
        library=library,
        constants=c,
        machine=processor_constants(cluster.device, plan.dtype),
    )
    tied_s = _tied_embedding_s(priced)
    zero = np.asarray(plan.zero_stage)
    share = Share(
        parameters=parameters.shared(plan, zero >= 1),
        weight_bytes=stored.shared(plan, zero >= 3),
        activation_bytes=layer_sum(priced.program, slowest, lambda block: block.saved_bytes),
        forward_s=slot.forward_s,
        backward_s=slot.backward_s,
        micro_batches=m,
    )
    offloaded = offload_time(share, plan, cluster)
    again = slot.recompute + slot.backward
    waited_s = waiting_s(scenario, priced.program, priced.prices, slowest, slot.total_s, m)
    phases = {
        "forward": m * slot.forward.work_s,
        "backward": m * slot.backward.work_s,
        "recompute": m * slot.recompute.work_s,
        "optimizer": update.update_s + offloaded.update_s,
        "communication_exposed": added_up(
            (
                m * (slot.forward.collective_s + again.collective_s),
                pipeline.transfer_s,
                replicas.exposed_s,
                tied_s,
                update.gather_s,
                waited_s,
                offloaded.exposed_s,
            )
        ),
        "pipeline_bubble": pipeline.bubble_s,
        "host": m * (slot.forward.wait_s + again.wait_s + c.micro_batch_s) + c.step_s,
    }
    return StepTimes(
        phases=phases,
        stages=stages,
        slot_s={s.name: (x.forward_s, x.backward_s, x.weight_s) for s, x in zip(stages, slots, strict=True)},
        forward_pass_s=slots[0].forward_s + c.micro_batch_s,
        slowest=slowest,
        micro_batches=m,
        pipeline=pipeline,
        data_parallel=replicas,
        tied_embedding_s=tied_s,
        waiting_s=waited_s,
        offload=offloaded,
        update=update,
    )


def _passes_beside(stages: Count, virtual_stages: Count, micro_batches: Number) -> Number:
    """Micro-batches whose passes a replica's transfers may run beside.

    Interleaving takes micro-batches through its chunks of layers in groups of as many as there are stages, so a
    chunk's weights are not needed, and its gradients are whole, while a whole group passes the other chunks.
    """
    return np.where(np.asarray(virtual_stages) > 1, np.minimum(stages, micro_batches), 1.0)


def _run_apart_s(
    scenario: Scenario, stages: tuple[StageContents, ...], slots: Sequence[_Slot], slowest: _Slot, micro_batches: Number
) -> Number:
    """Seconds of the other stages that zero bubble keeps off a micro-batch's way; 0 under other schedules."""
    if scenario.plan.schedule != "zero-bubble":
        return 0.0

    def others(of: Callable[[_Slot], Number]) -> Number:
        return _through_s(_layers(scenario), stages, [of(slot) for slot in slots]) - of(slowest)

    return run_apart(
        others(lambda slot: slot.weight_s),
        others(lambda slot: slot.forward_s),
        others(lambda slot: slot.backward_s - slot.weight_s),
        scenario.plan.pipeline_parallel,
        micro_batches,
    )


def _transfer_s(priced: Priced) -> Number:
    """Seconds to hand one micro-batch's activation to the next stage; each tensor-parallel rank sends its share."""
    scenario = priced.scenario
    plan, cluster = scenario.plan, scenario.cluster
    if not np.any(np.asarray(plan.pipeline_parallel) > 1):
        return 0.0
    share = priced.program.embedding.boundary_bytes / plan.tensor_parallel
    group = pipeline_boundary(plan.tensor_parallel, plan.replicas, cluster)
    library = cluster_collectives(cluster)
    once = collective_time("send_recv", share, group=group, cluster=cluster, constants=library)
    return priced.constants.collective_slowdown * once


def _tied_embedding_s(priced: Priced) -> Number:
    """Seconds of summing the shared table's gradients between the first and the last stage, once per step.

    A frozen table has none.
    """
    scenario = priced.scenario
    plan, cluster = scenario.plan, scenario.cluster
    p = np.asarray(plan.pipeline_parallel)
    shared = scenario.model.tied_embeddings or plan.prediction_layers > 0
    if not shared or not np.any(p > 1):
        return 0.0
    size = priced.program.embedding.trained_parameters * plan.framework.sharding.gradient_reduce_bytes[plan.wide_dtype]
    group = pipeline_boundary(plan.tensor_parallel, plan.replicas, cluster)
    once = collective_time("send_recv", size, group=group, cluster=cluster, constants=cluster_collectives(cluster))
    return (p > 1) * np.greater(size, 0.0) * once * priced.constants.collective_slowdown
