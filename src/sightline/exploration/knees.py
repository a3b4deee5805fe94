"""Knees: where along one number of the hardware another level of the machine begins to matter most.

A level matters as much as a time's elasticity to it: by how many per cent the time falls where everything of the level
is one per cent faster - rates larger, latencies shorter. A knee is where one level's elasticity overtakes another's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.prediction import predict
from sightline.prediction.sensitivity import AnyScenario, scaled, varied
from sightline.profile import LEVELS
from sightline.quantities import Number
from sightline.scenario import Cluster, GenerationScenario

Floats = NDArray[np.float64]
RATES: Mapping[str, Sequence[str]] = {
    "compute": ("device.peak_flops", "device.vector_flops"),
    "dram": ("device.memory_bandwidth",),
    "l2": ("device.l2_bandwidth", "device.l2_bytes"),
    "network": ("intra_node.bandwidth", "network.bandwidth_per_node", "host.device_bandwidth"),
    "host": ("host.speed", "host.memory_bandwidth"),
}
"""Numbers of a cluster of which each level has more where it is faster."""
LATENCIES: Mapping[str, Sequence[str]] = {"network": ("intra_node.latency_s", "network.latency_s")}
"""Numbers of which it has less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """Where one level overtakes another."""

    position: float
    """The number's value, between two points of the axis where both elasticities, as straight lines, are equal."""
    before: str
    """The level that matters most up to there (``LEVELS``)."""
    after: str
    """The level that matters most from there on."""


def elasticities_by_level(scenario: AnyScenario, key: str) -> dict[str, Floats]:
    """Return by level (``LEVELS``) how much a time depends on it, at every point of a scenario with arrays.

    With 0.4, everything of the level 10 % faster makes the time about 4 % shorter. They sum to 1 but for what no level
    shortens, such as the starts of kernels, and but for kinks. All are varied in one array-valued prediction.
    """
    parts = {level: partial(_faster, level=level) for level in LEVELS}
    found = varied(scenario, parts, [key], shape=np.shape(predict(scenario).figure(key)))
    return {level: -found[level][key] for level in LEVELS}


def knees(values: Sequence[float] | Floats, elasticity: Mapping[str, Floats]) -> list[Knee]:
    """Return where the level with the largest elasticity changes along an axis, each with both levels.

    Positions lie between the two points in proportion of logarithms, or of the values themselves where some are not
    positive. Equal elasticities count for the first level.
    """
    names = list(elasticity)
    stacked = np.stack([elasticity[name] for name in names])
    most = stacked.argmax(axis=0)
    axis = np.asarray(values, dtype=float)
    positive = bool((axis > 0.0).all())
    along = np.log(axis) if positive else axis
    found = []
    for i in np.flatnonzero(np.diff(most)):
        before, after = most[i], most[i + 1]
        here, there = (stacked[before] - stacked[after])[i : i + 2]
        place = along[i] + here / (here - there) * (along[i + 1] - along[i])
        position = float(np.exp(place) if positive else place)
        found.append(Knee(position=position, before=names[before], after=names[after]))
    return found


def _faster(cluster: Cluster, *, level: str, factor: Number) -> Cluster:
    """The cluster with everything of a level so many times faster; times of launches are the host's."""
    for number in RATES[level]:
        cluster = scaled(cluster, number, factor)
    for number in LATENCIES.get(level, ()):
        cluster = scaled(cluster, number, 1.0 / factor)
    launch_s = cluster.host.launch_time_s
    if level != "host" or launch_s is None:
        return cluster
    return replace(cluster, host=replace(cluster.host, launch_time_s=launch_s / factor))


STARTS = "kernel launches"
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
