"""The prediction of generation: a batch's prefill and its decode steps, assembled into a profile."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sightline.cost.clock import at_its_clock
from sightline.prediction.energy import energy_of_generation_j
from sightline.prediction.engine_constants import ONE_BY_ONE, InferenceConstants, borrowed_releases, load_inference
from sightline.prediction.generation_advice import what_would_fit
from sightline.prediction.generation_evidence import evidence_of_passes
from sightline.prediction.generation_interval import generation_intervals
from sightline.prediction.generation_memory import generation_memory
from sightline.prediction.generation_phases import Phase, decode_phase, prefill_phase
from sightline.prediction.generation_pricing import PricedGeneration, price_generation
from sightline.prediction.generation_rows import generation_rows
from sightline.prediction.resident_sequences import of_resident
from sightline.prediction.steady_loop import LIGHTER, held_up, supplied_step, without_shared
from sightline.profile import Profile
from sightline.profile.metrics import latency_s, output_tokens_per_s
from sightline.program.cache import cached_bytes
from sightline.program.matmul_formats import conversion
from sightline.quantities import Number
from sightline.scenario import GenerationScenario

Predict = Callable[[GenerationScenario], Profile]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workers:
    """Who prefills and who decodes: the same workers, or disaggregated ones with a transfer between them."""

    scenario: GenerationScenario
    prefilling: PricedGeneration
    decoding: PricedGeneration
    lighter: PricedGeneration | None = None
    """Decoding at ``LIGHTER`` of the batch; None unless prompts may arrive too slowly to keep all decoding."""
    moved_s: Number
    """Seconds of a prompt's keys and values on their way from one to the other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latencies:
    """What a user of the engine sees, and the phases behind it."""

    workers: Workers
    ttft_s: Number
    tpot_s: Number
    prefill: Phase
    decode: Phase
    prefills: Number
    """Prefill passes during the life of a sequence: those it waits for, its own, and in a steady loop its successors'."""
    steps: Number
    """Decode steps of the same time."""
    turns: Number
    """Sequences in flight over those that memory holds at a time: lives from a sequence's arrival to its end."""

    @property
    def latency_s(self) -> Number:
        """From arrival to the last token."""
        return latency_s(self.workers.scenario.workload, self.ttft_s, self.tpot_s)

    @property
    def output_tokens_per_s(self) -> Number:
        """Tokens generated per second on the whole cluster."""
        return output_tokens_per_s(self.workers.scenario.workload, self.ttft_s, self.tpot_s)


def predict_generation(scenario: GenerationScenario, constants: InferenceConstants | None = None) -> Profile:
    """Predict a batch's generation; sizes and degrees may be arrays that broadcast.

    ``constants`` replace those of the catalog's engine, as a fit does.
    """
    again = partial(predict_generation, constants=constants)
    engine, evidence = scenario.plan.engine, "given"
    workers = price_workers(scenario)
    if constants is None and not workers.decoding.ranks.device_model.asynchronous:
        constants, evidence = ONE_BY_ONE, "estimated"
    elif constants is None:
        constants, evidence = load_inference(engine.name, engine.version)
    return _profile(workers, latencies(workers, constants), constants, evidence, again)


def price_workers(scenario: GenerationScenario) -> Workers:
    """Price the passes of all workers, whatever engine runs them."""
    decoding = price_generation(at_its_clock(scenario))
    split = scenario.plan.disaggregate
    if split is None:
        decoding = of_resident(decoding)
        return Workers(scenario=scenario, prefilling=decoding, decoding=decoding, moved_s=0.0)
    work = replace(scenario.workload, batch=split.prefill_batch * split.prefill.replicas, continuous=False)
    prefilling = price_generation(at_its_clock(replace(scenario, workload=work, plan=split.prefill)))
    few = replace(scenario.workload, batch=np.maximum(LIGHTER * scenario.workload.batch, 1.0))
    cached = cached_bytes(scenario.model, prefilling.formats, scenario.workload.prompt_tokens * 1.0)
    return Workers(
        scenario=scenario,
        prefilling=prefilling,
        decoding=decoding,
        lighter=price_generation(at_its_clock(replace(scenario, workload=few)))
        if scenario.workload.continuous
        else None,
        moved_s=cached / scenario.cluster.network.bandwidth_per_node,
    )


def latencies(workers: Workers, constants: InferenceConstants) -> Latencies:
    """Return time to first token and per further token under an engine.

    A static batch is prefilled, then decoded. In a steady loop of continuous batching every other sequence is replaced
    once while one makes its tokens, and each replacement's prefill holds the decoding sequences up. Workers that only
    prefill hold nobody up, but their prompts wait for each other.
    """
    scenario, work = workers.scenario, workers.decoding.scenario.workload
    constants = constants.on(scenario.cluster.host).multiplying_on(scenario.cluster.device)
    prefill, decode = prefill_phase(workers.prefilling, constants), decode_phase(workers.decoding, constants)
    prefill_s = prefill.passes * prefill.pass_s
    if workers.lighter is not None:
        arrival_s = prefill_s / _prompts_together(workers.prefilling)
        sequences = (workers.lighter.scenario.workload.batch * 1.0, work.batch * 1.0)
        under_way_s = prefill_s + workers.moved_s
        decode = supplied_step(decode, decode_phase(workers.lighter, constants), sequences, arrival_s, under_way_s)
    rounds = _rounds(workers, prefill_s, decode)
    ahead = _steps_ahead(workers)
    first_s = rounds * prefill_s + workers.moved_s + ahead * decode.pass_s
    further = work.output_tokens - 1.0
    replaced: Number = 0.0
    if work.continuous and scenario.plan.disaggregate is None:
        ranks = scenario.plan.data_parallel * scenario.plan.replicas
        replaced = work.batch / ranks * (further / work.output_tokens) / workers.prefilling.chunks.prompts
        replaced = replaced * held_up(workers.decoding)
        decode = without_shared(workers.decoding, decode, replaced * prefill.passes, constants)
    further_s = decode.passes * decode.pass_s + replaced * first_s
    turns = scenario.workload.batch / work.batch
    return Latencies(
        workers=workers,
        # Little's law: who waits for memory waits for as many lives as all the others have turns.
        ttft_s=first_s + (turns - 1.0) * (first_s + further_s),
        tpot_s=further_s / np.maximum(further, 1.0),
        prefill=prefill,
        decode=decode,
        prefills=turns * prefill.passes * (rounds + replaced),
        steps=turns * (decode.passes + ahead),
        turns=turns,
    )


