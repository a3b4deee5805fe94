"""Energy of a step."""

from collections.abc import Mapping

import numpy as np

from sightline.quantities import Number
from sightline.scenario import Scenario

IDLE_PHASES = ("pipeline_bubble", "host")
COMMUNICATION_SHARE = 0.5
"""Share of a device's active power while it only communicates (estimate)."""


def energy_per_step_j(scenario: Scenario, phases: Mapping[str, Number]) -> Number:
    """Joules of one step on all devices: idle power throughout, the rest up to the cap while a device works.

    Left out: hosts, network, cooling; power below the cap in memory-bound work.
    """
    cluster = scenario.cluster
    device = cluster.device
    cap = device.tdp_w if cluster.power_cap_w is None else np.minimum(cluster.power_cap_w, device.tdp_w)
    step_s = sum(phases.values())
    talking = phases["communication_exposed"]
    working = step_s - talking - sum(phases[p] for p in IDLE_PHASES)
    active_s = working + COMMUNICATION_SHARE * talking
    return cluster.devices * (device.idle_w * step_s + (cap - device.idle_w) * active_s)
