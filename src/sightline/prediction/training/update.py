"""The optimizer's step on the device: what a stage's update moves, computes and sends, and its seconds."""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.groups import Group
from sightline.cost.pricing import Prices
from sightline.cost.processor.constants import ProcessorConstants, processor_constants
from sightline.cost.processor_pricing import TENSORS_OF_ENDS, TENSORS_OF_LAYER, update_time, working_bytes
from sightline.cost.training_constants import TrainingConstants
from sightline.prediction.pass_times import seconds_of
from sightline.prediction.training.movement import sharded_update_s
from sightline.prediction.training.optimizers import update_traffic
from sightline.prediction.training.sharding import StateShares
from sightline.prediction.training.sizes import DenseAndExperts, Sizes, layer_sum
from sightline.prediction.training.stages import StageContents
from sightline.program import Program
from sightline.program.muon import ELEMENT_BYTES as ORTHOGONALIZED_BYTES
from sightline.quantities import Number, anywhere, either, larger
from sightline.scenario import Plan, Scenario


class UpdateTime(NamedTuple):
    """What the optimizer's step takes on the device."""

    update_s: Number
    traffic_bytes: Number
    operators_s: Number = 0.0
    """Part of the seconds in operators of the program (orthogonalization)."""
    share: Number = 0.0
    """Share of those operators that each rank runs."""
    gather_s: Number = 0.0
    """Gathering matrices that ZeRO shards, and scattering their updates."""
    gathered_bytes: Number = 0.0


class Updated(NamedTuple):
    """What is updated, and where."""

    scenario: Scenario
    program: Program
    prices: Prices
    constants: TrainingConstants
    library: CollectiveConstants
    shares: StateShares


def step_of_optimizer(
    of: Updated, stage: StageContents, sizes: Sizes, parameters: DenseAndExperts, ranks: Group
) -> UpdateTime:
    """Return the update of ``parameters`` on the pace-setting stage of these sizes, but for what the host does.

    ``ranks`` are those that the optimizer's states are sharded over.
    """
    plan = of.scenario.plan
    # The device makes low-precision copies anew, whoever updates the weights.
    if "optimizer" in plan.offload:
        return UpdateTime(_elementwise_s(of, stage, sizes.cast_bytes), sizes.cast_bytes)
    sharded = plan.zero_stage >= 1
    matrices = of.shares.per_rank.of(sizes.optimized_as_matrices)
    others = of.shares.per_rank.of(parameters) - matrices
    of_matrices, of_others = (
        update_traffic(plan.framework, plan.dtype, plan.optimizer, matrix=matrix) for matrix in (True, False)
    )
    replicas = of.shares.optimizer.stage_replicas
    traffic_bytes = replicas * (matrices * of_matrices + others * of_others) + sizes.cast_bytes
    operators_s = _operators_s(of, stage)
    gathered_bytes = 2.0 * ORTHOGONALIZED_BYTES * matrices * (sharded & (plan.shards > 1))
    return UpdateTime(
        update_s=_elementwise_s(of, stage, traffic_bytes) + operators_s,
        traffic_bytes=traffic_bytes,
        operators_s=operators_s,
        share=of.shares.per_rank.dense,
        gather_s=_gather_s(of, gathered_bytes, ranks),
        gathered_bytes=gathered_bytes,
    )


def _elementwise_s(of: Updated, stage: StageContents, traffic_bytes: Number) -> Number:
    """Seconds of the update's traffic at the memory's speed or, on a processor, of a call for every tensor."""
    device = of.scenario.cluster.device
    machine = processor_constants(device, "fp32")
    if machine is None:
        return traffic_bytes / (device.memory_bandwidth * of.constants.memory_fraction)
    parameters = traffic_bytes / of.scenario.plan.framework.kernels.optimizer_traffic
    return update_on_processor_s(parameters, stage.layers, of.program, of.scenario, machine)


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


def _operators_s(of: Updated, stage: StageContents) -> Number:
    """Seconds of the program's operators of the update: a rank's share of the matrices, at least the slowest of them."""
    layers, prices = of.program.layers, of.prices
    alone: Sequence[Any] = [op.count * prices[id(op)].time_s for block in layers for op in block.update]
    if not alone:
        return 0.0
    rank_s = layer_sum(stage, [seconds_of(block.update, prices) for block in layers]) * of.shares.per_rank.dense
    return larger(rank_s, reduce(larger, alone))


def _gather_s(of: Updated, gathered_bytes: Number, ranks: Group) -> Number:
    """Seconds of gathering every matrix on one of the ranks that shard it, and of scattering its update."""
    if not anywhere(gathered_bytes > 0):
        return 0.0
    once = collective_time(
        "all_to_all", gathered_bytes / 2.0, group=ranks, cluster=of.scenario.cluster, constants=of.library
    )
    return (gathered_bytes > 0) * 2.0 * once * of.constants.collective_slowdown


def update_flops(plan: Plan, program: Program) -> Number:
    """FLOPs of the update's operators on all devices of a step."""
    if not any(block.update for block in program.layers):
        return 0.0
    layers = sum(block.layers * sum(op.count * op.flops for op in block.update) for block in program.layers)
    return 1.0 * layers * plan.tensor_parallel * either(plan.zero_stage >= 1, plan.copies, plan.replicas)
