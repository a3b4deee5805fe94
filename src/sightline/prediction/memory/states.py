"""Weights, gradients and optimizer states of a stage on one device, before ZeRO, and the parameters gathered from shards."""

from functools import reduce
from typing import NamedTuple

from sightline.cost.device_model import DeviceModel
from sightline.frameworks import Framework, StateBytes
from sightline.prediction.training.sharding import StateShares
from sightline.prediction.training.stages import DenseAndExperts, ProgramSizes, Sizes, StageContents
from sightline.prediction.training.update import states_under, update_copies
from sightline.quantities import Number, either, larger, smaller
from sightline.scenario import Plan, Scenario


class ProcessMemory(NamedTuple):
    """Bytes that a process takes before its model."""

    context: float
    """A driver's context; on a processor interpreter and libraries, as measured."""
    collectives: float
    """What collectives set aside; what gloo sends lies in the tensors themselves."""
    bucket_elements: float
    """Gradients in the bucket that ZeRO reduces from, on a processor. An accelerator's memory is taken whether it is
    used or not; there the bucket is part of the collectives' share."""


def process_memory(framework: Framework, model: DeviceModel) -> ProcessMemory:
    """Return what a process takes before its model."""
    process_bytes = model.process_bytes
    if process_bytes is None:
        return ProcessMemory(framework.memory.context_bytes, framework.memory.communication_buffer_bytes, 0.0)
    with_libraries = process_bytes + framework.zero_engine.library_bytes
    return ProcessMemory(with_libraries, 0.0, framework.zero_engine.bucket_elements)


def bucket_bytes(process: ProcessMemory, scenario: Scenario, gradients: DenseAndExperts) -> Number:
    """Return bytes of the bucket that ZeRO reduces gradients from: pages of it that are used."""
    plan = scenario.plan
    if not process.bucket_elements:
        return 0.0
    whole = process.bucket_elements * plan.framework.states_in(plan.dtype).gradients
    return smaller(gradients.total, whole) * (plan.zero_stage > 0)


GATHERED_LAYERS = 2.0
"""Layers whose full parameters are live under ZeRO-3: the one at work and the one prefetched."""


class HeldStates(NamedTuple):
    """Bytes of a stage's states before ZeRO."""

    weights: DenseAndExperts
    gradients: DenseAndExperts
    optimizer: DenseAndExperts
    update: DenseAndExperts
    """Temporaries of the optimizer's step."""


class PlanStates(NamedTuple):
    """Bytes per parameter of each kind of trained parameters under a plan's dtype and optimizer."""

    own: StateBytes
    matrices: StateBytes
    adapter: StateBytes
    copied: StateBytes


def plan_states(plan: Plan) -> PlanStates:
    """Return the bytes per parameter of weights, gradients and optimizer; adapters and trained copies have their own."""
    framework, optimizer = plan.framework, plan.optimizer
    own = framework.states_in(plan.dtype)
    return PlanStates(
        own=states_under(own, optimizer),
        matrices=states_under(own, optimizer, matrix=True),
        adapter=states_under(framework.adapter_states_in(plan.dtype), optimizer),
        copied=states_under(framework.copied_states_in(plan.dtype), optimizer),
    )


def held_states(plan: Plan, states: PlanStates, sizes: Sizes) -> HeldStates:
    """Return the bytes of a stage's states on one device; frozen weights have neither gradient nor optimizer."""
    matrices = sizes.optimized_as_matrices
    counts = (sizes.own_trained - matrices.total, matrices.total, sizes.adapter, sizes.copied)
    dense_experts = sizes.trained_experts - matrices.experts

    def split(of: tuple[float, float, float, float]) -> DenseAndExperts:
        total = sum(count * bytes_ for count, bytes_ in zip(counts, of, strict=True))
        experts = dense_experts * of[0] + matrices.experts * of[1]
        return DenseAndExperts(total - experts, experts)

    own, matrix, adapter, copied = states
    weights = split((own.weights, matrix.weights, adapter.weights, copied.weights))
    optimizer = split((own.optimizer, matrix.optimizer, adapter.optimizer, copied.optimizer))
    full = _full_precision_copies(plan)
    # A fused or foreach update takes tensors of one type at a time.
    largest = reduce(larger, [count * kind.weights for count, kind in zip(counts, states, strict=True)])
    return HeldStates(
        weights=DenseAndExperts(
            weights.dense + sizes.frozen_bytes + sizes.low_precision_bytes,
            weights.experts + sizes.expert_low_precision_bytes,
        ),
        gradients=split((own.gradients, matrix.gradients, adapter.gradients, copied.gradients)),
        optimizer=DenseAndExperts(optimizer.dense + full * weights.dense, optimizer.experts + full * weights.experts),
        update=DenseAndExperts(update_copies(plan.framework, plan.dtype, plan.optimizer) * largest, 0.0),
    )


def _full_precision_copies(plan: Plan) -> Number:
    """Copies that the optimizer has of trained weights that are fp32 already, under ZeRO."""
    copied = plan.framework.zero_engine.copies_full_precision and plan.dtype in ("fp32", "tf32")
    return 1.0 * (plan.zero_stage > 0) if copied else 0.0


class Gathered(NamedTuple):
    """Bytes of whole parameters on a device in addition to its share of them."""

    live: Number
    """What a pass needs at once, gathered or not."""
    layer: Number
    """While a layer's backward pass runs."""
    loss: Number
    """While the loss does."""


def gathered_parameters(
    plan: Plan, program: ProgramSizes, stage: StageContents, sizes: Sizes, shares: StateShares
) -> Gathered:
    """Return the parameters of the layer at work, of the one prefetched, and of embedding and head as they are wrapped."""
    allocation, replicated = plan.framework.allocation, plan.replicas > 1
    layer = program.largest_layer_bytes(stage)
    live = smaller(sizes.stored_bytes, GATHERED_LAYERS * layer + program.embedding_and_head_bytes(stage))
    if not allocation.wraps_ends:
        sharded = replicated & (plan.zero_stage == 3)
        gathered = sharded * live + replicated * shares.whole_weights * sizes.stored_bytes
        return Gathered(live=live, layer=gathered, loss=gathered)
    # A unit is gathered, or cast where it is not sharded, just before it runs; one more is there ahead of time.
    cut = plan.tensor_parallel if allocation.whole_vocabulary else 1.0
    embedding = stage.embedding * cut * program.embedding.stored_bytes
    return Gathered(
        live=live,
        layer=layer + either(stage.layers > 1, layer, embedding),
        loss=stage.head * cut * program.head.stored_bytes,
    )
