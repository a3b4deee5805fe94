"""The optimizer's step on the device: what a stage's update moves, computes and sends, and its seconds."""

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.libraries import Group
from sightline.cost.device_model import DeviceModel, Update
from sightline.frameworks import StateBytes
from sightline.prediction.pass_times import seconds_of, working_bytes
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.stages import DenseAndExperts, Sizes, StageContents, layer_sum
from sightline.prediction.training.states import FP32_BYTES, StateShares, bf16_optimizer, moment_bytes, shards_optimizer
from sightline.program import Program
from sightline.program.techniques.muon import ELEMENT_BYTES as ORTHOGONALIZED_BYTES
from sightline.quantities import Number, anywhere, either, larger
from sightline.scenario import Framework, Plan, Scenario


def update_traffic(framework: Framework, dtype: str, optimizer: str, *, matrix: bool = False) -> float:
    """Bytes per parameter that clipping and update move.

    Each moment that is kept is read and written. ``adamw`` is the framework's own implementation; a fused one is no
    slower than that, separate kernels no faster. Left out: the products of Muon, which are operators.
    """
    own, states = framework.kernels.optimizer_traffic, framework.states_in(dtype)
    match optimizer:
        case "adamw":
            return own
        case "adamw-fused":
            return min(own, _clipping(states) + _fused(states))
        case "adamw-unfused":
            return max(own, _clipping(states) + _separate(states))
        case _:
            two = states.optimizer - states.master
            return own - 2.0 * (two - moment_bytes(states, optimizer, matrix=matrix))


def _clipping(states: StateBytes) -> float:
    """The gradient is read for its norm and scaled in place."""
    return 3.0 * states.gradients


def _fused(states: StateBytes) -> float:
    """One kernel: gradient in, weight and moments in and out, a 16-bit copy of master weights out."""
    weight = states.master or states.weights
    in_16_bit = states.weights if states.master else 0.0
    return states.gradients + 2.0 * weight + 2.0 * (states.optimizer - states.master) + in_16_bit


def _separate(states: StateBytes) -> float:
    """PyTorch's kernels over lists of tensors (``foreach``): decay, both moments, root, division, addition, weight.

    Passes over the weight 4, the first moment 3, the second 5, the root 6, the gradient 2.
    """
    weight, moment = states.master or states.weights, (states.optimizer - states.master) / 2.0
    in_16_bit = states.weights if states.master else 0.0
    return 4.0 * weight + 14.0 * moment + 2.0 * states.gradients + in_16_bit


def bf16_optimizer_traffic(plan: Plan, micro_batches: Number) -> Number:
    """Bytes per parameter by which the whole fp32 gradients of DeepSpeed's ``BF16_Optimizer`` outdo a shard of 16 bits.

    After every backward pass 16-bit gradients are cast and the result is added to what is there; once a step they are
    read for the norm, clipped in place and zeroed, and cast to 16 bits and back where replicas reduce them. The shard's
    own clipping is part of ``update_traffic``, and so is a copy of gradients to a bucket of the pass.
    """
    states, kernels = plan.framework.states_in(plan.dtype), plan.framework.kernels
    cast = states.gradients + FP32_BYTES
    added = cast + 3.0 * FP32_BYTES - kernels.accumulation_traffic
    once = 4.0 * FP32_BYTES - _clipping(states) / plan.shards + 2.0 * cast * (plan.replicas > 1)
    return micro_batches * added + once


TENSORS_OF_LAYER, NORMS_OF_LAYER, TENSORS_OF_EMBEDDING_AND_HEAD = 9.0, 2.0, 3.0
"""Parameters come in so many tensors: seven projections and two norms of a layer; table, last norm and head."""


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


def step_of_optimizer(
    priced: Priced,
    shares: StateShares,
    stage: StageContents,
    sizes: Sizes,
    parameters: DenseAndExperts,
    ranks: Group,
) -> UpdateTime:
    """Return the update of ``parameters`` on the pace-setting stage of these sizes, but for what the host does.

    ``ranks`` are those that the optimizer's states are sharded over.
    """
    plan = priced.scenario.plan
    elementwise = partial(elementwise_s, priced.scenario, priced.program, priced.device_model, stage.layers)
    # The device makes low-precision copies anew, whoever updates the weights.
    by_host = UpdateTime(elementwise(sizes.cast_bytes), sizes.cast_bytes) if "optimizer" in plan.offload else None
    if by_host is not None and not isinstance(plan.offload, Mapping):
        return by_host
    sharded = shards_optimizer(plan)
    matrices = shares.per_rank.of(sizes.optimized_as_matrices)
    others = shares.per_rank.of(parameters) - matrices
    of_matrices, of_others = (
        update_traffic(plan.framework, plan.dtype, plan.optimizer, matrix=matrix) for matrix in (True, False)
    )
    replicas = shares.optimizer.stage_replicas
    traffic_bytes = replicas * (matrices * of_matrices + others * of_others) + sizes.cast_bytes
    if anywhere(bf16_optimizer(plan)):
        whole = bf16_optimizer_traffic(plan, priced.scenario.micro_batches)
        traffic_bytes = traffic_bytes + bf16_optimizer(plan) * whole * parameters.total
    operators_s = _operators_s(priced, stage, shares.per_rank.dense)
    gathered_bytes = 2.0 * ORTHOGONALIZED_BYTES * matrices * (sharded & (plan.shards > 1))
    by_device = UpdateTime(
        update_s=elementwise(traffic_bytes) + operators_s,
        traffic_bytes=traffic_bytes,
        operators_s=operators_s,
        share=shares.per_rank.dense,
        gather_s=_gather_s(priced, gathered_bytes, ranks),
        gathered_bytes=gathered_bytes,
    )
    if by_host is None:
        return by_device
    offloaded = plan.offloads("optimizer") > 0
    return UpdateTime(*(either(offloaded, a, b) for a, b in zip(by_host, by_device, strict=True)))


