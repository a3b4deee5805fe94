"""Memory of a training step: what each stage keeps, its peak, and how far predictions of it spread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from math import exp
from typing import NamedTuple

from sightline.content import record
from sightline.prediction.common_figures import LONGER, SHORTER, intervals
from sightline.prediction.schedules.closed_forms import in_flight
from sightline.prediction.training.activations import (
    Activations,
    Shapes,
    activations,
    bytes_in_loss,
    bytes_of_head,
    layer_shapes,
    of_head,
    of_layers,
)
from sightline.prediction.training.offload import OnHost, on_host
from sightline.prediction.training.priced import Priced, micro_batch_alone
from sightline.prediction.training.stages import Sizes, StageContents, most, program_sizes
from sightline.prediction.training.states import (
    FP32_BYTES,
    GATHERED_LAYERS,
    Gathered,
    HeldStates,
    PlanStates,
    ProcessMemory,
    StateShares,
    bf16_optimizer,
    bucket_bytes,
    gathered_parameters,
    held_states,
    plan_states,
    process_memory,
)
from sightline.prediction.training.step import StepTimes
from sightline.profile import BETWEEN_PASSES, MEMORY_PARTS, REFERENCE, NumbersOnDemand, Profile, StageMemory
from sightline.profile.profile import IN_HOST_MEMORY
from sightline.program import write_out
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, added_up, anywhere, either, larger, plain, smaller
from sightline.scenario import Plan, Scenario


def least_bytes(scenario: Scenario) -> Number:
    """Return bytes that some device of every plan holds at once, less than its ledger says.

    The stage with the head holds logits and loss of one micro-batch. A stage with a layer holds, while that layer's
    backward pass runs, what its forward pass saved and what recomputation brings back: at least those of the smallest
    kind of layer, as one that is offloaded has come back by then.
    """
    alone = micro_batch_alone(scenario)
    program = write_out(alone)
    sizes = program_sizes(program, alone.plan)
    columns = (sizes.saved_bytes, sizes.working_bytes, sizes.transient_bytes)
    layer = reduce(smaller, (sum(kind) for kind in zip(*columns, strict=True)))
    # A device with a stage of each direction has the head of one of them, half of what it keeps in the mean.
    share = 0.5 if scenario.plan.both_ways else 1.0
    head = share * bytes_of_head(alone.plan, program) + bytes_in_loss(alone, program)
    return larger(head, layer)


def sure_bytes(scenario: Scenario) -> float:
    """Return the bytes up to which a plan surely fits a device: those whose interval ends where memory does."""
    return float(scenario.cluster.device.memory_bytes) * exp(-memory_spread(scenario))


OF_CODE, OF_DEVICES = 0.09, 0.05
"""Half-widths of the 80 % interval of a device's memory, as natural logarithms.

Read from code alone, without the context and the copies that were fitted to them, six suites' fit parts miss by 7.0 %
(root mean square, suites count alike), times 1.28 (tests/validation/test_memory_spread.py). Of frameworks whose devices
were measured the four sources that state whole devices miss by 2.7 %; another source lies within Student's t of three
degrees of freedom (1.64) times sqrt(1 + 1/4) of it.
"""


def memory_spread(scenario: Scenario) -> float:
    """Return the half-width of the 80 % interval of a device's memory: whole devices were measured of NVIDIA alone."""
    framework, architecture = scenario.plan.framework, scenario.cluster.device.architecture
    measured = framework.memory.measured and not framework.is_like and architecture.startswith("sm_")
    return OF_DEVICES if measured else OF_CODE


