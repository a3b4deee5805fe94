"""Prefill and decoding: how an engine cuts prompts into passes, each phase's iterations, and how many a batch needs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sightline.content import fields_of, record
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.replica import (
    Iteration,
    PricedPass,
    Worker,
    iteration_of,
    iteration_time,
    tokens_per_pass,
    worker_of,
)
from sightline.prediction.pass_times import PassTimes
from sightline.program import Batch, decoding, prompts
from sightline.program.routing import busiest_count, largest_of
from sightline.quantities import Count, Number, anywhere, distinct, either, larger, plain, rounded_up, smaller
from sightline.scenario import Disaggregation, GenerationPlan, GenerationScenario

Place = NDArray[np.intp]
"""Where each plan of a list is among the distinct ones."""
FEWEST_PLANS = 64
"""Of shorter lists every plan is priced."""
T = TypeVar("T")


def one_replica(scenario: GenerationScenario) -> tuple[GenerationScenario, Place | None]:
    """Return the distinct replicas of a list of plans, each with its share of the batch, and the place of each plan.

    What is not a list comes back as it is, with None.
    """
    plan, work = scenario.plan, scenario.workload
    sequences = rounded_up(work.batch / (plan.data_parallel * plan.replicas))
    shared = replace(work, batch=sequences * plan.data_parallel)
    # Neither moves a pass: memory is worked out plan by plan.
    replica = replace(plan, replicas=1, memory_fraction=1.0, disaggregate=None)
    parts = {"plan": fields_of(replica), "workload": fields_of(shared)}
    columns = {
        (part, name): x for part, fields in parts.items() for name, x in fields.items() if isinstance(x, np.ndarray)
    }
    device = fields_of(scenario.cluster.device).values()
    if not _is_list(list(columns.values())) or plan.speculative is not None or any(map(_holds_arrays, device)):
        return scenario, None
    first, place = distinct(list(columns.values()))
    few: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for (part, name), column in columns.items():
        few[part][name] = column[first]
    replicas = replace(scenario, plan=replace(replica, **few["plan"]), workload=replace(shared, **few["workload"]))
    return replicas, place


def of_some(scenario: GenerationScenario, chosen: Place) -> GenerationScenario:
    """Return the scenario of some plans of a list, by their places."""
    return replace(scenario, plan=_some(scenario.plan, chosen), workload=_some(scenario.workload, chosen))


def _some(described: T, chosen: Place) -> T:
    """A description with some of each list in it."""
    own = fields_of(described)
    columns = {name: value[chosen] for name, value in own.items() if isinstance(value, np.ndarray)}
    parts = {name: _some(x, chosen) for name, x in own.items() if isinstance(x, GenerationPlan | Disaggregation)}
    return replace(described, **columns, **parts)  # type: ignore[type-var]


def _is_list(columns: list[NDArray[Any]]) -> bool:
    return len({column.shape for column in columns}) == 1 and columns[0].ndim == 1 and columns[0].size >= FEWEST_PLANS


def _holds_arrays(value: object) -> bool:
    return any(map(_holds_arrays, value.values())) if isinstance(value, dict) else isinstance(value, np.ndarray)


PhaseName: TypeAlias = Literal["prefill", "decode"]
PHASES: tuple[PhaseName, ...] = ("prefill", "decode")
TOGETHER = 0.25
"""Share of a full pass in which prompts of equal length come: successors of sequences that ended in one step meet the
next step in part, the rest the one after it, and groups part and join again. Fitted to steady loops of TensorRT-LLM."""


@record
class Chunks:
    """How prompts are cut into passes."""

    prompts: Number
    """Prompts that wait together."""
    sequences: Number
    """Prompts that a pass takes at once."""
    new_tokens: Number
    """Tokens of each that it takes."""
    context_tokens: Number
    """Mean tokens of each that were processed before."""
    passes: Number = 1.0
    """Passes until all of them are processed."""
    share: Number = 1.0
    """Passes with prompts on a rank over those with any on some of the ranks that wait for each other."""
    evenness: Number = 1.0
    """New tokens of a pass on the mean of these ranks over those on the busiest."""
    micro_batches: Number
    """Such passes that fill the pipeline one after the other."""


def cut(scenario: GenerationScenario, sequences: Number) -> Chunks:
    """Return how a rank's prompts are cut: whole where the token budget holds them, else in equal chunks.

    In a steady loop prompts arrive as sequences end: ``a`` in a step on average, and ``a / (1 - exp(-a))`` in a step
    with any, as ends that know nothing of each other do. Sequences of equal length that were prefilled in one pass end
    in one step, so that their successors come in groups (``TOGETHER``). Where prompts come faster than steps take them
    along, chunks fill what the decoding sequences leave of each step's budget.
    """
    plan, work = scenario.plan, scenario.workload
    budget = plan.max_batched_tokens
    new = new_tokens(scenario)
    reused = work.prompt_tokens - new
    arriving: Number = sequences / work.output_tokens if work.continuous else sequences
    if work.continuous and not work.equal_lengths:
        arriving = smaller(arriving / -np.expm1(-arriving), sequences)
    elif work.continuous and budget is not None:
        arriving = smaller(sequences, larger(np.floor(budget / new * TOGETHER), arriving))
    parts = micro_batches(plan, arriving, new)
    waiting = larger(arriving / parts, 1.0)
    if budget is None:
        return Chunks(prompts=waiting, sequences=waiting, new_tokens=new, context_tokens=reused, micro_batches=parts)
    pieces = either(plan.chunked_prefill, rounded_up(new / budget), 1.0)
    piece = new / pieces
    together = smaller(larger(budget // piece, 1.0), waiting)
    rounds = waiting / together if work.continuous else rounded_up(waiting / together)
    if work.continuous and plan.engine.scheduling.mixed_batches:
        cut_room, whole_room = budget * new / (new + work.output_tokens), larger(budget // new, 1.0) * new
        room = either(plan.chunked_prefill, cut_room, whole_room)
        fills = sequences * new > room * (work.output_tokens + pieces)
        piece = either(fills, smaller(new, room), piece)
        rounds = either(fills, waiting * piece / room, rounds)
    return Chunks(
        prompts=waiting,
        sequences=waiting / rounds,
        new_tokens=piece,
        context_tokens=reused + (new - piece) / 2.0,
        passes=new / piece * rounds,
        micro_batches=parts,
    )


def in_lockstep(scenario: GenerationScenario, sequences: Number, chunks: Chunks) -> Chunks:
    """Return the chunks of ranks that share experts and run their passes together, in a steady loop.

    With prompts in a share ``b`` of a rank's passes, some of ``d`` ranks has any in ``1 - (1 - b)^d`` of all passes,
    and all wait for the busiest (`busiest_count`), or for the chunk behind most tokens: ``k`` ranks with chunks from
    anywhere in prompts have one at ``k / (k + 1)`` of them. Left out: prompts of unlike lengths, ranks of which one has
    more sequences than another, and how long prompts wait for others where the plan balances them.
    """
    plan, work = scenario.plan, scenario.workload
    ranks = plain(plan.groups(scenario.model))
    if not work.continuous or work.equal_lengths or plan.balanced_prompts or not anywhere(ranks > 1):
        return chunks
    arriving = sequences / work.output_tokens
    busy = arriving / (chunks.prompts * chunks.micro_batches) * chunks.passes
    busy = smaller(busy, 1.0) if plan.engine.scheduling.mixed_batches else busy / (1.0 + busy)
    idle = 1.0 - busy
    share = either(ranks > 1, busy / (1.0 - idle ** (1.0 * ranks)), 1.0)
    fewest = (1.0 - idle ** (1.0 + ranks)) / ((1.0 + ranks) * busy) - idle ** (1.0 * ranks)
    farther = either(ranks > 1, 0.5 - fewest * share / busy, 0.0)
    more = larger(smaller(busiest_count(ranks, arriving), sequences) / (chunks.prompts * chunks.micro_batches), 1.0)
    if plan.max_batched_tokens is not None:
        more = larger(smaller(more, plan.max_batched_tokens / (chunks.sequences * chunks.new_tokens)), 1.0)
    more = either(ranks > 1, more, 1.0)
    return replace(
        chunks,
        prompts=chunks.prompts * share,
        sequences=chunks.sequences * more,
        context_tokens=chunks.context_tokens + farther * (new_tokens(scenario) - chunks.new_tokens),
        share=share,
        evenness=share / more,
    )


def new_tokens(scenario: GenerationScenario) -> Number:
    """Return the tokens of each prompt that no prefix cache holds."""
    work = scenario.workload
    return larger(work.prompt_tokens - (work.prefix_tokens * 1.0 if scenario.plan.prefix_cache else 0.0), 1.0)


def micro_batches(plan: GenerationPlan, sequences: Number, new_tokens: Number) -> Number:
    """Parts that a rank's ``sequences`` of ``new_tokens`` each are cut into; 1 where the engine cuts nothing.

    As many as there are stages, or by the engine's rule of ``micro_batch_tokens``.
    """
    p, b, scheduling = plan.pipeline_parallel, larger(sequences, 1.0), plan.engine.scheduling
    if not scheduling.pipeline_micro_batches:
        return 1.0
    if scheduling.micro_batch_tokens is None:
        return smaller(p, b) * 1.0
    return either(p == 1, 1.0, _halved(b, p, new_tokens, scheduling.micro_batch_tokens))


def _halved(b: Number, p: Count, q: Number, most: float) -> Number:
    """Stages share a batch that they divide; it is then halved as long as it is even and has too many tokens."""
    whole = np.ceil(b).astype(int)
    part = np.where(whole % p == 0, whole // p, whole)
    even = np.log2(part & -part)  # how often it can be halved: its lowest set bit
    needed = np.ceil(np.log2(np.maximum(part * q / most, 1.0)))
    parts: Number = whole / part * 2.0 ** np.minimum(even, needed)
    return parts


@record
class PricedGeneration:
    """The passes of a scenario with the prices of their operators, whatever engine runs them.

    Of a list of plans the passes are those of its distinct replicas, and `of_each` says which a plan has.
    """

    scenario: GenerationScenario
    worker: Worker
    chunks: Chunks
    passes: Mapping[PhaseName, PricedPass]
    step_parts: Number
    """Micro-batches that a decode step is cut into."""
    place: Place | None = None
    """Which of the distinct replicas each plan of a list has."""

    @property
    def prefill(self) -> PricedPass:
        """The pass of prompts, which workers that only decode lack."""
        return self.passes["prefill"]

    @property
    def decode(self) -> PricedPass:
        """The pass of a decode step, which workers that only prefill lack."""
        return self.passes["decode"]

    @property
    def prompts(self) -> Number:
        """Prompts that wait together, of each plan."""
        return self.of_each(self.chunks.prompts)

    def of_each(self, number: Number) -> Number:
        """Return a figure of the distinct replicas for each plan of a list; any other as it is."""
        return number[self.place] if self.place is not None and isinstance(number, np.ndarray) else number

    def of_some(self, chosen: Place) -> "PricedGeneration":
        """Return the same of some plans of a list, by their places."""
        if self.place is None:
            return price_generation(of_some(self.scenario, chosen), tuple(self.passes))
        return replace(self, scenario=of_some(self.scenario, chosen), place=self.place[chosen])

    def shared_s(self, constants: InferenceConstants) -> Number:
        """Return the seconds on the device of a pass over the prompts and the decoding sequences together."""
        groups = [group for one in self.passes.values() for group in one.kernels.batch.groups]
        return self.of_each(iteration_time(self.worker, Batch.of(*groups), constants).times.device_s)


def price_generation(scenario: GenerationScenario, phases: Sequence[PhaseName] = PHASES) -> PricedGeneration:
    """Write the passes of the scenario's ``phases`` out and price their operators together."""
    replicas, place = one_replica(scenario)
    plan, work = replicas.plan, replicas.workload
    worker = worker_of(replicas)
    # Sequences of the busiest data-parallel rank.
    sequences = rounded_up(work.batch / (plan.data_parallel * plan.replicas))
    chunks = in_lockstep(replicas, sequences, cut(replicas, sequences))
    new = 1.0 + plan.drafted(sequences)
    in_turns = smaller(plan.expert_micro_batches, sequences)
    parts = micro_batches(plan, sequences, new) * in_turns
    context = work.prompt_tokens + work.output_tokens / 2.0
    if work.continuous and not work.equal_lengths:
        # Of ranks that wait for each other the one with most tokens in its cache: sequences are anywhere in answers.
        context = (
            context + largest_of(plain(plan.groups(replicas.model))) * work.output_tokens / (12.0 * sequences) ** 0.5
        )
    together = prompts(chunks.sequences, chunks.new_tokens, chunks.context_tokens)
    batches = {
        "prefill": Batch.of(replace(together, evenness=plain(chunks.evenness))),
        "decode": Batch.of(decoding(sequences / parts, context, new), in_turns=in_turns),
    }
    priced = worker.priced([batches[phase] for phase in phases])
    return PricedGeneration(
        scenario=scenario,
        worker=worker,
        chunks=chunks,
        passes=dict(zip(phases, priced, strict=True)),
        step_parts=parts,
        place=place,
    )


