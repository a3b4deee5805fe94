"""Time to first token and per further token, of a static batch, in a steady loop, and in disaggregated pools."""

from dataclasses import dataclass, replace

from sightline.cost.clock import at_its_clock
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import (
    Phase,
    PricedGeneration,
    decode_phase,
    prefill_phase,
    price_generation,
)
from sightline.prediction.generation.pools import LIGHTER, prefill_rounds, prompts_together, supplied_step
from sightline.prediction.generation.steady_loop import held_up, of_resident, without_shared
from sightline.profile.metrics import latency_s, output_tokens_per_s
from sightline.program.blocks.layer import cached_bytes
from sightline.quantities import Number, larger
from sightline.scenario import GenerationScenario


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
    """Prefill passes from a sequence's arrival to its end: those it waits for, its own, and in a steady loop its successors'."""
    steps: Number
    """Decode steps of the same time."""
    waves: Number
    """Sequences in flight over those that memory holds at a time; 1 where it holds all."""

    @property
    def latency_s(self) -> Number:
        """From arrival to the last token."""
        return latency_s(self.workers.scenario.workload, self.ttft_s, self.tpot_s)

    @property
    def output_tokens_per_s(self) -> Number:
        """Tokens generated per second on the whole cluster."""
        return output_tokens_per_s(self.workers.scenario.workload, self.ttft_s, self.tpot_s)


def price_workers(scenario: GenerationScenario) -> Workers:
    """Price the passes of all workers, whatever engine runs them."""
    decoding = price_generation(at_its_clock(scenario))
    split = scenario.plan.disaggregate
    if split is None:
        decoding = of_resident(decoding)
        return Workers(scenario=scenario, prefilling=decoding, decoding=decoding, moved_s=0.0)
    work = replace(scenario.workload, batch=split.prefill_batch * split.prefill.replicas, continuous=False)
    prefilling = price_generation(at_its_clock(replace(scenario, workload=work, plan=split.prefill)))
    few = replace(scenario.workload, batch=larger(LIGHTER * scenario.workload.batch, 1.0))
    cached = cached_bytes(scenario.model, prefilling.worker.formats, scenario.workload.prompt_tokens * 1.0)
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
        arrival_s = prefill_s / prompts_together(workers.prefilling)
        sequences = (workers.lighter.scenario.workload.batch * 1.0, work.batch * 1.0)
        under_way_s = prefill_s + workers.moved_s
        decode = supplied_step(decode, decode_phase(workers.lighter, constants), sequences, arrival_s, under_way_s)
    rounds: Number = 1.0
    if scenario.plan.disaggregate is not None:
        rounds = prefill_rounds(scenario.workload, workers.prefilling, prefill_s, decode, workers.moved_s)
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
    waves = scenario.workload.batch / work.batch
    return Latencies(
        workers=workers,
        # Little's law: a request that waits for KV-cache memory waits until enough running requests finish.
        ttft_s=first_s + (waves - 1.0) * (first_s + further_s),
        tpot_s=further_s / larger(further, 1.0),
        prefill=prefill,
        decode=decode,
        prefills=waves * prefill.passes * (rounds + replaced),
        steps=waves * (decode.passes + ahead),
        waves=waves,
    )


def _steps_ahead(workers: Workers) -> Number:
    """Decode steps that prompts wait for before their prefill, of a batch that is sent again and again.

    An engine that takes a request as soon as it is idle is always one sequence ahead: that one's step runs when the
    others' prompts arrive, which end together and are sent together.
    """
    work = workers.scenario.workload
    if not workers.scenario.plan.engine.lmdeploy.first_alone or work.continuous:
        return 0.0
    return (workers.decoding.chunks.prompts > 1.0) * 1.0
