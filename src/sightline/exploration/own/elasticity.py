"""What a study's headline depends on at its base: elasticities to the numbers of the cluster."""

from dataclasses import replace
from typing import Any

import numpy as np

from sightline.exploration.answer import View
from sightline.exploration.own.found import Found
from sightline.prediction.sensitivity import elasticities
from sightline.profile import TRAINING
from sightline.scenario import GenerationScenario, Scenario


def elasticities_of(found: Found) -> dict[str, dict[str, float]]:
    """By view, the elasticity of the headline to each number of the cluster, in the first scenario."""
    out: dict[str, dict[str, float]] = {}
    for view, base in found.bases.items():
        if not isinstance(base, Scenario | GenerationScenario) or base.cluster.groups:
            continue
        scenario: Any = base
        if found.task is TRAINING and base.plan.micro_batch is None:
            micro_batch = next((int(row["plan.micro_batch"]) for row in (_first(found, view),) if row), 1)
            scenario = replace(base, plan=replace(base.plan, micro_batch=micro_batch))
        moved = elasticities(scenario)
        out[view] = {number: keys[found.headline] for number, keys in moved.items() if found.headline in keys}
    return out


def _first(found: Found, view: View) -> dict[str, Any]:
    """The plan that was found at the first point of a view."""
    for part in found.parts:
        if part.view == view and part.points is not None and "plan.micro_batch" in part.points.columns:
            value = part.points.columns["plan.micro_batch"].ravel()[0]
            return {} if np.isnan(value) else {"plan.micro_batch": value}
    return {}
