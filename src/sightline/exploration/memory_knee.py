"""The knee of latency over the bandwidth of the device memory: from where another level of the machine matters more.

Latency depends on a level as strongly as its elasticity to the level's rate says. The knee is the bandwidth from which
the elasticity to another level's rate is larger than that to the memory's bandwidth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sightline.prediction import predict
from sightline.prediction.sensitivity import scaled
from sightline.quantities import Number
from sightline.scenario import GenerationScenario

Floats = NDArray[np.float64]
STEP = 0.01
"""Half the width of a central difference."""
RATES: Mapping[str, Sequence[str]] = {
    "compute": ("device.peak_flops", "device.vector_flops"),
    "dram": ("device.memory_bandwidth",),
    "l2": ("device.l2_bandwidth",),
}
"""The numbers of a device that are the rates of a level."""
STARTS = "kernel starts"
"""What no rate shortens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Knee:
    """Where the memory's bandwidth stops to be what latency depends on most."""

    level: str
    """The level that overtakes it, or `STARTS`."""
    bandwidth: float
    """Bytes per second."""


def with_numbers(scenario: GenerationScenario, **numbers: Number) -> GenerationScenario:
    """Return a scenario on a device with other numbers, which may be arrays."""
    device = replace(scenario.cluster.device, **numbers)  # type: ignore[arg-type]
    return replace(scenario, cluster=replace(scenario.cluster, device=device))


def knee_of(scenario: GenerationScenario, bandwidth: Floats) -> Knee | None:
    """Return the first of rising bandwidths at which another level matters more; None where none does."""
    found = elasticities(scenario, bandwidth)
    others = [name for name in found if name != "dram"]
    values = np.stack([found[name] for name in others])
    overtaken = values.max(axis=0) > found["dram"]
    if not overtaken.any():
        return None
    place = int(overtaken.argmax())
    return Knee(level=others[int(values[:, place].argmax())], bandwidth=float(bandwidth[place]))


def elasticities(scenario: GenerationScenario, bandwidth: Floats) -> dict[str, Floats]:
    """Return the elasticity of the speed to each level, by bandwidth of the memory; they sum to 1.

    The speed is one over the latency: with 0.4, a level that is 10 % faster makes about 4 % less latency. Links and the
    host count with their share of the time, what nothing of it all shortens as `STARTS`.
    """
    there = with_numbers(scenario, memory_bandwidth=bandwidth)
    cluster = there.cluster
    for place, level in enumerate(RATES):
        factor = np.ones((2 * len(RATES), 1))
        factor[2 * place : 2 * place + 2, 0] = 1.0 - STEP, 1.0 + STEP
        for number in RATES[level]:
            cluster = scaled(cluster, number, factor)
    logs = np.log(predict(replace(scenario, cluster=cluster)).latency_s)
    width = np.log1p(STEP) - np.log1p(-STEP)
    found = {level: (logs[2 * place] - logs[2 * place + 1]) / width for place, level in enumerate(RATES)}
    profile = predict(there)
    found |= {level: profile.levels[level] / profile.latency_s for level in ("network", "host")}
    return {**found, STARTS: 1.0 - sum(found.values())}
