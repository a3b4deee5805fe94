"""Time to first token and per further token, of a sequence on its way through the iterations that a policy has."""

from dataclasses import dataclass, replace

from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import Phase, decode_phase, prefill_phase
from sightline.prediction.generation.policies import Workers, policy_of
from sightline.profile.metrics import latency_s, output_tokens_per_s
from sightline.quantities import Number, larger


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    scenario, work = workers.scenario, workers.decoding.scenario.workload
    prefill, decode = (
        prefill_phase(workers.prefilling, workers.prefill_constants or constants),
        decode_phase(workers.decoding, constants),
    )
    course = policy_of(scenario).course(workers, prefill, decode, constants)
    decode = course.decode
    first_s = course.rounds * prefill.passes * prefill.pass_s + workers.moved_s + course.ahead * decode.pass_s
    further_s = decode.passes * decode.pass_s + course.replaced * first_s
    # Sequences in flight over those that memory holds at a time; 1 where it holds all.
    waves = scenario.workload.batch / work.batch
    return Latencies(
        workers=workers,
        # Little's law: a request that waits for KV-cache memory waits until enough running requests finish.
        ttft_s=first_s + (waves - 1.0) * (first_s + further_s),
        tpot_s=further_s / larger(work.output_tokens - 1.0, 1.0),
        prefill=prefill,
        decode=decode,
        prefills=waves * prefill.passes * (course.rounds + course.replaced),
        steps=waves * (decode.passes + course.ahead),
    )
