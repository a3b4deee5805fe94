"""Other plans than one that was found: its single changes, and what it chose beside its layout."""

from collections.abc import Iterator
from typing import Any

from sightline.planning.serving.sweep import CHANGED, Finalist
from sightline.prediction.changes import candidate_changes, changed, settings_of
from sightline.scenario import GenerationPlan, ServingScenario
from sightline.scenario.rules import breaks_no_rule
from sightline.simulation.cache import alike

SIZE = "max_batched_tokens"
"""The most tokens of an iteration."""


def single_changes(scenario: ServingScenario) -> Iterator[tuple[dict[str, Any], GenerationPlan]]:
    """Yield candidate changes of a plan that break no rule and that a layout can have: no other limits or routers."""
    plain = alike(scenario, 1, 1)
    for change in candidate_changes(plain):
        other = changed(plain, change)
        if change.keys() <= CHANGED and breaks_no_rule(other):
            yield settings_of({name: value for name, value in change.items() if name != "replicas"}), other.plan


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
