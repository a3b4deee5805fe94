"""Energy of a training step and of a generation."""

from collections.abc import Mapping

import numpy as np

from sightline.quantities import Number, added_up
from sightline.scenario import GenerationScenario, Scenario

IDLE_PHASES = ("pipeline_bubble", "host")
COMMUNICATION_SHARE = 0.5
"""Share of a device's active power while it only communicates (estimate)."""
MEMORY_SHARE = 0.6
"""Share of a device's active power while memory binds it (estimate; arXiv 2311.18677 shows decoding at half of it)."""


def energy_per_step_j(scenario: Scenario, phases: Mapping[str, Number]) -> Number:
    """Joules of one step on all devices: idle power throughout, the rest up to the cap while a device works.

    Left out: hosts, network, cooling; power below the cap in memory-bound work.
    """
    cluster = scenario.cluster
    device = cluster.device
    cap = device.tdp_w if cluster.power_cap_w is None else np.minimum(cluster.power_cap_w, device.tdp_w)
    power_w = dict.fromkeys(phases, cap) | dict.fromkeys(IDLE_PHASES, device.idle_w)
    power_w["communication_exposed"] = device.idle_w + COMMUNICATION_SHARE * (cap - device.idle_w)
    return added_up(cluster.devices * power_w[phase] * seconds for phase, seconds in phases.items())


def energy_of_generation_j(scenario: GenerationScenario, limits: Mapping[str, Number]) -> Number:
    """Joules of a batch's generation on all devices: idle power throughout, more by what binds.

    Memory-bound and communicating devices draw a share of what arithmetic does, never more than the cap. Left out: hosts,
    network, cooling.
    """
    cluster = scenario.cluster
    device = cluster.device
    active_w = device.tdp_w - device.idle_w
    cap_w = active_w if cluster.power_cap_w is None else np.minimum(cluster.power_cap_w - device.idle_w, active_w)
    active_j = sum(
        np.minimum(cap_w, share * active_w) * limits[bound]
        for bound, share in (("compute", 1.0), ("memory", MEMORY_SHARE), ("network", COMMUNICATION_SHARE))
    )
    return cluster.devices * (device.idle_w * sum(limits.values()) + active_j)
