"""Scheduling policies: which iterations a sequence waits for and takes part in, from its arrival to its last token.

A policy says what is priced and how a sequence passes through it; what an iteration takes is `iteration_time`. A new
one is an entry of `POLICIES` with these two functions and one that says when it applies.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.memory import further_activations, generation_memory
from sightline.prediction.generation.phases import (
    Phase,
    PhaseName,
    Place,
    PricedGeneration,
    decode_phase,
    new_tokens,
    of_some,
    prefill_phase,
    price_generation,
)
from sightline.prediction.generation.replica import intake_s
from sightline.profile.metrics import latency_s, output_tokens_per_s
from sightline.program.blocks.layer import cached_bytes
from sightline.program.formats import Formats
from sightline.quantities import Number, anywhere, either, larger, rounded_up, smaller
from sightline.scenario import Generate, GenerationScenario, Model, Network


@record
class Workers:
    """Who prefills and who decodes: the same workers, or disaggregated ones with a transfer between them."""

    scenario: GenerationScenario
    prefilling: PricedGeneration
    decoding: PricedGeneration
    prefill_constants: InferenceConstants | None = None
    """The engine's constants where prompts are processed, on other devices than decode; None: the same."""
    lighter: Sequence[PricedGeneration] = ()
    """Decoding at ``LIGHTER`` of the batch; none unless prompts may arrive too slowly to keep all decoding."""
    moved_s: Number = 0.0
    """Seconds of a prompt's keys and values on their way from one to the other."""

    def of_some(self, chosen: Place) -> "Workers":
        """Return the workers of some plans of a list, by their places."""
        own = {id(priced): priced.of_some(chosen) for priced in (self.prefilling, self.decoding, *self.lighter)}
        moved_s = self.moved_s[chosen] if isinstance(self.moved_s, np.ndarray) else self.moved_s
        return replace(
            self,
            scenario=of_some(self.scenario, chosen),
            prefilling=own[id(self.prefilling)],
            decoding=own[id(self.decoding)],
            lighter=[own[id(priced)] for priced in self.lighter],
            moved_s=moved_s,
        )


@record
class Course:
    """A sequence's way through the iterations of its workers."""

    decode: Phase
    """The decode steps that it takes part in."""
    rounds: Number = 1.0
    """Prefills from its arrival to the end of its own."""
    ahead: Number = 0.0
    """Decode steps that it waits for before its prefill."""
    replaced: Number = 0.0
    """Prefills of others that hold its decoding up."""
    apart_s: Number = 0.0
    """Seconds of such a prefill that none but its own prompts wait for."""
    waves: Number = 1.0
    """Sequences in flight over those that run at a time, where the others wait for all of a running one's time."""


class Policy(NamedTuple):
    """When prompts are processed, and when the sequences that they belong to are decoded."""

    name: str
    applies: Callable[[GenerationScenario], bool]
    price: Callable[[GenerationScenario], Workers]
    """Prices the passes of all workers, whatever engine runs them."""
    course: Callable[[Workers, Phase, Phase, InferenceConstants], Course]
    """A sequence's way, from the workers' prefill and decode phases."""
    admitted: Callable[[Workers], Workers] = lambda workers: workers
    """The workers with the sequences that run at a time, where limits or memory let others wait."""


def policy_of(scenario: GenerationScenario) -> Policy:
    """Return the policy that a scenario asks for, the first of `POLICIES` that applies."""
    return next(policy for policy in POLICIES if policy.applies(scenario))


def price_workers(scenario: GenerationScenario) -> Workers:
    """Price the passes of all workers, whatever engine runs them."""
    policy = policy_of(scenario)
    return policy.admitted(policy.price(scenario))


# A static batch: all prompts are prefilled, then all sequences are decoded to their end.


def _static_workers(scenario: GenerationScenario) -> Workers:
    priced = price_generation(scenario)
    return Workers(scenario=scenario, prefilling=priced, decoding=priced)


def _static_course(workers: Workers, _prefill: Phase, decode: Phase, _constants: InferenceConstants) -> Course:
    return Course(decode=decode, ahead=_steps_ahead(workers))


