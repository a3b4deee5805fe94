"""Memories behind the device's that keep keys and values: their sizes as engines are told them.

The first is host memory, which alone engines load from directly. What stands behind it is storage, in which engines
write as much as it takes.
"""

from collections.abc import Iterator

from sightline.launching.engines.plans import size
from sightline.program.blocks.layer import cached_bytes
from sightline.program.formats import formats_of
from sightline.scenario import GenerationScenario


def host_bytes(scenario: GenerationScenario) -> float:
    """Return the bytes of host memory behind the devices of one server; 0 where the plan has no such memory."""
    if not scenario.plan.kv_tiers:
        return 0.0
    first = scenario.plan.kv_tiers[0]
    if first.capacity_bytes is not None:
        return first.capacity_bytes
    return float(first.capacity_tokens or 0) * _token_bytes(scenario)


def _token_bytes(scenario: GenerationScenario) -> float:
    """Keys and values of a token on the devices of a rank; those that hold the same count each, as in engines."""
    model, plan = scenario.model, scenario.plan
    formats = formats_of(model, plan.quantization, plan.dtype, scenario.cluster.device)
    one, two = (cached_bytes(model, formats, tokens, float(plan.tensor_parallel)) for tokens in (1.0, 2.0))
    return float((two - one) * plan.tensor_parallel)


def device_host_bytes(scenario: GenerationScenario) -> float:
    """Return the bytes of host memory behind each device of a server."""
    return host_bytes(scenario) / size(scenario.plan)


def storage_notes(scenario: GenerationScenario, *folders: str) -> Iterator[str]:
    """Yield where the storage behind host memory is, of each of these folders, and what engines do not limit."""
    name = scenario.plan.engine.name
    for place, (tier, folder) in enumerate(zip(scenario.plan.kv_tiers[1:], folders, strict=True), start=1):
        yield f"plan.kv_tiers[{place}] {tier.name}: files in {folder}; {name} does not limit their size"
