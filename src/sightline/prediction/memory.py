"""The memory ledger: what each pipeline stage's device holds at its fullest moment.

States follow ZeRO (arXiv 1910.02054), activations the saved tensors of the program's operators times the micro-batches
in flight (arXiv 2205.05198). Left out: fragmentation beyond the framework's fixed share.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from sightline.frameworks import Framework, StateBytes
from sightline.prediction import placeholder_gradients
from sightline.prediction.dualpipe import per_device
from sightline.prediction.host_process import beside_tensors, bucket_bytes
from sightline.prediction.memory_moments import Moment, fullest_moment
from sightline.prediction.memory_reserve import RESERVED, collected, reserved_beyond
from sightline.prediction.offload import IN_HOST_MEMORY, on_host
from sightline.prediction.optimizers import states_under, update_copies
from sightline.prediction.shared import Shared
from sightline.prediction.stages import StageContents, end_bytes, layer_sum, matrix_parameters, stage_sum, stored_bytes
from sightline.profile import BETWEEN_PASSES, MEMORY_PARTS, NumbersOnDemand, StageMemory
from sightline.program import Block, Program
from sightline.program.compiled import compiled
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Count, Number, added_up, either, plain
from sightline.scenario import Scenario

GATHERED_LAYERS = 2.0
"""Layers whose full parameters are live under ZeRO-3: the one at work and the one prefetched."""


def stage_memory(scenario: Scenario, program: Program, stage: StageContents) -> StageMemory:
    """Return the ledger of one stage, in bytes per device, at its fullest moment."""
    plan, framework = scenario.plan, scenario.plan.framework
    zero, narrow = np.asarray(plan.zero_stage), ELEMENT_BYTES[plan.wide_dtype]
    replicated = np.asarray(plan.replicas) > 1
    # FSDP's SHARD_GRAD_OP keeps its shards and the whole gathered parameters from forward to backward.
    whole = (zero == 2) & framework.sharding.regathers_every_micro_batch
    context_bytes, collectives_bytes = beside_tensors(scenario)
    held = held_states(scenario, program, stage)
    held_places = framework.transformer_engine.placeholder_gradients * placeholder_gradients.of_layers(
        program, stage.kinds, narrow
    )
    gathered = _gathered(scenario, program, stage, whole)
    layers_kept = stage.in_flight * layer_sum(program, stage, lambda block: block.saved_bytes)
    ends_kept = stage.in_flight * _ends_kept(scenario, program, stage) + collected(scenario, program, stage)
    kept = _on_device(plan.offload, layers_kept, ends_kept, stage)
    # A device that has a head for one direction alone still holds all of its logits.
    loss_bytes = _loss_bytes(compiled(framework) if plan.compile else framework, plan.tensor_parallel)
    logits = np.ceil(stage.head) * program.head.logits * loss_bytes
    if framework.transformer_engine.placeholder_gradients:
        logits = logits + stage.head * placeholder_gradients.of_head(program, narrow)
    recomputed = _most(program, stage, lambda block: block.working_bytes)
    transient = _most(program, stage, lambda block: block.transient_bytes)
    weights = per_device(plan, held.weights.shared(plan, (zero >= 3) | whole), (zero >= 3) | whole)
    # FSDP's units that reduce once per step add up whole gradients until then.
    scattered = (zero >= 2) & ~(whole & (not framework.sharding.reduces_every_micro_batch))
    all_gradients = per_device(plan, held.gradients.shared(plan, scattered), scattered)
    optimizer = per_device(plan, held.optimizer.shared(plan, zero >= 1), zero >= 1)
    moved = on_host(plan, gathered.live, gathered.layer)
    gradients = all_gradients * (1.0 - moved.optimizer)
    update = held.update.shared(plan, zero >= 1) * (1.0 - moved.optimizer)
    there = _gradients_there(scenario, program, stage)
    moments = (
        Moment(
            name="loss",
            gradients=there.loss * gradients,
            activations=kept + logits,
            buffers=gathered.loss + held_places,
        ),
        Moment(
            name="backward of a layer",
            gradients=there.layer * gradients,
            activations=kept - _head_kept(scenario, program, stage) + recomputed,
            buffers=gathered.layer + transient + held_places,
        ),
        Moment(name="optimizer step", gradients=gradients, activations=0.0, buffers=update),
    )
    buffers = (
        replicated * (collectives_bytes + bucket_bytes(scenario, held.gradients))
        + moved.staging_bytes
        + _workspace(scenario, program, stage)
    )
    on_device, optimizer_there = weights * (1.0 - moved.parameters), optimizer * (1.0 - moved.optimizer)
    states = on_device + optimizer_there + context_bytes + buffers
    peak = cache(lambda: fullest_moment(moments))
    return StageMemory(
        stage=stage.name,
        parts=NumbersOnDemand(
            {
                "weights": on_device,
                "optimizer": optimizer_there,
                "kv_cache": 0.0,
                "framework": context_bytes,
                "gradients": lambda: peak().gradients,
                "activations": lambda: peak().activations,
                "buffers": lambda: peak().buffers + buffers,
            }
        ),
        items=NumbersOnDemand(
            {
                "layer activations": lambda: kept - ends_kept,
                "embedding and head activations": ends_kept,
                "logits and loss": logits,
                "recomputation working set": recomputed,
                "gathered parameters": gathered.layer,
                "transient tensors": transient,
                "placeholders of gradients": held_places,
                "update temporaries": update,
                RESERVED: lambda: reserved_beyond(
                    scenario,
                    moments,
                    layer=stage.head * (recomputed + transient),
                    gathered=np.maximum(
                        GATHERED_LAYERS * _most(program, stage, lambda block: block.stored_bytes(narrow)),
                        end_bytes(program, stage, narrow),
                    ),
                    reduced=per_device(plan, held.gradients.shared(plan, True), True) * ~scattered,
                ),
                IN_HOST_MEMORY: lambda: added_up(
                    (
                        moved.parameters * weights,
                        moved.optimizer * (all_gradients + optimizer),
                        layers_kept + ends_kept - kept if "activations" in plan.offload else 0.0,
                    )
                ),
            }
        ),
        moments={BETWEEN_PASSES: states + gradients} | {moment.name: moment.with_states(states) for moment in moments},
    )


class Gathered(NamedTuple):
    """Bytes of parameters that are there in full beside a device's share of them."""

    live: Number
    """What a pass needs at once, gathered or not."""
    layer: Number
    """While a layer's backward pass runs."""
    loss: Number
    """While the loss does."""


