"""What the sites that engines were measured at do to their constants, estimated with the sets that all share.

A site is what one source measured of an engine on one family of devices. Its effects are random effects around the
engine's set (partial pooling): no other site gets them, and they are no free constants of the set.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from sightline.calibration.fits import Array
from sightline.calibration.inference import InferenceFit
from sightline.calibration.training import FULL_WEIGHT
from sightline.catalog import entry
from sightline.prediction.beliefs import Beliefs, Gradient, learned
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.sites import NOTHING, RATES, EngineAtSite, shifts, source_site

LEAST = 0.005
"""Shifts of a logarithm below this are none."""


def site_shifts(fits: Sequence[tuple[str, InferenceFit]]) -> dict[str, dict[str, float]]:
    """Return the shifts of constants' logarithms by site, over all engines' sets and those of their release lines."""
    rows: dict[str, list[tuple[EngineAtSite, str, float]]] = defaultdict(list)
    for engine, fit in fits:
        base = InferenceConstants.from_mapping(fit.constants)
        for case in fit.cases:
            if case.scenario.plan.engine.name == engine:
                site = source_site(case.source, engine, case.scenario.cluster.device)
                at = EngineAtSite(scenario=case.scenario, workers=case.workers, base=base, site=site)
                rows[site].append((at, case.quantity, case.value))
    return {site: found for site, of in sorted(rows.items()) if (found := _shifts(site, of))}


def _shifts(site: str, rows: Sequence[tuple[EngineAtSite, str, float]]) -> dict[str, float]:
    """The shifts at one site."""

    def predict(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        found = [at.gradient(quantity, beliefs) for at, quantity, _ in rows]
        return np.array([logarithm for logarithm, _ in found]), [slopes for _, slopes in found]

    measured = np.log([1.0 / value if quantity in RATES else value for _, quantity, value in rows])
    noise = np.eye(len(rows)) * entry("generation", "constants")["case"] ** 2 * max(1.0, len(rows) / FULL_WEIGHT)
    found = learned(NOTHING, predict, measured, noise, robust=True)
    return {name: round(value, 3) for name, value in shifts(found, site).items() if abs(value) >= LEAST}