def _rounds(workers: Workers, prefill_s: Number, decode: Phase) -> Number:
    """Prefills from a prompt's arrival to the end of its own on workers that only prefill; 1 on those that decode too.

    Of a static batch the last prompt counts. In a steady loop a sequence takes at least as long as the workers need for
    the prompts of all others (Little's law): what decoding leaves of that it waits.
    """
    work = workers.scenario.workload
    if workers.scenario.plan.disaggregate is None:
        return 1.0
    needed = work.batch / _prompts_together(workers.prefilling)
    if not work.continuous:
        return np.ceil(needed)
    away_s = decode.passes * decode.pass_s + workers.moved_s
    return np.maximum(needed - away_s / prefill_s, 1.0)


def _steps_ahead(workers: Workers) -> Number:
    """Decode steps that prompts wait for before their prefill, of a batch that is sent again and again.

    An engine that takes a request as soon as it is idle is always one sequence ahead: that one's step runs when the
    others' prompts arrive, which end together and are sent together.
    """
    work = workers.scenario.workload
    if not workers.scenario.plan.engine.lmdeploy.first_alone or work.continuous:
        return 0.0
    return np.greater(workers.decoding.chunks.prompts, 1.0) * 1.0


def _prompts_together(priced: PricedGeneration) -> Number:
    """Prompts that all prefill workers process at the same time."""
    plan = priced.scenario.plan
    return np.maximum(priced.chunks.prompts, 1.0) * plan.data_parallel * plan.replicas


def _profile(
    workers: Workers, found: Latencies, constants: InferenceConstants, evidence: str, again: Predict
) -> Profile:
    scenario = workers.scenario
    parts = [(found.prefills, found.prefill), (found.steps, found.decode)]
    memory = generation_memory(workers.decoding, workers.prefilling, scenario.workload)
    on_device = constants.multiplying_on(scenario.cluster.device)
    scalar = np.ndim(found.tpot_s) == 0
    return Profile(
        scenario=scenario,
        source="predicted",
        ttft_s=found.ttft_s,
        tpot_s=found.tpot_s,
        phases=_phases(parts, workers.moved_s),
        memory_bytes=memory,
        fits=memory["total"] <= scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction,
        limits=lambda _: _limits(parts, workers.moved_s),
        energy_j=lambda p: energy_of_generation_j(scenario, p.limits),
        rows=(lambda _: generation_rows(workers.prefilling, workers.decoding, parts, workers.moved_s, on_device))
        if scalar
        else (),
        interval=(lambda p: generation_intervals(p, constants)) if scalar else {},
        advice=(lambda p: () if p.fits else what_would_fit(p, again)) if scalar else (),
        evidence=evidence_of_passes(workers.decoding) | {"framework": evidence},
        warnings=(*scenario.warnings, *_remarks(workers.decoding)),
    )


def _remarks(priced: PricedGeneration) -> Iterator[str]:
    """A remark for each format that the device has no products in, and for a release that nobody measured."""
    formats, engine = priced.formats, priced.scenario.plan.engine
    yield from borrowed_releases(engine.name, engine.version)
    for kernel in dict.fromkeys(formats.parts.values()):
        yield from conversion(kernel, formats.operands[kernel], priced.scenario.cluster.device)


def _phases(parts: list[tuple[Number, Phase]], moved_s: Number) -> dict[str, Number]:
    """Seconds of a batch's latency by what happens in them."""
    work = [count * (phase.times.compute_s + phase.times.memory_s) for count, phase in parts]
    return {
        "prefill": work[0],
        "decode": work[1],
        "communication": sum(count * phase.times.collective_s for count, phase in parts),
        "transfer": sum((count * phase.transfer_s for count, phase in parts), moved_s),
        "host": sum(count * phase.host_s for count, phase in parts),
    }


def _limits(parts: list[tuple[Number, Phase]], moved_s: Number) -> Mapping[str, Number]:
    """The same seconds by what bounds them."""
    network_s = sum((count * (phase.times.collective_s + phase.transfer_s) for count, phase in parts), moved_s)
    return {
        "compute": sum(count * phase.times.compute_s for count, phase in parts),
        "memory": sum(count * phase.times.memory_s for count, phase in parts),
        "network": network_s,
        "host": sum(count * phase.host_s for count, phase in parts),
        "bubble": 0.0 * network_s,
    }
