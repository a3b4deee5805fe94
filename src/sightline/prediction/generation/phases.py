"""Prefill and decoding: the iterations of each, and how many a batch needs."""

from dataclasses import dataclass

import numpy as np

from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.iteration import Iteration, iteration_of
from sightline.prediction.generation.prompts import Chunks, cut, micro_batches
from sightline.prediction.generation.speculation import drafted_tokens, tokens_per_pass
from sightline.prediction.generation.worker import PricedPass, Worker, worker_of
from sightline.program import Batch, decoding, prompts
from sightline.quantities import Number, either, larger, rounded_up
from sightline.scenario import GenerationScenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedGeneration:
    """Both passes of a scenario with the prices of their operators, whatever engine runs them."""

    scenario: GenerationScenario
    worker: Worker
    chunks: Chunks
    prefill: PricedPass
    decode: PricedPass
    step_parts: Number
    """Micro-batches that a decode step is cut into."""


def price_generation(scenario: GenerationScenario) -> PricedGeneration:
    """Write both passes of the scenario out and price their operators together."""
    plan, work = scenario.plan, scenario.workload
    worker = worker_of(scenario)
    # Sequences of the busiest data-parallel rank.
    sequences = rounded_up(work.batch / (plan.data_parallel * plan.replicas))
    chunks = cut(scenario, sequences)
    new = 1.0 + drafted_tokens(plan)
    parts = micro_batches(plan, sequences, new)
    context = work.prompt_tokens + work.output_tokens / 2.0
    prefill, decode = worker.priced(
        [
            Batch.of(prompts(chunks.sequences, chunks.new_tokens, chunks.context_tokens)),
            Batch.of(decoding(sequences / parts, context, new)),
        ]
    )
    return PricedGeneration(
        scenario=scenario, worker=worker, chunks=chunks, prefill=prefill, decode=decode, step_parts=parts
    )


LAUNCH_QUEUE = 1024.0
"""Kernels that wait on a device before the next launch waits for one of them to start: the depth of CUDA's queue."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase(Iteration):
    """One phase: the seconds of an iteration, and how many iterations a batch needs."""

    passes: Number


def _phase(one: Iteration, passes: Number) -> Phase:
    return Phase(times=one.times, transfer_s=one.transfer_s, host_s=one.host_s, passes=passes)


def prefill_phase(priced: PricedGeneration, constants: InferenceConstants) -> Phase:
    """Return the passes of prompts, or of chunks of them."""
    chunks, p = priced.chunks, priced.worker.plan.pipeline_parallel * 1.0
    one = iteration_of(priced.worker, priced.prefill, constants, chunks.micro_batches)
    if not priced.worker.plan.engine.llama_cpp.pipelines_chunks:
        return _phase(one, chunks.passes)
    launches = one.times.launches * p / (p + chunks.micro_batches - 1.0)
    return _phase(one, pipelined_passes(priced, launches))


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
    one = iteration_of(priced.worker, priced.decode, constants, priced.step_parts)
    further = larger(priced.scenario.workload.output_tokens - 1.0, 0.0)
    return _phase(one, further / tokens_per_pass(priced.worker.plan))
