"""What a study's headline depends on at its base: elasticities to the numbers of the cluster."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.exploration.answer import View
from sightline.exploration.knees import elasticities_by_level, knees
from sightline.exploration.own.asked.numbers import TECHNOLOGY
from sightline.exploration.own.points.variation import Variation
from sightline.exploration.own.told.found import Found, lines
from sightline.prediction.sensitivity import elasticities
from sightline.scenario import GenerationScenario, Scenario


def elasticities_of(found: Found) -> dict[str, dict[str, float]]:
    """By view, the elasticity of the headline to each number of the cluster, in the first scenario."""
    out: dict[str, dict[str, float]] = {}
    for view, base in found.bases.items():
        if not isinstance(base, Scenario | GenerationScenario) or base.cluster.groups:
            continue
        if isinstance(base, Scenario) and base.plan.micro_batch is None:
            base = replace(base, plan=replace(base.plan, micro_batch=_micro_batch(found, view)))  # noqa: PLW2901 - the same
        moved = elasticities(base)
        out[view] = {number: keys[found.headline] for number, keys in moved.items() if found.headline in keys}
    return out


def _micro_batch(found: Found, view: View) -> int:
    """The micro-batch that was found at the first point of a view; 1 where nothing was."""
    for part in found.parts:
        if part.view == view and part.points is not None and "plan.micro_batch" in part.points.columns:
            value = part.points.columns["plan.micro_batch"].ravel()[0]
            return 1 if np.isnan(value) else int(value)
    return 1


FEWEST = 3
"""Values of an axis between which knees are looked for."""


def knees_of(found: Found) -> Iterator[dict[str, Any]]:
    """Yield where, along each number of the cluster, one level's elasticity overtakes another's.

    The other axes are at their first value. Plans that are searched change along an axis, and knees of one plan would
    say nothing of the others.
    """
    study = found.study
    if (
        study.search
        or study.designs
        or not all(isinstance(one, Scenario | GenerationScenario) for one in found.bases.values())
    ):
        return
    for line in lines(found):
        key = line.axis.key
        if len(line.values) < FEWEST or not key.startswith("cluster.") or key.startswith(TECHNOLOGY):
            continue
        numbers = [axis for axis in found.axes if axis.number is not None and not axis.key.startswith(TECHNOLOGY)]
        varied = Variation(base=found.bases[line.view], axes=numbers)
        index = tuple(slice(None) if axis.key == key else slice(0, 1) for axis in numbers)
        by_level = elasticities_by_level(varied.at(index), found.headline)
        for knee in knees(line.values, {level: values.ravel() for level, values in by_level.items()}):
            yield {"view": line.view, "key": key, "position": knee.position, "before": knee.before, "after": knee.after}
