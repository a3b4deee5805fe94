"""What better hardware would give a plan: each figure of the cluster made twice as good, the plan unchanged."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sightline import catalog
from sightline.planning.plan_answer import HardwareChange
from sightline.planning.rationale.training_rationale import NearbyPlan
from sightline.prediction.sensitivity import NUMBERS, scaled
from sightline.profile import Profile
from sightline.quantities import BYTES_PER_SECOND, GIB, SECONDS, Dimension, format_quantity, parse_quantity
from sightline.scenario import Cluster

FACTOR = 2.0
PARTS = (*NUMBERS, "host.speed")
LATENCIES = tuple(number for number in PARTS if number.endswith("latency_s"))
"""Numbers of which less is better."""
_RATES = ("memory_bandwidth", "l2_bandwidth", "bandwidth", "bandwidth_per_node")
DIMENSIONS: Mapping[str, Dimension] = {**dict.fromkeys(_RATES, BYTES_PER_SECOND), "latency_s": SECONDS}
"""Of the figures that a sentence states; of the others it says that there is twice as much."""
_WORDS = {"peak_flops": "twice the matmul rate in every format", "speed": "twice the host speed"}
LEAST_GAIN = 0.005
"""Share of the objective from which on a change is worth a line."""
_ALIKE = 0.25
"""How far a part of the catalog may be from the figure that it is named for."""


def hardware_changes(
    best: Profile, value: Callable[[Profile], Any], predict: Callable[[Any], Profile]
) -> list[HardwareChange]:
    """Return what each figure of the cluster gives if it is twice as good, the largest gain first.

    The plan stays, so that another plan may gain more; prices stay as well. All are one array-valued prediction.

    Args:
        best: The prediction of the plan.
        value: The objective, of which less is better.
        predict: What predicts a scenario whose cluster has figures that are arrays.
    """
    scenario = best.scenario
    cluster = scenario.cluster
    for place, number in enumerate(PARTS):
        factors = np.ones(len(PARTS))
        factors[place] = _factor(number)
        cluster = scaled(cluster, number, factors)
    own = value(best)
    changed = predict(replace(scenario, cluster=cluster))
    if not own:
        return []
    gains = np.broadcast_to(1.0 - np.asarray(value(changed), dtype=float) / own, len(PARTS))
    found = [
        change_of(scenario.cluster, number, float(gain))
        for number, gain in zip(PARTS, gains, strict=True)
        if gain >= LEAST_GAIN
    ]
    return sorted(found, key=lambda one: -one.gain)


def change_of(cluster: Cluster, number: str, gain: float) -> HardwareChange:
    """Return the change that makes a figure of a cluster twice as good, with what it gives."""
    return HardwareChange(part=number, factor=_factor(number), gain=gain, sentence=_sentence(cluster, number))


def _factor(number: str) -> float:
    return 1 / FACTOR if number in LATENCIES else FACTOR


def _sentence(cluster: Cluster, number: str) -> str:
    """What the figure would be, and which parts of the catalog have about that."""
    part, _, field = number.partition(".")
    dimension = DIMENSIONS.get(field)
    if dimension is None:
        return _WORDS.get(field, "twice as much")
    figure = float(getattr(getattr(cluster, part), field))
    wanted = figure * _factor(number)
    there = list(_networks_with(wanted)) if field == "bandwidth_per_node" else []
    named = f", as {' or '.join(there[:2])} has" if there else ""
    return f"{format_quantity(wanted, dimension)} instead of {format_quantity(figure, dimension)}{named}"


def _networks_with(wanted: float) -> Iterator[str]:
    """Names of the catalog's networks whose bandwidth is about the wanted one."""
    for name in catalog.names("networks"):
        figure = parse_quantity(catalog.entry("networks", name)["bandwidth_per_node"], BYTES_PER_SECOND)
        if abs(figure / wanted - 1) <= _ALIKE:
            yield name


def more_memory(best: Profile, value: Callable[[Profile], Any], around: Iterable[NearbyPlan]) -> list[HardwareChange]:
    """Return what twice the memory gives: the best of the plans beside the best one that then fit; empty if none gains.

    A single change of the plan only, so that others may gain more.
    """
    own, usable = value(best), best.usable_bytes * FACTOR
    gains = [
        (1.0 - float(value(one.profile)) / own, one)
        for one in around
        if own and one.profile and not one.problem and not one.profile.fits
        if one.profile.memory_bytes["total"] <= usable
    ]
    gain, chosen = max(gains, key=lambda found: found[0], default=(0.0, None))
    if chosen is None or gain < LEAST_GAIN:
        return []
    changed = ", ".join(f"{key.partition('.')[2]} {value}" for key, value in chosen.set.items())
    said = f"{usable / GIB:.0f} GiB instead of {best.usable_bytes / GIB:.0f} GiB, where {changed} fits"
    return [HardwareChange(part="device.memory_bytes", factor=FACTOR, gain=gain, sentence=said)]