def _gathered(scenario: Scenario, program: Program, stage: StageContents, whole: Any) -> Gathered:
    """Gathered parameters: of the layer at work, of the one prefetched, and of the ends as the framework wraps them."""
    plan, allocation = scenario.plan, scenario.plan.framework.allocation
    narrow = ELEMENT_BYTES[plan.wide_dtype]
    sharded = (np.asarray(plan.replicas) > 1) & (np.asarray(plan.zero_stage) == 3)
    stored = stored_bytes(program, stage, narrow).total
    layer = _most(program, stage, lambda block: block.stored_bytes(narrow))
    live = np.minimum(stored, GATHERED_LAYERS * layer + end_bytes(program, stage, narrow))
    if not allocation.wraps_ends:
        gathered = sharded * live + (np.asarray(plan.replicas) > 1) * whole * stored
        return Gathered(live=live, layer=gathered, loss=gathered)
    # A unit is gathered, or cast where nobody shares it, when it is its turn; one more is there ahead of time.
    cut = plan.tensor_parallel if allocation.whole_vocabulary else 1.0
    several = np.asarray(stage.layers) > 1
    embedding = stage.embedding * cut * program.embedding.stored_bytes(narrow)
    return Gathered(
        live=live,
        layer=layer + np.where(several, layer, embedding),
        loss=stage.head * cut * program.head.stored_bytes(narrow),
    )


class GradientsThere(NamedTuple):
    """Share of the gradients that exists at a moment."""

    loss: Number
    layer: Number


def _gradients_there(scenario: Scenario, program: Program, stage: StageContents) -> GradientsThere:
    """All of them, unless they are freed after each update: then the first micro-batch finds none, its head's first."""
    plan, workload = scenario.plan, scenario.workload
    if not plan.framework.allocation.frees_gradients:
        return GradientsThere(1.0, 1.0)
    again = workload.global_batch > plan.data_parallel * plan.sequences
    trained = stage_sum(program, stage, lambda block: block.trained_parameters)
    head = stage.head * program.head.trained_parameters / np.maximum(trained, 1.0)
    return GradientsThere(loss=1.0 * again, layer=np.where(again, 1.0, head))


def _loss_bytes(framework: Framework, tensor_parallel: Count) -> Number:
    """Live bytes per logit of the micro-batch whose loss runs, beside what is counted as kept."""
    kept, split = framework.allocation.kept_bytes_per_logit, framework.allocation.split_loss_bytes_per_logit
    whole = max(framework.memory.loss_bytes_per_logit - kept, 0.0)
    return np.where(np.asarray(tensor_parallel) > 1, max(split - kept, 0.0), whole) if split else whole


def _ends_kept(scenario: Scenario, program: Program, stage: StageContents) -> Number:
    """Bytes that one micro-batch keeps of embedding, head and loss, and of what the stage has sent on."""
    allocation, split = scenario.plan.framework.allocation, np.asarray(scenario.plan.sequence_parallel) != 0
    kept = stage.embedding * program.embedding.saved_bytes + _head_kept(scenario, program, stage)
    if not allocation.keeps_stage_outputs:
        return kept
    sent = program.embedding.boundary_bytes / np.where(split, scenario.plan.tensor_parallel, 1)
    return kept + (1.0 - np.asarray(stage.head)) * sent


def _head_kept(scenario: Scenario, program: Program, stage: StageContents) -> Number:
    """Bytes that one micro-batch keeps of head and loss; gone when its layers' backward passes run."""
    logits = program.head.logits * scenario.plan.framework.allocation.kept_bytes_per_logit
    kept: Number = stage.head * (program.head.saved_bytes + logits)
    return kept


