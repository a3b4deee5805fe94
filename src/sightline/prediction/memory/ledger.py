"""The memory ledger: what each pipeline stage's device holds at its fullest moment.

States follow ZeRO (arXiv 1910.02054), activations the saved tensors of the program's operators times the micro-batches
in flight (arXiv 2205.05198). Left out: fragmentation beyond the framework's fixed share.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce

from sightline.prediction.memory.activations import Activations, Shapes, activations, layer_shapes, of_head, of_layers
from sightline.prediction.memory.moments import RESERVED, Moment, fullest_moment, reserved_beyond
from sightline.prediction.memory.states import (
    GATHERED_LAYERS,
    Gathered,
    HeldStates,
    PlanStates,
    ProcessMemory,
    bucket_bytes,
    gathered_parameters,
    held_states,
    plan_states,
    process_memory,
)
from sightline.prediction.schedules.closed_forms import in_flight
from sightline.prediction.training.offload import IN_HOST_MEMORY, OnHost, on_host
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.sharding import StateShares
from sightline.prediction.training.stages import ProgramSizes, Sizes, StageContents, most
from sightline.prediction.training.step import StepTimes
from sightline.profile import BETWEEN_PASSES, MEMORY_PARTS, NumbersOnDemand, StageMemory
from sightline.program import Program
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, added_up, anywhere, either, larger, plain
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageLedger:
    """A stage's memory, and what its total is the largest of."""

    memory: StageMemory
    moments: tuple[tuple[Number, ...], ...]
    """Summands of all bytes at each moment."""

    @property
    def total(self) -> Number:
        """Bytes at the fullest moment."""
        return reduce(larger, map(added_up, self.moments))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Common:
    """What all stages' ledgers share."""

    scenario: Scenario
    program: Program
    sizes: ProgramSizes
    shares: StateShares
    states: PlanStates
    process: ProcessMemory
    shapes: Sequence[Shapes]
    """Of weights that have placeholders for gradients; none where the framework has none."""