LAUNCH_QUEUE = 1024.0
"""Kernels that wait on a device before the next launch waits for one of them to start: the depth of CUDA's queue."""


@record
class Phase(Iteration):
    """One phase: the seconds of an iteration, and how many iterations a batch needs."""

    passes: Number

    def of_each(self, priced: PricedGeneration) -> "Phase":
        """Return the phase of each plan, where this is that of distinct replicas."""
        if priced.place is None:
            return self
        times = PassTimes(*map(priced.of_each, self.times))
        transfer_s, host_s, passes = map(priced.of_each, (self.transfer_s, self.host_s, self.passes))
        return Phase(times=times, transfer_s=transfer_s, host_s=host_s, passes=passes)

    def scaled(self, factor: Number) -> "Phase":
        """Return the phase with other seconds of an iteration: ``factor`` of all of them."""
        times, transfer_s, host_s = self.times.times(factor), self.transfer_s * factor, self.host_s * factor
        return Phase(times=times, transfer_s=transfer_s, host_s=host_s, passes=self.passes)


def _phase(priced: PricedGeneration, iteration: Iteration, passes: Number) -> Phase:
    phase = Phase(times=iteration.times, transfer_s=iteration.transfer_s, host_s=iteration.host_s, passes=passes)
    return phase.of_each(priced)


