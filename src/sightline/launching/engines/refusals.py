"""What of a plan an engine cannot launch: a sentence for each key."""

from collections.abc import Iterator

from sightline.launching.engines.placement import largest_node
from sightline.launching.engines.plans import pools, size
from sightline.scenario import GenerationScenario

WITH_POOLS = WITH_TIERS = ("vllm", "sglang", "tensorrt-llm")
"""Engines whose servers are launched for prefill or decode alone, and with memories behind the device's."""
SPLITS = ("tensor_parallel", "pipeline_parallel")
"""Degrees that split a model over the devices of a server."""


def degree_problems(scenario: GenerationScenario, *degrees: str) -> Iterator[str]:
    """Yield a sentence for each of these degrees above 1, which the engine does not have."""
    for role, plan in pools(scenario).items():
        key = f"plan.disaggregate.{role}" if role else "plan"
        for degree in degrees:
            if getattr(plan, degree) > 1:
                yield f"{key}.{degree} is {getattr(plan, degree)}; {scenario.plan.engine.name} launches only 1"


def one_node_problems(scenario: GenerationScenario, *without: str) -> Iterator[str]:
    """Yield what is in the way of servers that prefill and decode on the devices of one node.

    ``without`` are degrees that the engine does not have.
    """
    plan, name = scenario.plan, scenario.plan.engine.name
    if plan.disaggregate is not None:
        yield f"plan.disaggregate is not launched with {name}; launched with {', '.join(WITH_POOLS)}"
    if plan.kv_tiers:
        yield f"plan.kv_tiers is not launched with {name}; launched with {', '.join(WITH_TIERS)}"
    yield from degree_problems(scenario, *without)
    most = largest_node(scenario.cluster)
    degree = next((degree for degree in SPLITS if degree not in without), None)
    if degree is not None and size(plan) > most:
        yield f"plan.{degree} is {getattr(plan, degree)}; a server of {name} has the devices of one node, {most}"


def tier_problems(scenario: GenerationScenario, most: int | None = None) -> Iterator[str]:
    """Yield what is in the way of memories behind the device's, of which the engine has so many at most."""
    plan = scenario.plan
    if not plan.kv_tiers:
        return
    if most is not None and len(plan.kv_tiers) > most:
        yield (
            f"plan.kv_tiers has {len(plan.kv_tiers)} memories; {plan.engine.name} keeps keys and values in at most "
            f"{most} behind the device's"
        )
    if plan.disaggregate is not None:
        yield "plan.kv_tiers is not launched with plan.disaggregate; one of them is"
    if not plan.prefix_cache:
        yield "plan.kv_tiers needs plan.prefix_cache true, whose blocks the tiers keep"