def stage_ledgers(scenario: Scenario, priced: Priced, times: StepTimes) -> list[StageLedger]:
    """Return the ledgers of the first, the heaviest middle and the last stage; of those that a pipeline has."""
    plan, framework = scenario.plan, scenario.plan.framework
    common = _Common(
        scenario=scenario,
        program=priced.program,
        sizes=priced.sizes,
        shares=times.shares,
        states=plan_states(plan),
        process=process_memory(framework, priced.device_model),
        shapes=layer_shapes(priced.program) if framework.transformer_engine.placeholder_gradients else (),
    )
    held = in_flight(plan.pipeline_parallel, times.micro_batches, plan.virtual_stages, plan.schedule)
    return [
        _ledger(common, stage, sizes, in_flight=count)
        for stage, sizes, count in zip(times.stages, times.stage_sizes, held, strict=True)
        if not stage.is_empty
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Held:
    """What a stage's device holds."""

    states: HeldStates
    gathered: Gathered
    activations: Activations
    placeholders: Number
    recomputed: Number
    transient: Number
    moved: OnHost
    weights: Number
    gradients: Number
    optimizer: Number
    update: Number
    buffers: Number
    """Of libraries and collectives, for as long as the process runs."""


def _held(common: _Common, stage: StageContents, sizes: Sizes, in_flight: Number) -> _Held:
    plan, shares, process = common.scenario.plan, common.shares, common.process
    states = held_states(plan, common.states, sizes)
    gathered = gathered_parameters(plan, common.sizes, stage, sizes, shares)
    moved = on_host(plan, gathered.live, gathered.layer)
    for_collectives = process.collectives + bucket_bytes(process, common.scenario, states.gradients)
    return _Held(
        states=states,
        gathered=gathered,
        activations=activations(common.scenario, common.program, common.sizes, stage, in_flight),
        placeholders=of_layers(stage.kinds, common.shapes, ELEMENT_BYTES[plan.wide_dtype]) if common.shapes else 0.0,
        recomputed=most(stage, common.sizes.working_bytes),
        transient=most(stage, common.sizes.transient_bytes),
        moved=moved,
        weights=shares.weights.of(states.weights),
        gradients=shares.gradients.of(states.gradients),
        optimizer=shares.optimizer.of(states.optimizer),
        update=shares.per_rank.of(states.update) * (1.0 - moved.optimizer),
        buffers=(plan.replicas > 1) * for_collectives + moved.staging_bytes + _workspace(common, stage),
    )


def _workspace(common: _Common, stage: StageContents) -> Number:
    """Bytes that libraries and gathers hold on to."""
    plan, allocation = common.scenario.plan, common.scenario.plan.framework.allocation
    fixed = allocation.workspace_bytes + allocation.workspace_bytes_per_layer * stage.layers
    if not allocation.gathers_into_buffer:
        return fixed
    splits = (plan.sequence_parallel != 0) & (plan.tensor_parallel > 1)
    return fixed + splits * common.program.embedding.boundary_bytes


def _ledger(common: _Common, stage: StageContents, sizes: Sizes, *, in_flight: Number) -> StageLedger:
    """The ledger of one stage, in bytes per device."""
    held = _held(common, stage, sizes, in_flight)
    moved = held.moved
    moments = _moments(common, stage, sizes, held)
    weights, optimizer = held.weights * (1.0 - moved.parameters), held.optimizer * (1.0 - moved.optimizer)
    states = (weights, optimizer, common.process.context, held.buffers)
    peak = cache(lambda: fullest_moment(moments))
    totals = {moment.name: (*states, *moment.terms) for moment in moments}
    between = (*states, held.gradients * (1.0 - moved.optimizer))
    sums: dict[str, Number | Callable[[], Number]] = {
        name: partial(added_up, terms) for name, terms in {BETWEEN_PASSES: between, **totals}.items()
    }
    return StageLedger(
        memory=StageMemory(
            stage=stage.name,
            parts=NumbersOnDemand(
                {
                    "weights": weights,
                    "optimizer": optimizer,
                    "kv_cache": 0.0,
                    "framework": common.process.context,
                    "gradients": lambda: peak()["gradients"],
                    "activations": lambda: peak()["activations"],
                    "buffers": lambda: peak()["buffers"] + held.buffers,
                }
            ),
            items=_items(common, stage, held, moments),
            moments=NumbersOnDemand(sums),
        ),
        moments=tuple(totals.values()),
    )


def _moments(common: _Common, stage: StageContents, sizes: Sizes, held: _Held) -> tuple[Moment, Moment, Moment]:
    """The loss, the backward pass of a layer, and the update."""
    gathered, saved = held.gathered, held.activations
    gradients = held.gradients * (1.0 - held.moved.optimizer)
    in_loss, in_layer = _gradients_there(common, stage, sizes)
    logits = saved.logits
    if common.shapes:
        logits = logits + stage.head * of_head(common.program, ELEMENT_BYTES[common.scenario.plan.wide_dtype])
    return (
        Moment(
            name="loss",
            gradients=in_loss * gradients,
            activations=(saved.on_device, logits),
            buffers=(gathered.loss, held.placeholders),
        ),
        Moment(
            name="backward of a layer",
            gradients=in_layer * gradients,
            activations=(saved.on_device, held.recomputed - saved.head),
            buffers=(gathered.layer, held.transient, held.placeholders),
        ),
        Moment(name="optimizer step", gradients=gradients, activations=(), buffers=(held.update,)),
    )


def _gradients_there(common: _Common, stage: StageContents, sizes: Sizes) -> tuple[Number, Number]:
    """Share of the gradients that exists in the loss and in a layer's backward pass.

    All of them, unless they are freed after each update: then the first micro-batch finds none, its head's first.
    """
    plan, workload = common.scenario.plan, common.scenario.workload
    if not plan.framework.allocation.frees_gradients:
        return 1.0, 1.0
    again = workload.global_batch > plan.data_parallel * plan.sequences
    head = stage.head * common.sizes.head.trained.total / larger(sizes.trained.total, 1.0)
    return 1.0 * again, either(again, 1.0, head)


def _items(common: _Common, stage: StageContents, held: _Held, moments: Sequence[Moment]) -> NumbersOnDemand:
    """The ledger's finer lines."""
    plan, saved, moved, shares = common.scenario.plan, held.activations, held.moved, common.shares

    def reserved() -> Number:
        return reserved_beyond(
            plan,
            moments,
            layer=stage.head * (held.recomputed + held.transient),
            gathered=larger(
                GATHERED_LAYERS * common.sizes.largest_layer_bytes(stage),
                common.sizes.embedding_and_head_bytes(stage),
            ),
            reduced=shares.everything_sharded.of(held.states.gradients) * (1.0 - shares.gradients_sharded),
        )

    def in_host_memory() -> Number:
        if not plan.offload:
            return 0.0
        states = moved.parameters * held.weights + moved.optimizer * (held.gradients + held.optimizer)
        return states + (saved.offloaded if "activations" in plan.offload else 0.0)

    return NumbersOnDemand(
        {
            "layer activations": lambda: saved.on_device - saved.others,
            "embedding and head activations": saved.others,
            "logits and loss": moments[0].activations[1],
            "recomputation working set": held.recomputed,
            "gathered parameters": held.gathered.layer,
            "transient tensors": held.transient,
            "placeholders of gradients": held.placeholders,
            "update temporaries": held.update,
            RESERVED: reserved,
            IN_HOST_MEMORY: in_host_memory,
        }
    )


def fullest(stages: Sequence[StageLedger]) -> NumbersOnDemand:
    """Return the parts of the stage with the largest total, plan by plan, with ``total``."""
    totals = cache(lambda: [stage.total for stage in stages])

    @cache
    def choices() -> list[tuple[StageMemory, object]]:
        most = totals()[0]
        chosen: list[tuple[StageMemory, object]] = []
        for stage, total in zip(stages[1:], totals()[1:], strict=True):
            chosen.append((stage.memory, total > most))
            most = larger(most, total)
        return chosen

    def part(name: str) -> Number:
        size = stages[0].memory.parts[name]
        for memory, fuller in choices():
            if anywhere(fuller):
                size = either(fuller, memory.parts[name], size)
        return plain(size)

    parts: dict[str, Number | Callable[[], Number]] = {name: partial(part, name) for name in MEMORY_PARTS}
    return NumbersOnDemand({**parts, "total": lambda: reduce(larger, totals())})