def prefill_phase(priced: PricedGeneration, constants: InferenceConstants) -> Phase:
    """Return the passes of prompts, or of chunks of them."""
    chunks, p = priced.chunks, priced.worker.plan.pipeline_parallel * 1.0
    iteration = iteration_of(priced.worker, priced.prefill, constants, chunks.micro_batches)
    if not priced.worker.plan.engine.llama_cpp.pipelines_chunks:
        return _phase(priced, iteration, chunks.passes)
    launches = iteration.times.launches * p / (p + chunks.micro_batches - 1.0)
    return _phase(priced, iteration, pipelined_passes(priced, launches))


def pipelined_passes(priced: PricedGeneration, launches: Number) -> Number:
    """Return the passes until every prompt is processed where chunks follow each other through equal stages.

    They are (p + n - 1) / p of n. One thread launches all stages' kernels, and the next pass only once the last stage's
    queue took the one before. With room for ``c`` passes in a queue, ``f = floor(c) + 1`` of them are on their way
    before the host waits until the last stage is through with all but ``c`` of them, ``p - 1 + f - c`` stages after the
    first of them began. A queue that does not hold a stage's kernels leaves next to nothing of the overlap: 4-bit
    weights of 80 layers on two or four devices gain 8 % from a second piece, not 38 %. The head counts as a layer where
    layers are split over stages, so that the stage that sets the pace has up to one more than its share.
    """
    plan, n, layers = priced.worker.plan, priced.chunks.passes, priced.worker.model.layers
    p = plan.pipeline_parallel * 1.0
    room = LAUNCH_QUEUE * p / (launches + plan.engine.llama_cpp.joined_kernels * layers)
    together = np.floor(room) + 1.0
    group = larger(together, p - 1.0 + together - room)
    begun = np.floor((n - 1.0) / together) * group + (n - 1.0) % together
    longest = either(p > 1.0, rounded_up((layers + 1.0) / p) / layers, 1.0)
    return begun * longest + 1.0


def decode_phase(priced: PricedGeneration, constants: InferenceConstants) -> Phase:
    """Return the decode steps of all sequences."""
    iteration = iteration_of(priced.worker, priced.decode, constants, priced.step_parts)
    further = larger(priced.worker.scenario.workload.output_tokens - 1.0, 0.0)
    return _phase(priced, iteration, further / tokens_per_pass(priced.worker.plan, priced.decode.kernels.batch))
