"""A generation's two passes, written out and priced together: the prefill of prompts and a step of decoding."""

from dataclasses import dataclass

from sightline.prediction.generation.passes import PricedPass
from sightline.prediction.generation.prompts import Chunks, cut, micro_batches
from sightline.prediction.generation.speculation import drafted_tokens
from sightline.prediction.generation.worker import Worker, worker_of
from sightline.program import Batch, decoding, prompts
from sightline.quantities import Number, rounded_up
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