def _workspace(scenario: Scenario, program: Program, stage: StageContents) -> Number:
    """Bytes that libraries and gathers hold on to."""
    plan, allocation = scenario.plan, scenario.plan.framework.allocation
    fixed = allocation.workspace_bytes + allocation.workspace_bytes_per_layer * stage.layers
    if not allocation.gathers_into_buffer:
        return fixed
    splits = (np.asarray(plan.sequence_parallel) != 0) & (np.asarray(plan.tensor_parallel) > 1)
    total: Number = fixed + splits * program.embedding.boundary_bytes
    return total


class HeldStates(NamedTuple):
    """Bytes of a stage's states before ZeRO."""

    weights: Shared
    gradients: Shared
    optimizer: Shared
    update: Shared
    """Temporaries of the optimizer's step."""


def held_states(scenario: Scenario, program: Program, stage: StageContents) -> HeldStates:
    """Return the bytes of weights, gradients and optimizer of a stage on one device, before ZeRO.

    Frozen weights have neither gradient nor optimizer; adapters and copies trained beside them have states of their own.
    """
    plan, framework = scenario.plan, scenario.plan.framework
    own, adapter, copies = (
        framework.states_in(plan.dtype),
        framework.adapter_states_in(plan.dtype),
        framework.copied_states_in(plan.dtype),
    )
    own, matrix, adapter, copies = (
        states_under(own, plan.optimizer),
        states_under(own, plan.optimizer, matrix=True),
        states_under(adapter, plan.optimizer),
        states_under(copies, plan.optimizer),
    )
    matrices = matrix_parameters(program, stage)
    counts = [
        (stage_sum(program, stage, lambda block: block.own_trained_parameters) - matrices.total, own),
        (matrices.total, matrix),
        (stage_sum(program, stage, lambda block: block.adapter_parameters), adapter),
        (stage_sum(program, stage, lambda block: block.copied_parameters), copies),
    ]
    narrow = ELEMENT_BYTES[plan.wide_dtype]
    frozen = stage_sum(program, stage, lambda block: block.frozen_bytes(narrow))
    routed = stage_sum(program, stage, lambda block: block.trained_expert_parameters)
    # A fused or foreach update takes tensors of one type at a time.
    largest = reduce(np.maximum, [count * states.weights for count, states in counts])

    def split(of: Callable[[StateBytes], float], frozen_bytes: Number = 0.0) -> Shared:
        total = sum(count * of(states) for count, states in counts) + frozen_bytes
        experts = matrices.experts * of(matrix) + (routed - matrices.experts) * of(own)
        return Shared(common=total - experts, experts=experts)

    narrow_copies = Shared(
        common=stage_sum(program, stage, lambda block: block.narrow.kept_bytes),
        experts=layer_sum(program, stage, lambda block: block.narrow.expert_kept_bytes),
    )
    return HeldStates(
        weights=split(lambda states: states.weights, frozen) + narrow_copies,
        gradients=split(lambda states: states.gradients),
        optimizer=split(lambda states: states.optimizer) + _full_copies(scenario, split(lambda states: states.weights)),
        update=Shared(common=update_copies(framework, plan.dtype, plan.optimizer) * largest, experts=0.0),
    )


def _full_copies(scenario: Scenario, weights: Shared) -> Shared:
    """The optimizer's copies of trained weights that are fp32 already, under ZeRO."""
    plan = scenario.plan
    copies = plan.framework.zero_engine.copies_full_precision and plan.dtype in ("fp32", "tf32")
    share: Number = copies * np.where(np.asarray(plan.zero_stage) > 0, 1.0, 0.0)
    return weights * share


def _most(program: Program, stage: StageContents, of: Callable[[Block], Number]) -> Number:
    """The most that ``of`` says of any layer that the stage holds; 0 for none."""
    return reduce(np.maximum, [(n > 0) * of(block) for n, block in zip(stage.kinds, program.layers, strict=True)])


def _on_device(offload: frozenset[str], layers_kept: Number, ends_kept: Number, stage: StageContents) -> Number:
    """What is kept of the activations on the device: all, or two layers' worth beside the ends'."""
    if "activations" not in offload:
        return layers_kept + ends_kept
    return layers_kept * np.minimum(1.0, 2.0 / np.maximum(stage.layers * stage.in_flight, 1.0)) + ends_kept


def fullest(stages: Sequence[StageMemory]) -> Mapping[str, Number]:
    """Return the parts of the stage with the largest total, plan by plan, with ``total``."""
    totals = [stage.total for stage in stages]

    before = accumulate(totals, np.maximum)

    @cache
    def fuller() -> list[tuple[StageMemory, Any]]:
        return [(s, total > most) for s, total, most in zip(stages[1:], totals[1:], before, strict=False)]

    def part(name: str) -> Number:
        first = stages[0].parts[name]
        return plain(reduce(lambda most, more: either(more[1], more[0].parts[name], most), fuller(), first))

    parts = {name: partial(part, name) for name in MEMORY_PARTS}
    return NumbersOnDemand({**parts, "total": lambda: reduce(np.maximum, totals)})
