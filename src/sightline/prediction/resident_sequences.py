"""Sequences that a steady loop has in flight: those whose caches the device's memory holds; others wait for their turn."""

from dataclasses import replace

import numpy as np

from sightline.prediction.generation_memory import generation_memory
from sightline.prediction.generation_pricing import PricedGeneration, price_generation
from sightline.quantities import Number


def of_resident(priced: PricedGeneration) -> PricedGeneration:
    """Return the passes of the sequences that fit at a time, where a steady loop asks for more.

    An engine that reserves a sequence's whole cache admits fewer than one that hands out blocks as sequences grow, whose
    sequences on average stand half-way. Where not even one sequence a rank fits, the question stays as it was asked.
    Left out: what is computed again after a growing sequence had to be put off.
    """
    if not priced.scenario.workload.continuous:
        return priced
    fitting = _fitting(priced)
    asked = priced.scenario.workload.batch
    if not np.any(np.less(fitting, asked)):
        return priced
    work = replace(priced.scenario.workload, batch=np.minimum(fitting, asked))
    return price_generation(replace(priced.scenario, workload=work))


def _fitting(priced: PricedGeneration) -> Number:
    """Sequences of all ranks whose caches fit beside the weights; as many as are asked for where none do."""
    plan, work, device = priced.scenario.plan, priced.scenario.workload, priced.scenario.cluster.device
    memory = generation_memory(priced, priced, work)
    room = device.memory_bytes * plan.memory_fraction - (memory["total"] - memory["kv_cache"])
    whole = work.prompt_tokens + work.output_tokens
    held = 1.0 if plan.engine.scheduling.reserves_cache else (work.prompt_tokens + work.output_tokens / 2.0) / whole
    share = room / np.maximum(memory["kv_cache"] * held, 1.0)
    ranks = plan.data_parallel * plan.replicas
    fitting: Number = np.where(work.batch * share >= ranks, np.floor(work.batch * share), work.batch * 1.0)
    return fitting