def step_intervals(profile: Profile, spread: float) -> Mapping[str, tuple[float, float]]:
    """Return the interval of each result of a step whose time has this logarithmic half-width, memory included.

    Utilizations end where devices compute all the time.
    """
    total, factor = float(profile.memory_bytes["total"]), exp(memory_spread(profile.scenario))
    of_times = intervals(profile, dict.fromkeys((*LONGER, *SHORTER), spread))
    if "hfu" in of_times and of_times["hfu"][1] > 1.0:
        busy = float(profile.step_time_s) / _computing_s(profile)
        for key in ("mfu", "hfu"):
            low, high = of_times[key]
            of_times[key] = low, min(high, max(1.0, busy) * float(getattr(profile, key)))
    return {**of_times, "memory_bytes.total": (total / factor, total * factor)}


def _computing_s(profile: Profile) -> float:
    """Return the least seconds that a stage's arithmetic takes in a step: FLOPs at the peak.

    No operator takes more than predicted: causal attention skips about half of the scores that its FLOPs count.
    """
    peak = float(profile.peak_flops)
    found = sum(min(float(row.flops) / peak, float(row.exposed_s)) for row in profile.rows)
    return found or float(profile.step_time_s)


Ledger = Mapping[str, tuple[Number, ...]]
"""Summands of each part (``MEMORY_PARTS``, and ``REFERENCE`` where there is one) that is there."""


def terms_of(ledger: Ledger) -> tuple[Number, ...]:
    """Return the summands of all parts."""
    return tuple(term for terms in ledger.values() for term in terms)


def parts_of(ledger: Ledger) -> NumbersOnDemand:
    """Return the bytes of each part, added up when they are read."""
    names = tuple(dict.fromkeys((*MEMORY_PARTS, *ledger)))
    return NumbersOnDemand(names, lambda name: added_up(ledger.get(name, (0.0,))))


def fullest(ledgers: Sequence[Mapping[str, Number]], totals: Callable[[], Sequence[Number]]) -> NumbersOnDemand:
    """Return the bytes of each part of the ledger with the largest total, plan by plan, and that ``total``."""
    return NumbersOnDemand((*ledgers[0], "total"), _Fullest(ledgers, totals).part)


class _Fullest:
    """The choice among ledgers by their totals, made once when it is first asked for."""

    def __init__(self, ledgers: Sequence[Mapping[str, Number]], totals: Callable[[], Sequence[Number]]) -> None:
        self._ledgers, self._totals = ledgers, totals

    @cached_property
    def totals(self) -> Sequence[Number]:
        """The total of each ledger."""
        return self._totals()

    @cached_property
    def choices(self) -> list[tuple[Mapping[str, Number], object]]:
        """Each ledger but the first, and where it is fuller than all before it."""
        most, *others = self.totals
        chosen: list[tuple[Mapping[str, Number], object]] = []
        for ledger, total in zip(self._ledgers[1:], others, strict=True):
            chosen.append((ledger, total > most))
            most = larger(most, total)
        return chosen

    def part(self, name: str) -> Number:
        """Return the bytes of a part in the fullest ledger, or those of all."""
        if name == "total":
            return reduce(larger, self.totals)
        size = self._ledgers[0][name]
        for ledger, fuller in self.choices:
            if anywhere(fuller):
                size = either(fuller, ledger[name], size)
        return plain(size)


RESERVED = "reserved beyond the fullest moment"
"""Item of a stage's memory."""


class StageLedger(NamedTuple):
    """A stage's memory, and the summands of all bytes at each moment that may be the fullest."""

    memory: StageMemory
    moments: tuple[tuple[Number, ...], ...]
    on_host: tuple[Number, ...]
    """Summands of what it keeps in the host's memory."""


def fullest_stage(stages: Sequence[StageLedger]) -> NumbersOnDemand:
    """Return the parts of the stage with the largest total, plan by plan, with ``total``."""
    ledgers = [stage.memory.parts for stage in stages]
    return fullest(ledgers, lambda: [stage.memory.total for stage in stages])


class _Common(NamedTuple):
    """What all stages' ledgers share."""

    priced: Priced
    shares: StateShares
    states: PlanStates
    process: ProcessMemory
    shapes: Sequence[Shapes]
    """Of weights that have placeholders for gradients; none where the framework has none."""


