"""Which points of a scenario whose numbers are arrays break no rule of plans, and why others do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.loading.loader import Asked
from sightline.scenario import GenerationScenario, Scenario
from sightline.scenario.rules import TRAINING_RULES, broken_by, facts_of, verdict
from sightline.scenario.rules.rulebook import masks_of


def possible_points(scenario: Asked, left: NDArray[np.bool_], count: Callable[[str, int], None]) -> NDArray[np.bool_]:
    """Return which of the points that are left break no rule of plans.

    Args:
        scenario: A scenario whose plan, workload and cluster hold arrays that broadcast.
        left: Points that are possible but for the rules, in the shape of all points.
        count: Is told of the others: a sentence, and of how many points it is the reason.
    """
    if isinstance(scenario, GenerationScenario):
        judged = verdict(scenario)
        for rule, broken_points in judged.rejected.items():
            count(_in_words(rule), broken_points)
        return np.asarray(left & judged.valid)
    if not isinstance(scenario, Scenario):
        return left
    for name, mask in masks_of(TRAINING_RULES, facts_of(scenario)):
        broken = left & ~mask
        if broken.any():
            count(_sentence(scenario, name, np.argwhere(broken)[0]), int(np.count_nonzero(broken)))
        left = left & mask
    return left


def _sentence(scenario: Scenario, rule: str, place: NDArray[np.intp]) -> str:
    """What a rule says of the first point that breaks it."""

    def at(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        one = value[tuple(int(i) if n > 1 else 0 for i, n in zip(place[-value.ndim :], value.shape, strict=True))]
        return int(one) if float(one) == int(one) else float(one)

    fields: dict[str, Any] = {name: at(getattr(scenario.plan, name)) for name in scenario.plan.__dataclass_fields__}
    work: dict[str, Any] = {name: at(getattr(scenario.workload, name)) for name in ("global_batch",)}
    one = replace(scenario, plan=replace(scenario.plan, **fields), workload=replace(scenario.workload, **work))
    said = next((str(broken) for broken in broken_by(one) if broken.rule == rule), "")
    return said or _in_words(rule)


def _in_words(rule: str) -> str:
    return f"the rule about {rule.replace('_', ' ')} is broken"