def _steps_ahead(workers: Workers) -> Number:
    """Decode steps that prompts wait for before their prefill, of a batch that is sent again and again.

    An engine that takes a request as soon as it is idle is always one sequence ahead: that one's step runs when the
    others' prompts arrive, which end together and are sent together.
    """
    work = workers.scenario.workload
    if not workers.scenario.plan.engine.lmdeploy.first_alone or work.continuous:
        return 0.0
    return (workers.decoding.prompts > 1.0) * 1.0


# A steady loop of continuous batching: every other sequence is replaced once while one makes its tokens. One that
# decodes is held up by the prefills among its own steps, one that waits for its prefill by the others.


def _resident_workers(workers: Workers) -> Workers:
    priced = of_resident(workers.decoding)
    return replace(workers, prefilling=priced, decoding=priced)


def of_resident(priced: PricedGeneration) -> PricedGeneration:
    """Return the passes of the sequences that run at a time, where a steady loop asks for more; others wait.

    An engine that reserves a sequence's whole cache admits fewer than one that hands out blocks as sequences grow,
    whose sequences on average stand half-way. Where not even one sequence a rank fits, the question stays as it was
    asked. Left out: what is computed again after a growing sequence had to be put off.
    """
    fitting = _fitting(priced)
    batch = priced.scenario.workload.batch
    if not anywhere(fitting < batch):
        return priced
    work = replace(priced.scenario.workload, batch=smaller(fitting, batch))
    return price_generation(replace(priced.scenario, workload=work))


def _fitting(priced: PricedGeneration) -> Number:
    """Sequences of all ranks that run, their caches next to the weights; as many as may where not one fits."""
    plan, work, device = priced.scenario.plan, priced.scenario.workload, priced.scenario.cluster.device
    memory = generation_memory(priced, priced, work)
    others = memory["total"] - memory["kv_cache"] + further_activations(priced)
    room = device.memory_bytes * plan.memory_fraction - others
    whole = work.prompt_tokens + work.output_tokens
    kept = 1.0 if plan.engine.serving.reserves == "answer" else (work.prompt_tokens + work.output_tokens / 2.0) / whole
    batch = plan.running(work.batch)
    fitting = np.floor(batch * smaller(room / larger(memory["kv_cache"] * kept, 1.0), 1.0))
    ranks = plan.data_parallel * plan.replicas
    return smaller(either(fitting >= ranks, fitting, batch), ranks * _beside_prompts(priced.scenario))