def stage_ledgers(priced: Priced, times: StepTimes, counts: Sequence[Number] | None = None) -> list[StageLedger]:
    """Return the ledgers of the first, the heaviest middle and the last stage; of those that a pipeline has.

    Where the step has other stages, ``counts`` are the micro-batches whose activations each of them holds.
    """
    priced = _of_longest_rows(priced)
    plan, framework = priced.scenario.plan, priced.scenario.plan.framework
    shapes = layer_shapes(priced.program) if framework.transformer_engine.placeholder_gradients else ()
    process = process_memory(framework, priced.device_model)
    common = _Common(priced, times.shares, plan_states(plan), process, shapes)
    counts = counts or in_flight(plan.pipeline_parallel, times.micro_batches, plan.virtual_stages, plan.schedule)
    return [
        _ledger(common, _held(common, stage, sizes, count))
        for stage, sizes, count in zip(times.slots.stages, times.stage_sizes, counts, strict=True)
        if not stage.is_empty
    ]


def _of_longest_rows(priced: Priced) -> Priced:
    """The micro-batch with the longest samples, which a run meets sooner or later, where others are padded to less."""
    workload = priced.micro_batch.workload
    if workload.lengths is None or workload.packing:
        return priced
    longest = replace(workload, sequence_length=workload.longest_row, lengths=None)
    program = write_out(replace(priced.micro_batch, workload=longest))
    return replace(priced, program=program, sizes=program_sizes(program, priced.scenario.plan))


@record
class _Held:
    """What a stage's device holds."""

    stage: StageContents
    sizes: Sizes
    states: HeldStates
    gathered: Gathered
    activations: Activations
    placeholders: Number
    recomputed: Number
    transient: Number
    moved: OnHost
    weights: Number
    reference: tuple[Number, ...]
    """A second copy of the weights, frozen, where the step needs one."""
    gradients: Number
    optimizer: Number
    update: Number
    buffers: Number
    """Of libraries and collectives, for as long as the process runs."""


def _held(common: _Common, stage: StageContents, sizes: Sizes, in_flight: Number) -> _Held:
    priced, shares, process = common.priced, common.shares, common.process
    plan = priced.scenario.plan
    states = held_states(plan, common.states, sizes)
    gathered = gathered_parameters(plan, priced.sizes, stage, sizes, shares)
    moved = on_host(plan, gathered.live, gathered.layer)
    for_collectives = process.collectives + bucket_bytes(process, priced.scenario, states.gradients)
    return _Held(
        stage=stage,
        sizes=sizes,
        states=states,
        gathered=gathered,
        activations=activations(priced.scenario, priced.program, priced.sizes, stage, in_flight),
        placeholders=of_layers(stage.kinds, common.shapes, ELEMENT_BYTES[plan.high_precision_dtype])
        if common.shapes
        else 0.0,
        recomputed=most(stage, priced.sizes.working_bytes),
        transient=most(stage, priced.sizes.transient_bytes),
        moved=moved,
        weights=shares.weights.of(states.weights),
        reference=_reference(priced.scenario, sizes, shares),
        gradients=shares.gradients.of(states.gradients),
        optimizer=shares.optimizer.of(states.optimizer),
        update=_update(plan, states, shares) * (1.0 - moved.optimizer),
        buffers=(plan.replicas > 1) * for_collectives + moved.staging_bytes + _workspace(priced, stage),
    )


def _reference(scenario: Scenario, sizes: Sizes, shares: StateShares) -> tuple[Number, ...]:
    """Bytes of a reference model in the compute dtype; none where it is the trained one without its adapters.

    It is sharded as weights are; what FSDP's stage 2 has gathered for its first pass stays, with no backward pass.
    """
    if not scenario.workload.reference_passes or scenario.plan.adapter is not None:
        return ()
    whole = (scenario.plan.replicas > 1) * shares.whole_weights * sizes.stored_bytes
    return (shares.weights.of(sizes.stored) + whole,)