def elementwise_s(
    scenario: Scenario, program: Program, model: DeviceModel, layers: Number, traffic_bytes: Number
) -> Number:
    """Seconds of the update's element-wise kernels over the parameters of so many layers, sharded or not."""
    plan, tensors = scenario.plan, trained_tensors(scenario, layers)
    update = Update(
        traffic_bytes=traffic_bytes,
        parameters=traffic_bytes / plan.framework.kernels.optimizer_traffic,
        tensors=tensors,
        sharded=(plan.shards > 1) * (1.0 * plan.framework.sharding.keeps_root_gathered),
        others_bytes=partial(working_bytes, program, scenario),
    )
    update_s, ideal = model.update_s(update), plan.framework.ideal
    if ideal is None or not model.asynchronous:
        return update_s
    return larger(update_s, traffic_bytes / (model.device.l2_bandwidth * ideal.bandwidth))


def trained_tensors(scenario: Scenario, layers: Number) -> Number:
    """Return the parameters that the optimizer is given; of an adapter two matrices for each projection with one."""
    adapter = scenario.plan.adapter
    if adapter is None:
        quantized = scenario.plan.quantization != "none"
        return (NORMS_OF_LAYER if quantized else TENSORS_OF_LAYER) * layers + TENSORS_OF_EMBEDDING_AND_HEAD
    return 2.0 * len(adapter.projections(gated=scenario.model.gated)) * layers + len(adapter.also_trained)


def _operators_s(priced: Priced, stage: StageContents, share: Number) -> Number:
    """Seconds of the update's operators: a rank's share of the matrices, at least the slowest of them."""
    layers, prices = priced.program.layers, priced.prices
    alone: Sequence[Any] = [op.count * prices[id(op)].time_s for block in layers for op in block.update]
    if not alone:
        return 0.0
    rank_s = layer_sum(stage, [seconds_of(block.update, prices) for block in layers]) * share
    return larger(rank_s, reduce(larger, alone))


def _gather_s(priced: Priced, gathered_bytes: Number, ranks: Group) -> Number:
    """Seconds of gathering every matrix on one of the ranks that shard it, and of scattering its update."""
    if not anywhere(gathered_bytes > 0):
        return 0.0
    once = collective_time(
        "all_to_all", gathered_bytes / 2.0, group=ranks, cluster=priced.scenario.cluster, constants=priced.library
    )
    return (gathered_bytes > 0) * 2.0 * once * priced.constants.collective_slowdown


def update_flops(plan: Plan, program: Program) -> Number:
    """FLOPs of the update's operators on all devices of a step."""
    if not any(block.update for block in program.layers):
        return 0.0
    layers = sum(block.count * sum(op.count * op.flops for op in block.update) for block in program.layers)
    return 1.0 * layers * plan.tensor_parallel * either(shards_optimizer(plan), plan.replica_groups, plan.replicas)


def tensor_calls_s(plan: Plan, model: DeviceModel, tensors: Number, micro_batches: Number, launch_s: Number) -> Number:
    """Return the seconds of a step in loops over the ``tensors`` that the device is in charge of or sums gradients of.

    ``launch_s (tensors (m a + b) + tensors / shards c)`` with the calls per micro-batch, per step and of the shard.
    """
    engine = plan.framework.zero_engine
    if not engine.tensor_calls or not model.asynchronous:
        return 0.0
    stages = [*engine.tensor_calls.items()]
    loops = [(bf16_optimizer(plan) if stage == 0 else plan.zero_stage == stage, each) for stage, each in stages]
    if plan.dtype == "fp16":
        loops = [*loops, *((plan.zero_stage == stage, each) for stage, each in engine.fp16_calls.items())]
    calls: Number = 0.0
    for here, each in loops:
        calls = calls + here * (micro_batches * each.micro_batch + each.step + each.shard / plan.shards)
    return launch_s * tensors * calls
