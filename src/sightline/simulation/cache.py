"""What a replica has room for: its KV cache, next to the weights and what an iteration needs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sightline.frameworks.engine import serving_limits
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import price_generation
from sightline.quantities import Count
from sightline.scenario import Generate, GenerationScenario, ServingScenario

LONGEST_PASS = 2048
"""Tokens of the largest iteration where the engine measures nothing at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The cache of one replica, and the memory of its fullest device."""

    blocks: int
    memory_bytes: Mapping[str, float]
    """By part, with ``total``; the cache is all that is left for it."""
    block_bytes: float
    """Of a block on the fullest device."""
    fits: bool
    """Whether there is room for one block and more."""


def alike(
    scenario: ServingScenario, prompt_tokens: Count, output_tokens: Count, batch: Count = 1
) -> GenerationScenario:
    """Return a question about the same model, cluster and plan with a batch of equal requests on every rank."""
    plan = replace(scenario.plan, disaggregate=None)
    work = Generate(
        batch=batch * plan.data_parallel * plan.replicas, prompt_tokens=prompt_tokens, output_tokens=output_tokens
    )
    return GenerationScenario(
        name=scenario.name,
        model=scenario.model,
        cluster=scenario.cluster,
        workload=work,
        plan=plan,
        warnings=scenario.warnings,
    )


def room_of(scenario: ServingScenario) -> Room:
    """Return the room of a replica while it runs its largest iteration.

    An engine that measures its memory at the start runs an iteration of all tokens that it may have; what its share of
    the device then has left is the cache, in whole blocks. Of others users state the cache, as a share of what the
    weights leave. Left out: caches that do not grow with the context.
    """
    plan = scenario.plan
    block = plan.kv_block_tokens
    device = scenario.cluster.device
    about = plan.engine.serving, device.name, float(device.memory_bytes), scenario.model.max_positions
    limits = serving_limits(*about, chunked=bool(plan.chunked_prefill))
    usual = LONGEST_PASS if plan.engine.serving.policy == "static" else limits.max_batched_tokens
    tokens = plan.max_batched_tokens or usual
    one, two = (_memory(alike(scenario, tokens, more)) for more in (block, 2 * block))
    block_bytes = two["kv_cache"] - one["kv_cache"]
    usable = device.memory_bytes * plan.memory_fraction
    others = one["total"] - one["kv_cache"]
    most = plan.engine.memory.cache_share * (device.memory_bytes - one["weights"])
    blocks = max(int(min(usable - others, most) // block_bytes), 0)
    cache = blocks * block_bytes
    parts = {**one, "kv_cache": cache, "total": others + cache}
    return Room(blocks=blocks, memory_bytes=parts, block_bytes=block_bytes, fits=blocks > 0)


def _memory(scenario: GenerationScenario) -> dict[str, float]:
    priced = price_generation(scenario)
    return {part: float(size) for part, size in generation_memory(priced, priced, scenario.workload).items()}