def _update(plan: Plan, states: HeldStates, shares: StateShares) -> Number:
    """Bytes that live only between the last backward pass and the next step: the optimizer's temporaries.

    Before them ``BF16_Optimizer`` holds a 16-bit copy of all its fp32 gradients, which replicas reduce.
    """
    temporaries, engine = shares.per_rank.of(states.update), plan.framework.zero_engine
    if engine.flattens_gradients:
        # Stage 3 goes through its subgroups; without ZeRO, gradients of bf16 are flat and in fp32 already.
        of_subgroup = (FP32_BYTES + ELEMENT_BYTES["bf16"]) * engine.subgroup_elements
        temporaries = either(plan.zero_stage == 3, smaller(temporaries, of_subgroup), temporaries)
        temporaries = temporaries * ((plan.zero_stage >= 1) | (plan.dtype == "fp16"))
    if not anywhere(bf16_optimizer(plan)):
        return temporaries
    return larger(temporaries, bf16_optimizer(plan) * (plan.replicas > 1) * 0.5 * states.gradients.total)


def _workspace(priced: Priced, stage: StageContents) -> Number:
    """Bytes that libraries and gathers hold on to."""
    plan, allocation = priced.scenario.plan, priced.scenario.plan.framework.allocation
    fixed = allocation.workspace_bytes + allocation.workspace_bytes_per_layer * stage.layers
    if not allocation.gathers_into_buffer:
        return fixed
    splits = (plan.sequence_parallel != 0) & (plan.tensor_parallel > 1)
    return fixed + splits * priced.program.embedding.boundary_bytes


def _ledger(common: _Common, kept: _Held) -> StageLedger:
    """The ledger of one stage, in bytes per device."""
    moments = _moments(common, kept)
    terms = {name: terms_of(ledger) for name, ledger in moments.items()}
    passes = tuple(summands for name, summands in terms.items() if name != BETWEEN_PASSES)
    ledgers = [parts_of(ledger) for name, ledger in moments.items() if name != BETWEEN_PASSES]
    at_peak = fullest(ledgers, lambda: list(map(added_up, passes)))
    on_host = _in_host_memory(common, kept)
    memory = StageMemory(
        stage=kept.stage.name,
        parts=NumbersOnDemand(tuple(ledgers[0]), at_peak.__getitem__),
        items=_items(common, kept, passes, on_host),
        moments=NumbersOnDemand(tuple(terms), lambda moment: added_up(terms[moment])),
    )
    return StageLedger(memory, passes, on_host)


def _moments(common: _Common, kept: _Held) -> dict[str, Ledger]:
    """What is there between passes, in the loss, in the backward pass of a layer, and in the update."""
    gathered, saved, moved = kept.gathered, kept.activations, kept.moved
    gradients = kept.gradients * (1.0 - moved.gradients)
    in_loss, in_layer = _gradients_there(common, kept)
    copy = {REFERENCE: tuple(size * (1.0 - moved.parameters) for size in kept.reference)} if kept.reference else {}

    def ledger(gradients: Number, activations: tuple[Number, ...] = (), buffers: tuple[Number, ...] = ()) -> Ledger:
        return {
            "weights": (kept.weights * (1.0 - moved.parameters),),
            **copy,
            "optimizer": (kept.optimizer * (1.0 - moved.optimizer),),
            "framework": (common.process.context,),
            "gradients": (gradients,),
            "activations": activations,
            "buffers": (kept.buffers, *buffers),
        }

    return {
        BETWEEN_PASSES: ledger(gradients),
        "loss": ledger(
            _share(in_loss, gradients), (saved.on_device, _logits(common, kept)), (gathered.loss, kept.placeholders)
        ),
        "backward of a layer": ledger(
            _share(in_layer, gradients),
            (saved.on_device, kept.recomputed - saved.head),
            (gathered.layer, kept.transient, kept.placeholders),
        ),
        "optimizer step": ledger(gradients, (), (kept.update,)),
    }


