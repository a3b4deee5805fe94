"""The knee of latency over the bandwidth of the device memory: from where another level of the machine matters more."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.exploration.knees import Knee, elasticities_by_level, knees
from sightline.prediction import predict
from sightline.quantities import Number
from sightline.scenario import GenerationScenario

Floats = NDArray[np.float64]
STARTS = "kernel starts"
"""What no level shortens."""


def with_numbers(scenario: GenerationScenario, **numbers: Number) -> GenerationScenario:
    """Return a scenario on a device with other numbers, which may be arrays."""
    changed: dict[str, Any] = dict(numbers)
    device = replace(scenario.cluster.device, **changed)
    return replace(scenario, cluster=replace(scenario.cluster, device=device))


def knee_of(scenario: GenerationScenario, bandwidth: Floats) -> Knee | None:
    """Return where, along rising bandwidths, another level begins to matter more than the memory; None if nowhere."""
    found = knees(bandwidth, elasticities(scenario, bandwidth))
    return next((knee for knee in found if knee.before == "dram"), None)


def most_along(scenario: GenerationScenario, bandwidth: Floats) -> tuple[str, ...]:
    """Return what matters most along rising bandwidths, in order; one level where it is the same throughout."""
    found = elasticities(scenario, bandwidth)
    most = np.stack(list(found.values())).argmax(axis=0)
    names = list(found)
    return tuple(names[most[place]] for place in (0, *(np.flatnonzero(np.diff(most)) + 1)))


def elasticities(scenario: GenerationScenario, bandwidth: Floats) -> dict[str, Floats]:
    """Return how much the latency depends on each level, by bandwidth of the memory; they sum to 1.

    With 0.4, a level that is 10 % faster makes about 4 % less latency. Links and the host count with their share of the
    time, the starts of collectives and of kernels on the host included; what is left over is `STARTS`.
    """
    there = with_numbers(scenario, memory_bandwidth=bandwidth)
    profile = predict(there)
    shares = {level: profile.levels[level] / profile.latency_s for level in ("network", "host")}
    found = {**elasticities_by_level(there, "latency_s"), **shares}
    return {**found, STARTS: 1.0 - sum(found.values())}
