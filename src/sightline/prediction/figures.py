"""Figures that answers to several tasks have: intervals, rows of operators, energy."""

from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.operator_cost import OperatorCost
from sightline.prediction.levels import level_of
from sightline.profile import IDLE_PHASES, Profile, Row
from sightline.program import Collective, Operator
from sightline.quantities import Number, added_up
from sightline.scenario import Cluster, Scenario

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario


LONGER = ("step_time_s", "run_time_s", "cost_usd")
"""Results that grow with the step."""
SHORTER = ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu", "hfu")
"""Results that fall with it."""


def intervals(profile: Profile, spreads: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the interval of each result from its spread (a natural logarithm); none where that is unknown.

    Symmetric in the logarithm: an error of a factor is as likely up as down. Left out: that some operators and some
    plans are known better than others.
    """
    values = {key: getattr(profile, key) for key, spread in spreads.items() if spread > 0}
    return {
        key: (float(v) / exp(spreads[key]), float(v) * exp(spreads[key])) for key, v in values.items() if v is not None
    }


def lower_bounds(profile: Profile, keys: Sequence[str]) -> dict[str, tuple[float, None]]:
    """Return the one-sided interval of each result that is the least it can be."""
    return {key: (float(value), None) for key in keys if (value := getattr(profile, key)) is not None}


def operator_row(
    op: Operator, price: OperatorCost, model: DeviceModel, *, phase: str, communication: str, block: str, count: Number
) -> Row:
    """Return the row of ``count`` executions of an operator in ``phase`` on a device of ``model``, all exposed.

    A collective counts as ``communication`` and says which phase it runs in.
    """
    sends = isinstance(op, Collective)
    bound = "network" if sends else "compute" if price.compute_s >= price.memory_s else "memory"
    return Row(
        phase=communication if sends else phase,
        block=block,
        module=op.module,
        operator=f"{op.name} in {phase}" if sends else op.name,
        count=float(count),
        flops=float(count * op.flops),
        bytes=float(count * op.bytes),
        network_bytes=float(count * op.network_bytes),
        time_s=float(count * price.time_s),
        exposed_s=float(count * price.time_s),
        bound=bound,
        bound_level=level_of(op, price, model),
    )


COMMUNICATION_SHARE = 0.5
"""Share of a device's active power while it only communicates (estimate)."""
MEMORY_SHARE = 0.6
"""Share of a device's active power while memory binds it (estimate; arXiv 2311.18677 shows decoding at half of it)."""


def energy_per_step_j(scenario: Scenario, phases: Mapping[str, Number]) -> Number:
    """Joules of one step on all devices: idle power throughout, the rest up to the cap while a device works.

    Left out: hosts, network, cooling; power below the cap in memory-bound work.
    """
    power_w = power_by_phase_w(scenario.cluster, phases)
    return added_up(scenario.cluster.devices * power_w[phase] * seconds for phase, seconds in phases.items())


def power_by_phase_w(cluster: Cluster, phases: Iterable[str]) -> dict[str, Number]:
    """Return the watts that a device draws in each phase of a step."""
    device = cluster.device
    cap = device.tdp_w if cluster.power_cap_w is None else np.minimum(cluster.power_cap_w, device.tdp_w)
    power_w = dict.fromkeys(phases, cap) | dict.fromkeys(IDLE_PHASES, device.idle_w)
    power_w["communication_exposed"] = device.idle_w + COMMUNICATION_SHARE * (cap - device.idle_w)
    return power_w


def energy_of_generation_j(scenario: "GenerationScenario", limits: Mapping[str, Number]) -> Number:
    """Joules of a batch's generation on all devices: idle power throughout, more by what binds.

    Memory-bound and communicating devices draw a share of what arithmetic does, never more than the cap. Left out:
    hosts, network, cooling.
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