def _beside_prompts(scenario: GenerationScenario) -> Number:
    """Sequences of a rank that run at once: where steps take whole prompts along, the token budget holds both."""
    plan = scenario.plan
    if plan.max_batched_tokens is None or not plan.engine.scheduling.mixed_batches:
        return np.inf
    left = larger(plan.max_batched_tokens - new_tokens(scenario), 0.0)
    return either(plan.chunked_prefill, np.inf, 1.0 + left // (1.0 + plan.drafted_tokens))


def _steady_course(workers: Workers, prefill: Phase, decode: Phase, constants: InferenceConstants) -> Course:
    """A sequence's way, of which the times of all parts add up to a round of the loop (Little's law).

    A request comes when another one's last token left and the next iteration has begun, which it waits for, and for one
    more where that is scheduled already (vLLM 0.11 ``step_with_batch_queue``, SGLang 0.5 ``event_loop_overlap``). Where
    prompts go first it decodes once nobody waits. Where steps take prompts along it decodes from its own prefill on,
    so that no more passes of others fall into its decoding than it has steps: the others it has waited for.
    """
    plan, work = workers.scenario.plan, workers.decoding.scenario.workload
    # Little's law: a request that waits for a place waits until enough running requests finish.
    waves = workers.scenario.workload.batch / work.batch
    priced = workers.prefilling
    share = priced.of_each(priced.chunks.share)
    # A server takes prompts in while its engine, which schedules ahead, goes on with others.
    taken_in_s = priced.of_each(intake_s(priced.worker, priced.prefill, constants, priced.chunks.micro_batches))
    prefill = replace(prefill, host_s=prefill.host_s - taken_in_s)
    # Those that were prefilled with it hold nobody up.
    together = priced.prompts * priced.of_each(priced.chunks.micro_batches)
    rest = larger(work.batch / (plan.data_parallel * plan.replicas) - together, 0.0)
    # Beside its own prompt come as many as in any step: more than beside that of a mean pass.
    own = 1.0 if work.equal_lengths else larger((1.0 + rest / work.output_tokens) * share / together, 1.0)
    # Who is alone waits for no step of others.
    others, accompanied = rest / priced.prompts, smaller(rest, 1.0)
    begun = accompanied * begun_ahead(priced)
    if not plan.engine.scheduling.mixed_batches:
        # Equally long sequences come in waves: each waits for half of its wave before its prefill, for half behind it.
        waited, shared = others * (0.5 if work.equal_lengths else 0.0), others * prefill.passes
        # Where another rank's prompts are processed, this one's sequences decode meanwhile.
        decode = replace(decode, passes=larger(decode.passes - shared * (1.0 - share), 0.0))
        behind = begun / larger(decode.passes + shared + begun, 1.0)
        replaced = (others - waited) * (1.0 - behind)
        rounds, ahead = own + others - replaced, (decode.passes + begun) * behind
    else:
        taken = 1.0 - _spared(workers.decoding, prefill, decode, constants)
        iterations, shared = decode.passes + begun, others * prefill.passes
        passes = iterations - smaller(shared, iterations) * (1.0 - taken)
        behind = 1.0 - decode.passes / larger(larger(shared, iterations), 1e-9)
        decode, replaced = replace(decode, passes=passes * (1.0 - behind)), others * (1.0 - behind)
        rounds, ahead = own + others * behind, passes * behind + accompanied * prefill.passes * taken
    return Course(decode=decode, rounds=rounds, ahead=ahead, replaced=replaced, apart_s=taken_in_s, waves=waves)


def _spared(priced: PricedGeneration, prefill: Phase, decode: Phase, constants: InferenceConstants) -> Number:
    """Which share of a decode step is spared where a prefill takes it along.

    What the tokens of both take on the device longer than the prompts alone stays, and no less than what the step takes
    longer than the prefill. Left out: the engine's own code for the decoding sequences of such a pass, as its constants
    were fitted.
    """
    beyond_s = larger(priced.shared_s(constants) - prefill.times.device_s, decode.pass_s - prefill.pass_s)
    return 1.0 - smaller(larger(beyond_s / decode.pass_s, 0.0), 1.0)


# Disaggregated pools: workers that only prefill hold nobody up, but their prompts wait for each other.

LIGHTER = (0.25, 0.1)
"""Shares of the sequences, one at least, at which a step is priced again: between, its time is a straight line; a step
of fewer takes as long as the last."""


def _pooled_workers(scenario: GenerationScenario) -> Workers:
    """Price workers that only prefill, workers that only decode, and what moves between them."""
    split, work = scenario.plan.disaggregate, scenario.workload
    if split is None:
        raise TypeError("the plan has no pools")

    def priced(phase: PhaseName, **changes: Any) -> PricedGeneration:
        return price_generation(replace(scenario, **changes), (phase,))

    batch = split.prefill_batch * split.prefill.replicas
    apart = split.prefill_cluster or scenario.cluster
    prompts = replace(work, batch=batch, continuous=False)
    prefilling = priced("prefill", workload=prompts, plan=split.prefill, cluster=apart)
    # How prompts are cut is no matter of workers that only decode.
    uncut = replace(scenario.plan, max_batched_tokens=None, chunked_prefill=False)
    running = replace(work, batch=uncut.running(work.batch))
    fewer = [replace(work, batch=larger(share * running.batch, 1.0)) for share in LIGHTER if work.continuous]
    return Workers(
        scenario=scenario,
        prefilling=prefilling,
        decoding=priced("decode", plan=uncut, workload=running),
        lighter=[priced("decode", plan=uncut, workload=few) for few in fewer],
        moved_s=transfer_s(scenario.model, prefilling.worker.formats, work.prompt_tokens * 1.0, apart.network),
    )


def transfer_s(model: Model, formats: Formats, prompt_tokens: Number, network: Network) -> Number:
    """Return the seconds that a prompt's keys and values take to other workers, on all ports of a node.

    Left out: that engines begin before all layers or chunks of a prompt are processed, and faster links inside a node.
    """
    return cached_bytes(model, formats, prompt_tokens) / network.bandwidth_per_node


def _pooled_course(workers: Workers, prefill: Phase, decode: Phase, constants: InferenceConstants) -> Course:
    """A sequence's way through both pools.

    The engines of this policy send the first token once a sequence has a place where it decodes. In a steady loop all
    others leave one for as long as they decode (Little's law): what its prompt and transfer leave of that it waits.
    """
    work, prefill_s = workers.scenario.workload, prefill.passes * prefill.pass_s
    places = workers.decoding.scenario.workload.batch * 1.0
    if workers.lighter:
        arrival_s = prefill_s / _prompts_together(workers.prefilling)
        lighter = [(few.scenario.workload.batch * 1.0, decode_phase(few, constants).pass_s) for few in workers.lighter]
        under_way_s = prefill_s + workers.moved_s
        decode = _supplied_step(decode, places, work.batch * 1.0, lighter, arrival_s, under_way_s)
    rounds = _prefill_rounds(work, workers.prefilling, prefill_s, decode, workers.moved_s)
    waited = (work.batch / places - 1.0) * decode.passes - (rounds * prefill_s + workers.moved_s) / decode.pass_s
    return Course(decode=decode, rounds=rounds, ahead=_steps_ahead(workers) + larger(waited, 0.0))


def _prompts_together(priced: PricedGeneration) -> Number:
    """The prompts that all prefill workers process at the same time."""
    plan = priced.scenario.plan
    return larger(priced.prompts, 1.0) * plan.data_parallel * plan.replicas


def _prefill_rounds(
    work: Generate, prefilling: PricedGeneration, prefill_s: Number, decode: Phase, moved_s: Number
) -> Number:
    """The prefills from a prompt's arrival to the end of its own on workers that only prefill.

    Of a static batch the last prompt counts. In a steady loop a sequence takes at least as long as the workers need for
    the prompts of all others (Little's law): what decoding leaves of that it waits.
    """
    needed = work.batch / _prompts_together(prefilling)
    if not work.continuous:
        return rounded_up(needed)
    away_s = decode.passes * decode.pass_s + moved_s
    return larger(needed - away_s / prefill_s, 1.0)


def _supplied_step(
    full: Phase,
    places: Number,
    served: Number,
    lighter: Iterable[tuple[Number, Number]],
    arrival_s: Number,
    under_way_s: Number,
) -> Phase:
    """The step of as many sequences as prefill workers keep supplied; the others wait for their first token.

    ``full`` is the step of all ``places`` for those that are ``served``, ``lighter`` are fewer sequences and the
    seconds of their steps. In between a step of ``n`` takes ``f(n) = least + slope n`` seconds. Prompts arrive at most
    every ``arrival_s``, so that ``n arrival_s <= steps f(n)``; those that are ``under_way_s`` do not decode yet, so
    that ``n (1 + under_way_s / (steps f(n))) <= served``. Both are solved for ``f``, stretch by stretch: less of any of
    these times never lengthens it. Left out: bursts of arrivals, and sequences that take longer together than apart.
    """
    step_s, upper, upper_s, steps = full.pass_s, places, full.pass_s, larger(full.passes, 1.0)
    away_s = under_way_s / steps
    for fewer, alone_s in lighter:
        fewer_s = smaller(larger(alone_s, upper_s * (fewer / upper)), upper_s)
        slope = (upper_s - fewer_s) / larger(upper - fewer, 1e-9)
        least, arrived = larger(upper_s - slope * upper, 0.0), slope * steps / arrival_s
        supplied_s = either(arrived < 1.0, least / larger(1.0 - arrived, 1e-12), upper_s)
        rest_s = least + slope * served - away_s
        decoding_s = (rest_s + (rest_s**2 + 4.0 * least * away_s) ** 0.5) / 2.0
        step_s = step_s - upper_s + smaller(larger(smaller(decoding_s, supplied_s), fewer_s), upper_s)
        upper, upper_s = fewer, fewer_s
    return full.scaled(step_s / full.pass_s)


POLICIES = (
    Policy("disaggregated pools", lambda of: of.plan.disaggregate is not None, _pooled_workers, _pooled_course),
    Policy("steady loop", lambda of: of.workload.continuous, _static_workers, _steady_course, _resident_workers),
    Policy("static batch", lambda _: True, _static_workers, _static_course),
)
"""The first that applies to a scenario answers it."""


@record
class Latencies:
    """What a user of the engine sees, and the phases behind it."""

    workers: Workers
    ttft_s: Number
    tpot_s: Number
    prefill: Phase
    decode: Phase
    prefills: Number
    """Prefill passes from a sequence's arrival to its end: those it waits for, its own, and in a steady loop its
    successors'."""
    steps: Number
    """Decode steps of the same time."""

    @property
    def latency_s(self) -> Number:
        """From arrival to the last token."""
        return latency_s(self.workers.scenario.workload, self.ttft_s, self.tpot_s)

    @property
    def output_tokens_per_s(self) -> Number:
        """Tokens generated per second on the whole cluster."""
        return output_tokens_per_s(self.workers.scenario.workload, self.ttft_s, self.tpot_s)

    def paced(self, first: Number, further: Number) -> "Latencies":
        """Return the latencies with factors on the time to first token and per further token; phases follow both."""
        ttft_s, tpot_s = self.ttft_s * first, self.tpot_s * further
        whole = latency_s(self.workers.scenario.workload, ttft_s, tpot_s) / self.latency_s
        return replace(
            self,
            workers=replace(self.workers, moved_s=self.workers.moved_s * whole),
            ttft_s=ttft_s,
            tpot_s=tpot_s,
            prefill=self.prefill.scaled(whole),
            decode=self.decode.scaled(whole),
        )


def latencies(workers: Workers, constants: InferenceConstants) -> Latencies:
    """Return time to first token and per further token under an engine."""
    scenario, work = workers.scenario, workers.scenario.workload
    prefill = prefill_phase(workers.prefilling, workers.prefill_constants or constants)
    decode = decode_phase(workers.decoding, constants)
    course = policy_of(scenario).course(workers, prefill, decode, constants)
    decode, apart_s, prefills = course.decode, course.apart_s, course.rounds + course.replaced
    others_s = prefill.passes * (prefill.pass_s - apart_s)
    first_s = course.rounds * others_s + prefill.passes * apart_s + workers.moved_s + course.ahead * decode.pass_s
    further_s = decode.passes * decode.pass_s + course.replaced * others_s
    return Latencies(
        workers=workers,
        ttft_s=first_s + (course.waves - 1.0) * (first_s + further_s),
        tpot_s=further_s / either(work.output_tokens > 1, work.output_tokens - 1.0, np.nan),
        prefill=replace(prefill, host_s=prefill.host_s - apart_s * (1.0 - 1.0 / prefills)),
        decode=decode,
        prefills=course.waves * prefill.passes * prefills,
        steps=course.waves * (decode.passes + course.ahead),
    )


def in_step_s(found: Latencies) -> Number:
    """Return the seconds to the first token if all sequences of equal length start and end in full passes; else 0.

    So does a closed loop of equal requests that began together on engines whose steps take prompts along: each prompt
    waits for the full passes that are under way. Loops whose groups parted (``TOGETHER``) wait less.
    """
    priced, work = found.workers.prefilling, found.workers.decoding.scenario.workload
    plan, chunks = found.workers.scenario.plan, priced.chunks
    budget, mixed = plan.max_batched_tokens, plan.engine.scheduling.mixed_batches and plan.disaggregate is None
    if not (mixed and work.continuous and work.equal_lengths):
        return 0.0
    sequences, new = work.batch / (plan.data_parallel * plan.replicas), new_tokens(priced.scenario)
    full = sequences if budget is None else smaller(sequences, larger(budget // new, 1.0))
    passes = 1.0 + smaller(begun_ahead(priced), sequences / full - 1.0)
    return passes * found.prefill.pass_s * full * new / priced.of_each(chunks.sequences * chunks.new_tokens)


def begun_ahead(priced: PricedGeneration) -> float:
    """Return the iterations that are under way, or scheduled already, when a request comes."""
    return 2.0 if priced.worker.schedules_ahead else 1.0