def _share(share: Number, whole: Number) -> Number:
    """A share of something; all of it is the same object, so that sums of several moments share it."""
    return whole if isinstance(share, float) and share == 1.0 else share * whole


def _logits(common: _Common, kept: _Held) -> Number:
    """Bytes of logits and loss while the loss runs, with the head's placeholder."""
    if not common.shapes:
        return kept.activations.logits
    element_bytes = ELEMENT_BYTES[common.priced.scenario.plan.high_precision_dtype]
    return kept.activations.logits + kept.stage.head * of_head(common.priced.program, element_bytes)


def _gradients_there(common: _Common, kept: _Held) -> tuple[Number, Number]:
    """Share of the gradients that exists in the loss and in a layer's backward pass.

    All of them, unless they are freed after each update: then the first micro-batch finds none, its head's first.
    """
    plan, workload = common.priced.scenario.plan, common.priced.scenario.workload
    if not plan.framework.allocation.frees_gradients:
        return 1.0, 1.0
    again = workload.global_batch > plan.data_parallel * plan.sequences
    head = kept.stage.head * common.priced.sizes.head.trained.total / larger(kept.sizes.trained.total, 1.0)
    return 1.0 * again, either(again, 1.0, head)


def _in_host_memory(common: _Common, kept: _Held) -> tuple[Number, ...]:
    """Bytes that the device keeps in the host's memory: of parameters, of other states, of activations.

    The host has gradients of what it updates, also where ZeRO-1 leaves whole ones on the device.
    """
    if not common.priced.scenario.plan.offload:
        return ()
    moved = kept.moved
    states = moved.optimizer * (common.shares.optimizer.of(kept.states.gradients) + kept.optimizer)
    weights = added_up((kept.weights, *kept.reference))
    return moved.parameters * weights, states, kept.activations.offloaded


def _items(
    common: _Common, kept: _Held, moments: Sequence[tuple[Number, ...]], on_host: tuple[Number, ...]
) -> NumbersOnDemand:
    """The ledger's finer lines."""
    saved = kept.activations

    return NumbersOnDemand(
        {
            "layer activations": lambda: saved.on_device - saved.others,
            "embedding and head activations": saved.others,
            "logits and loss": partial(_logits, common, kept),
            "recomputation working set": kept.recomputed,
            "gathered parameters": kept.gathered.layer,
            "transient tensors": kept.transient,
            "placeholders of gradients": kept.placeholders,
            "update temporaries": kept.update,
            RESERVED: partial(_reserved, common, kept, moments),
            IN_HOST_MEMORY: partial(added_up, on_host),
        }
    )


def _reserved(common: _Common, kept: _Held, moments: Sequence[tuple[Number, ...]]) -> Number:
    """Bytes that the allocator has reserved beyond the fullest of ``moments``.

    The first is the loss: its tensors are longer than any of a layer, whose temporaries left gaps between saved
    activations that are too short for them, so both are reserved. Parameters arrive in flat buffers on a stream of
    their own, for as many units as are there at once, and reduced gradients leave on another, in addition to whole
    ones.
    """
    plan, sizes, shares = common.priced.scenario.plan, common.priced.sizes, common.shares
    if not plan.framework.allocation.apart_streams:
        return 0.0
    loss, *others = map(added_up, moments)
    layer = kept.stage.head * (kept.recomputed + kept.transient)
    grown = reduce(larger, [loss + layer, *others]) - reduce(larger, [loss, *others])
    units = GATHERED_LAYERS * sizes.largest_layer_bytes(kept.stage)
    gathered = larger(units, sizes.embedding_and_head_bytes(kept.stage))
    reduced = shares.everything_sharded.of(kept.states.gradients) * (1.0 - shares.gradients_sharded)
    sharded = (plan.replicas > 1) & (plan.zero_stage >= 2)
    beyond: Number = grown + sharded * (gathered + reduced)
    return beyond
