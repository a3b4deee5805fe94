"""The clock under a power cap: what arithmetic loses when a device may not draw its full power.

A device whose arithmetic is busy draws ``P_idle + (P_tdp - P_idle) f V(f)^2`` at the share ``f`` of its usual clock,
the dynamic power of CMOS, with the voltage ``V`` relative to the usual one. The largest ``f`` that stays under the cap
scales all that runs at the core's clock: matrix and vector units and the cache. Memory and links have clocks of their
own, so that work they bind keeps its speed, as decoding does at half of an H100's power (arXiv 2311.18677).

Left out: memory-bound work whose own power is above a very low cap, and clocks above the usual one where less is drawn.

Cycles of a device's compute units, as far as its datasheet tells them.

What kernels take to start and to join their parts are so many cycles, much the same from one generation to the next,
while waiting for memory takes its time at any clock.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sightline.catalog import entry
from sightline.content import record
from sightline.cost import families
from sightline.cost.families import UNMEASURED, Stated
from sightline.quantities import Number, either, smaller
from sightline.scenario import Cluster, Device, Scenario

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario, OperatorScenario

VOLTAGE_FLOOR, VOLTAGE_SLOPE = 0.67, 0.69
"""Voltage over the usual one: ``max(floor, 1 - slope (1 - f))``; orders of magnitude of 12 and 7 nm GPUs (estimate)."""
_HALVINGS = 40

Asked = TypeVar("Asked", Scenario, "GenerationScenario", "OperatorScenario")


def clock_share(active: Number) -> Number:
    """Return the share of the usual clock at which arithmetic draws the share ``active`` of its usual dynamic power.

    Solves ``f V(f)^2 = active`` by halving; 1 where ``active`` is 1 or more, 0 where it is 0.
    """
    low, high = np.zeros_like(np.asarray(active, dtype=float)), np.ones_like(np.asarray(active, dtype=float))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        voltage = np.maximum(VOLTAGE_FLOOR, 1.0 - VOLTAGE_SLOPE * (1.0 - middle))
        under = middle * voltage**2 <= active
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    share: Number = np.where(np.asarray(active) >= 1.0, 1.0, low)
    return share if np.ndim(share) else float(share)


def under_cap(cluster: Cluster) -> Cluster:
    """Return the cluster with its devices at the clock that its power cap leaves them; itself without a lower cap."""
    device, cap = cluster.device, cluster.power_cap_w
    if cap is None or not np.any(np.asarray(cap) < device.tdp_w):
        return cluster
    share = clock_share((np.minimum(cap, device.tdp_w) - device.idle_w) / (device.tdp_w - device.idle_w))
    slower = replace(
        device,
        peak_flops={dtype: rate * share for dtype, rate in device.peak_flops.items()},
        vector_flops=device.vector_flops * share,
        l2_bandwidth=device.l2_bandwidth * share,
    )
    return replace(cluster, device=slower, power_cap_w=None)


def at_its_clock(scenario: Asked) -> Asked:
    """Return the scenario as it is priced: its devices at the clock that the power cap leaves them."""
    cluster = under_cap(scenario.cluster)
    return scenario if cluster is scenario.cluster else replace(scenario, cluster=cluster)


FASTEST_CLOCK_HZ = 2.9e9
"""No accelerator's compute units run faster; two operations per lane and cycle tell the lanes by it."""
MOST_LANES = 128
REFERENCE_HZ = 1.75e9
"""Clock at which constants of several devices together state their cycles as times."""


def clock_hz(device: Device) -> Number:
    """Return the clock; compute units have 64 or 128 lanes of two operations a cycle."""
    per_lane = device.vector_flops / device.compute_units / MOST_LANES
    return either(per_lane > FASTEST_CLOCK_HZ, per_lane / 2, per_lane)


def lanes(device: Device) -> Number:
    """Return how many fp32 operations a compute unit starts per cycle."""
    return device.vector_flops / device.compute_units / clock_hz(device) / 2


SIXTEEN_BITS = ("bf16", "fp16")


@record
class SustainedLaw(Stated):
    """Constants of the rule, fitted to the best products of some twenty devices."""

    scale: float
    exponent: float
    process_energy: float
    """Energy of an operation in silicon of 12 nm over that of later one."""
    makers: Mapping[str, float]
    """Share that the library of a maker reaches of what power allows; only devices of these makers follow the rule."""
    devices: Mapping[str, float] = field(default_factory=dict)
    """The same on a device whose best product was published, where the maker's library is not the usual one."""


@cache
def shipped_law() -> SustainedLaw:
    """Return the rule as it is fitted to all devices."""
    return SustainedLaw.from_mapping(entry("calibrations", f"{UNMEASURED}/matmul")["sustained"])


def watts_per_tflops(device: Device) -> Number:
    """Return the board's power limit over its 16-bit peak."""
    peak = next(device.peak_flops[dtype] for dtype in SIXTEEN_BITS if dtype in device.peak_flops)
    return device.tdp_w / (peak / 1e12)


def sustained_share(device: Device, law: SustainedLaw) -> Number | None:
    """Return the share of the 16-bit peak that long products keep; None for devices that the rule says nothing of."""
    architecture: Mapping[str, Any] = families.of_device(device)
    if architecture["maker"] not in law.makers or not any(dtype in device.peak_flops for dtype in SIXTEEN_BITS):
        return None
    watts = watts_per_tflops(device) / (law.process_energy if "process" in architecture else 1.0)
    share: Number = library_share(device, law) / (1.0 + law.scale * watts**-law.exponent)
    return smaller(share, 1.0)


def library_share(device: Device, law: SustainedLaw) -> float:
    """Return the share that a device's library reaches of what power allows, in products of any length."""
    return law.devices.get(device.name, law.makers.get(families.of_device(device)["maker"], 1.0))
