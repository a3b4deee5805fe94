"""Weights, gradients and optimizer states of a stage: what ZeRO (arXiv 1910.02054) leaves a rank, what is gathered."""

from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

from sightline.cost.device_model import DeviceModel
from sightline.frameworks import Framework, StateBytes
from sightline.prediction.schedules.closed_forms import stage_replicas
from sightline.prediction.training.stages import DenseAndExperts, ProgramSizes, Sizes, StageContents
from sightline.quantities import Number, anywhere, either, larger, smaller
from sightline.scenario import Plan, Scenario

FP32_BYTES = 4.0
EIGHT_BIT_MOMENTS = 2.0 * (1.0 + 4.0 / 256.0)
"""Bytes per parameter of two blockwise quantized moments with their fp32 scales (bitsandbytes)."""


def moment_bytes(states: StateBytes, optimizer: str, *, matrix: bool = False) -> float:
    """Bytes per parameter that ``optimizer`` keeps in addition to master weights; ``matrix``: of a layer's matrices."""
    two = states.optimizer - states.master
    match optimizer:
        case "sgd":
            return 0.0
        case "sgd-momentum":
            return two / 2.0
        case "muon" if matrix:
            return two / 2.0
        case "adamw-8bit":
            return min(two, EIGHT_BIT_MOMENTS)
        case _:
            return two


def states_under(states: StateBytes, optimizer: str, *, matrix: bool = False) -> StateBytes:
    """Return the bytes of AdamW's ``states`` as they are under another optimizer."""
    total = states.master + moment_bytes(states, optimizer, matrix=matrix)
    return states if total == states.optimizer else replace(states, optimizer=total)


def update_copies(framework: Framework, dtype: str, optimizer: str) -> float:
    """Tensors as large as all trained weights while the optimizer steps.

    Separate kernels keep a square root; DeepSpeed's engines make one flat tensor of a rank's gradients, then another in
    fp32. Where they are fp32 already, the flat one has the place of the bucket, which is gone by then. A square root
    has the place of the gradients and of their flat copy, which are freed before the optimizer runs.
    """
    states = framework.states_in(dtype)
    if framework.zero_engine.flattens_gradients:
        return 1.0 + FP32_BYTES / states.weights if states.gradients < FP32_BYTES else 0.0
    root = (states.optimizer - states.master) / 2.0 / states.weights
    match optimizer:
        case "adamw-unfused":
            return max(framework.memory.update_copies, root)
        case "adamw-fused" | "adamw-8bit":
            return 0.0
        case _:
            return framework.memory.update_copies


class RankShare(NamedTuple):
    """Share of a state that a rank holds."""

    dense: Number
    experts: Number
    stage_replicas: Number = 1.0
    """Devices of the pipeline that hold the same stage whole (DualPipe); 1 where they share one copy."""

    def of(self, size: DenseAndExperts) -> Number:
        """What a device holds, given a stage's."""
        return self.stage_replicas * (size.dense * self.dense + size.experts * self.experts)


class StateShares(NamedTuple):
    """A rank's share of each state."""

    weights: RankShare
    gradients: RankShare
    optimizer: RankShare
    per_rank: RankShare
    """That of the optimizer in one stage, whatever else the device holds."""
    everything_sharded: RankShare
    whole_weights: Any
    """Whether the gathered weights stay from forward to backward, in addition to the shards (FSDP's
    ``SHARD_GRAD_OP``)."""
    gradients_sharded: Any


def rank_share(plan: Plan, sharded: Any) -> RankShare:
    """Return a rank's share of a state that is ``sharded`` or not."""
    return RankShare(either(sharded, 1.0 / plan.shards, 1.0), either(sharded, 1.0 / plan.expert_shards, 1.0))


def bf16_optimizer(plan: Plan) -> Any:
    """Whether weights and moments in fp32 are sharded though there is no ZeRO (DeepSpeed's ``BF16_Optimizer``)."""
    return (plan.zero_stage == 0) & (plan.framework.zero_engine.bf16_optimizer and plan.dtype == "bf16")


