"""Steps of decoding in a steady loop of continuous batching: which sequences run, and the prompts that steps take along."""

from dataclasses import replace

import numpy as np

from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import Phase, PricedGeneration, price_generation
from sightline.quantities import Number, anywhere, either, larger, smaller


def of_resident(priced: PricedGeneration) -> PricedGeneration:
    """Return the passes of the sequences that fit at a time, where a steady loop asks for more; others wait.

    An engine that reserves a sequence's whole cache admits fewer than one that hands out blocks as sequences grow, whose
    sequences on average stand half-way. Where not even one sequence a rank fits, the question stays as it was asked.
    Left out: what is computed again after a growing sequence had to be put off.
    """
    if not priced.scenario.workload.continuous:
        return priced
    fitting = _fitting(priced)
    asked = priced.scenario.workload.batch
    if not anywhere(fitting < asked):
        return priced
    work = replace(priced.scenario.workload, batch=smaller(fitting, asked))
    return price_generation(replace(priced.scenario, workload=work))


def _fitting(priced: PricedGeneration) -> Number:
    """Sequences of all ranks whose caches fit next to the weights; as many as are asked for where none do."""
    plan, work, device = priced.scenario.plan, priced.scenario.workload, priced.scenario.cluster.device
    memory = generation_memory(priced, priced, work)
    room = device.memory_bytes * plan.memory_fraction - (memory["total"] - memory["kv_cache"])
    whole = work.prompt_tokens + work.output_tokens
    reserves = plan.engine.scheduling.reserves_cache
    held = 1.0 if reserves else (work.prompt_tokens + work.output_tokens / 2.0) / whole
    share = room / larger(memory["kv_cache"] * held, 1.0)
    ranks = plan.data_parallel * plan.replicas
    return either(work.batch * share >= ranks, np.floor(work.batch * share), work.batch * 1.0)


def held_up(priced: PricedGeneration) -> Number:
    """Return the share of the others' prefills that a sequence waits for in its decoding.

    Where all sequences are equally long, those that start together also end together. Where prompts go first newcomers
    come in waves, of which each waits for the prompts behind it, on average half of them; where steps take prompts
    along, a sequence waits for all but those of its own group.
    """
    plan, work = priced.scenario.plan, priced.scenario.workload
    if not work.equal_lengths:
        return 1.0
    if not plan.engine.scheduling.mixed_batches:
        return 0.5
    own = priced.chunks.prompts * plan.data_parallel * plan.replicas
    return 1.0 - smaller(own / work.batch, 1.0)


def without_shared(priced: PricedGeneration, decode: Phase, prefills: Number, constants: InferenceConstants) -> Phase:
    """Return the decode steps without those that prefills take along: of such a step only its attention is added."""
    if not priced.scenario.plan.engine.scheduling.mixed_batches:
        return decode
    own_s = priced.decode.attention_s(priced.decode.in_engine(constants))
    taken = smaller(prefills, decode.passes) * (1.0 - own_s / decode.pass_s)
    return replace(decode, passes=decode.passes - taken)
