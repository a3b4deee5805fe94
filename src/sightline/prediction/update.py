"""The optimizer's step on the device: what a stage's update moves, computes and sends, and its seconds."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.pricing import Prices
from sightline.cost.processor.constants import ProcessorConstants, processor_constants
from sightline.cost.processor_pricing import TENSORS_OF_ENDS, TENSORS_OF_LAYER, update_time, working_bytes
from sightline.cost.training_constants import TrainingConstants
from sightline.prediction.data_parallel import ranks_of
from sightline.prediction.dualpipe import per_device
from sightline.prediction.optimizers import update_traffic
from sightline.prediction.sharding_code import sharded_update_s
from sightline.prediction.shared import Shared
from sightline.prediction.stages import StageContents, layer_sum, matrix_parameters
from sightline.program import Block, Program
from sightline.program.muon import ELEMENT_BYTES as ORTHOGONALIZED_BYTES
from sightline.quantities import Number
from sightline.scenario import Plan, Scenario


class UpdateTime(NamedTuple):
    """What the optimizer's step takes on the device."""

    update_s: Number
    traffic_bytes: Number
    operators_s: Number
    """Part of the seconds in operators of the program (orthogonalization)."""
    share: Number
    """Share of those operators that each rank runs."""
    gather_s: Number
    """Bringing matrices together that replicas share out."""
    gathered_bytes: Number


def step_of_optimizer(
    scenario: Scenario,
    program: Program,
    prices: Prices,
    constants: TrainingConstants,
    stage: StageContents,
    parameters: Shared,
    cast_bytes: Number = 0.0,
) -> UpdateTime:
    """Return the update of ``parameters`` on the pace-setting stage, but for what the host does.

    ``cast_bytes`` of traffic make the copies of weights in few bits anew.
    """
    plan = scenario.plan
    if "optimizer" in plan.offload:
        cast_s = _elementwise_s(scenario, program, constants, stage, cast_bytes)
        return UpdateTime(cast_s, cast_bytes, 0.0, 0.0, 0.0, 0.0)
    shared_out = np.asarray(plan.zero_stage) >= 1
    matrices = matrix_parameters(program, stage).shared(plan, shared_out)
    others = parameters.shared(plan, shared_out) - matrices
    of_matrices, of_others = (
        update_traffic(plan.framework, plan.dtype, plan.optimizer, matrix=matrix) for matrix in (True, False)
    )
    traffic_bytes = per_device(plan, matrices * of_matrices + others * of_others, shared_out) + cast_bytes
    share = np.where(shared_out, 1.0 / plan.shards, 1.0)
    operators_s = _operators_s(program, prices, stage, share)
    gathered_bytes = 2.0 * ORTHOGONALIZED_BYTES * matrices * (shared_out & (np.asarray(plan.shards) > 1))
    return UpdateTime(
        update_s=_elementwise_s(scenario, program, constants, stage, traffic_bytes) + operators_s,
        traffic_bytes=traffic_bytes,
        operators_s=operators_s,
        share=share,
        gather_s=_gather_s(scenario, constants, gathered_bytes),
        gathered_bytes=gathered_bytes,
    )


def _elementwise_s(
    scenario: Scenario,
    program: Program,
    constants: TrainingConstants,
    stage: StageContents,
    traffic_bytes: Number,
) -> Number:
    """Seconds of the update's traffic at the memory's speed or, on a processor, of a call for every tensor."""
    device = scenario.cluster.device
    machine = processor_constants(device, "fp32")
    if machine is None:
        return traffic_bytes / (device.memory_bandwidth * constants.memory_fraction)
    parameters = traffic_bytes / scenario.plan.framework.kernels.optimizer_traffic
    return update_on_processor_s(parameters, stage.layers, program, scenario, machine)


def update_on_processor_s(
    parameters: Number, layers: Number, program: Program, scenario: Scenario, machine: ProcessorConstants
) -> Number:
    """Seconds of a processor's update of so many of ``layers``' parameters, sharded or not."""
    tensors = _trained_tensors(scenario, layers)
    update_s = update_time(parameters, tensors, working_bytes(program, scenario), scenario.cluster.device, machine)
    return update_s + sharded_update_s(tensors, scenario.plan, machine)


def _trained_tensors(scenario: Scenario, layers: Number) -> Number:
    """Parameters that the optimizer is given; of an adapter two matrices for each projection that has one."""
    adapter = scenario.plan.adapter
    if adapter is None:
        return TENSORS_OF_LAYER * layers + TENSORS_OF_ENDS
    return 2.0 * len(adapter.projections(gated=scenario.model.gated)) * layers + len(adapter.also_trained)


def _operators_s(program: Program, prices: Prices, stage: StageContents, share: Any) -> Number:
    """Seconds of the program's operators of the update: a rank's share of the matrices, at least the slowest of them."""
    if not any(block.update for block in program.layers):
        return 0.0

    def of(block: Block) -> Number:
        return sum((op.count * prices[id(op)].time_s for op in block.update), 0.0)

    slowest_s = reduce(
        np.maximum, [op.count * prices[id(op)].time_s for block in program.layers for op in block.update]
    )
    rank_s: Number = np.maximum(layer_sum(program, stage, of) * share, slowest_s)
    return rank_s


def _gather_s(scenario: Scenario, constants: TrainingConstants, gathered_bytes: Number) -> Number:
    """Seconds of handing every matrix to one rank of those that share it out, and its update back."""
    plan, cluster = scenario.plan, scenario.cluster
    if not np.any(np.asarray(gathered_bytes) > 0):
        return 0.0
    group, _ = ranks_of(plan, cluster)
    library = cluster_collectives(cluster)
    once = collective_time("all_to_all", gathered_bytes / 2.0, group=group.sharing, cluster=cluster, constants=library)
    return (np.asarray(gathered_bytes) > 0) * 2.0 * once * constants.collective_slowdown


def update_flops(plan: Plan, program: Program) -> Number:
    """FLOPs of the update's operators on all devices of a step."""
    layers = sum(block.layers * sum(op.count * op.flops for op in block.update) for block in program.layers)
    shared_out = np.asarray(plan.zero_stage) >= 1
    return 1.0 * layers * plan.tensor_parallel * np.where(shared_out, plan.copies, plan.replicas)