def shards_optimizer(plan: Plan) -> Any:
    """Whether the optimizer's states are sharded over replicas: by ZeRO, or by DeepSpeed's ``BF16_Optimizer``."""
    return (plan.zero_stage >= 1) | bf16_optimizer(plan)


def state_shares(plan: Plan) -> StateShares:
    """Return what ZeRO leaves a rank of each state under a plan."""
    framework, zero = plan.framework, plan.zero_stage
    whole = (zero == 2) & framework.sharding.regathers_every_micro_batch
    # FSDP's units that reduce once per step add up whole gradients until then.
    gradients = (zero >= 2) & ((whole == 0) | framework.sharding.reduces_every_micro_batch)
    sharded = shards_optimizer(plan)
    return StateShares(
        weights=_on_device(plan, (zero >= 3) | whole),
        gradients=_on_device(plan, gradients),
        optimizer=_on_device(plan, sharded),
        per_rank=rank_share(plan, sharded),
        everything_sharded=_on_device(plan, True),
        whole_weights=whole,
        gradients_sharded=gradients,
    )


def _on_device(plan: Plan, sharded: Any) -> RankShare:
    """The share with what DualPipe adds: devices that hold the same stage shard what is sharded among them, too."""
    share = rank_share(plan, sharded)
    if not plan.both_ways:
        return share
    return share._replace(stage_replicas=either(sharded, 1.0, stage_replicas(plan)))


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


def trained_states(plan: Plan) -> StateBytes:
    """Return the bytes per trained parameter of the model itself: gradients of ``BF16_Optimizer`` are whole in fp32."""
    states, whole = plan.framework.states_in(plan.dtype), bf16_optimizer(plan)
    if not anywhere(whole):
        return states
    gradients: Any = either(whole, FP32_BYTES, states.gradients)
    return replace(states, gradients=gradients)


def plan_states(plan: Plan) -> PlanStates:
    """Return the bytes per parameter of weights, gradients and optimizer.

    Adapters and trained copies have their own.
    """
    framework, optimizer = plan.framework, plan.optimizer
    own, memory = trained_states(plan), framework.memory
    return PlanStates(
        own=states_under(own, optimizer),
        matrices=states_under(own, optimizer, matrix=True),
        adapter=states_under(framework.states_in(plan.dtype, memory.adapter_states), optimizer),
        copied=states_under(framework.states_in(plan.dtype, memory.also_trained_states), optimizer),
    )


def held_states(plan: Plan, states: PlanStates, sizes: Sizes) -> HeldStates:
    """Return the bytes of a stage's states on one device; frozen weights have neither gradient nor optimizer."""
    matrices = sizes.optimized_as_matrices
    counts = (sizes.own_trained - matrices.total, matrices.total, sizes.adapter, sizes.copied)
    dense_experts = sizes.trained_experts - matrices.experts

    def split(state: str) -> DenseAndExperts:
        own, matrix, *others = (getattr(kind, state) for kind in states)
        total = sum(count * bytes_ for count, bytes_ in zip(counts, (own, matrix, *others), strict=True))
        experts = dense_experts * own + matrices.experts * matrix
        return DenseAndExperts(total - experts, experts)

    weights, optimizer = split("weights"), split("optimizer")
    full = _full_precision_copies(plan)
    # A fused or foreach update takes tensors of one type at a time.
    largest = reduce(larger, [count * kind.weights for count, kind in zip(counts, states, strict=True)])
    return HeldStates(
        weights=DenseAndExperts(
            weights.dense + sizes.frozen_bytes + sizes.low_precision_bytes,
            weights.experts + sizes.expert_low_precision_bytes,
        ),
        gradients=split("gradients"),
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
    """Return the parameters of the layer at work, the one prefetched, and embedding and head as they are wrapped."""
    allocation, replicated = plan.framework.allocation, plan.replicas > 1
    layer = program.largest_layer_bytes(stage)
    live = smaller(sizes.stored_bytes, GATHERED_LAYERS * layer + program.embedding_and_head_bytes(stage))
    if not allocation.wraps_embedding_and_head:
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
