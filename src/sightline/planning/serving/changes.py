"""Other plans than one that was found: its single changes, and what it chose beside its layout."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sightline.planning.serving.sweep import Finalist
from sightline.prediction.changes import generation_changes
from sightline.scenario import GenerationPlan, ServingScenario
from sightline.scenario.rules import breaks_no_rule
from sightline.simulation.cache import alike

SIZE = "max_batched_tokens"
"""The most tokens of an iteration."""


def single_changes(scenario: ServingScenario) -> Iterator[tuple[dict[str, Any], GenerationPlan]]:
    """Yield single changes of a plan that break no rule: degrees, the token budget, and formats of the checkpoint."""
    plain = alike(scenario, 1, 1)
    for stated, other in generation_changes(plain):
        if "workload.batch" not in stated and breaks_no_rule(other):
            yield stated, other.plan
    if scenario.plan.quantization:
        yield {"plan.quantization": "none"}, replace(scenario.plan, quantization=None)


def other_sizes(one: Finalist) -> Iterator[Finalist]:
    """Yield a layout with iterations of half and of twice as many tokens, as far as these are searched."""
    allowed = one.space.values.get(SIZE, ())
    for stated, plan in single_changes(one.scenario):
        size = stated.get(f"plan.{SIZE}")
        if size is not None and (allowed is None or size in allowed):
            yield one.changed(plan)


def choices_of(one: Finalist) -> dict[str, Any]:
    """Return by dotted key what a layout chose of what was allowed beside it: an engine, a cluster, an adapter."""
    return {"plan.framework": one.scenario.plan.engine.name, **one.space.options}
