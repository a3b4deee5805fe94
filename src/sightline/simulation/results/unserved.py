"""Why requests of a load were not served, and which key changes that."""

from collections.abc import Iterator, Mapping, Sequence

from sightline.scenario import ServingScenario
from sightline.simulation.engine.state import Facts
from sightline.simulation.outcome import NO_ROOM, NOT_ADMITTED, OVER_BUDGET, REFUSALS, TOO_LONG


def unserved_warnings(
    refused: Mapping[str, int], completed: int, scenario: ServingScenario, facts: Sequence[Facts]
) -> Iterator[str]:
    """Yield a sentence for each reason of ``refused`` requests, as results name them; ``facts`` are those of the pools.

    What replicas of several pools have room for is told of the smallest.
    """
    asked = sum(refused.values()) + completed
    why = _why(scenario, facts)
    for reason, count in refused.items():
        yield f"{count:,} of {asked:,} requests were refused because {why[reason]}"


def _why(scenario: ServingScenario, facts: Sequence[Facts]) -> Mapping[str, str]:
    """What refuses requests, with its limit and its key, by reason."""
    name, engine = scenario.model.name, scenario.plan.engine
    context = scenario.model.max_positions
    budget = min(of.token_budget // of.stages for of in facts)
    room = min(of.blocks * of.block_tokens for of in facts)
    budget_least = (
        f"; {engine.name} itself does not start with less than the context, {context:,}"
        if engine.serving.policy == "vllm" and budget < context
        else ""
    )
    return {
        REFUSALS[TOO_LONG]: f"their prompts and answers are longer than the context of {name}, {context:,} tokens",
        REFUSALS[NO_ROOM]: (
            f"they do not fit in the KV cache of a replica, {room:,} tokens; more devices of a replica "
            "(plan.tensor_parallel) or fewer bits (plan.quantization) make it larger"
        ),
        REFUSALS[NOT_ADMITTED]: (
            f"{engine.name} had {facts[0].max_concurrent:,} under way, the most that plan.max_concurrent_requests "
            "allows"
        ),
        REFUSALS[OVER_BUDGET]: (
            f"their prompts are longer than plan.max_batched_tokens, {budget:,}, and plan.chunked_prefill is false"
            f"{budget_least}"
        ),
    }
