"""How many users a plan serves at a time within memory and limits."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sightline.planning.generation.objectives import FIGURES, within
from sightline.prediction.generation.predict import predict_generation
from sightline.scenario import GenerationScenario

MOST = 2**20
"""Users that are looked for at most."""
TRIED = 96
"""Numbers of users that are tried at once."""


def most_users(scenario: GenerationScenario, limits: Mapping[str, float], most: int = MOST) -> int:
    """Return the largest batch that fits and meets the limits with everything else as it is; 0 for none.

    Found on a grid that narrows: where more users meet limits that fewer do not, it may be a smaller one.
    """
    low, high = 0, most + 1
    while high - low > 1:
        step = np.geomspace(low + 1, high - 1, TRIED) if low == 0 else np.linspace(low + 1, high - 1, TRIED)
        batches = np.unique(step.round().astype(np.int64))
        good = batches[_served(scenario, batches, limits)]
        if not good.size:
            high = int(batches[0])
            continue
        low = int(good[-1])
        above = batches[batches > low]
        high = int(above[0]) if above.size else high
    return low


def _served(scenario: GenerationScenario, batches: "np.ndarray", limits: Mapping[str, float]) -> "np.ndarray":
    profile = predict_generation(replace(scenario, workload=replace(scenario.workload, batch=batches)))
    served = np.broadcast_to(profile.fits, batches.shape).copy()
    for key, limit in limits.items():
        served &= np.broadcast_to(within(key, np.asarray(FIGURES[key].of(profile), dtype=float), limit), batches.shape)
    return served
