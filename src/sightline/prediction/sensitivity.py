"""Which numbers a prediction hangs on: its elasticity to each number of the device, the links and the host.

The elasticity of a result y to a number x is ``d ln y / d ln x``: -0.4 means that 10 % more of x gives about 4 % less of
y. All numbers are varied in one array-valued prediction, each at two places of the same axis, so that a sensitivity
costs no more than one small search.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.prediction.answer import predict
from sightline.prediction.neighbours import Neighbour, neighbours
from sightline.profile import TRAINING, Profile
from sightline.quantities import Number
from sightline.scenario import Cluster, GenerationScenario, OperatorScenario, Scenario

STEP = 0.01
"""Half the width of a central difference: far above rounding, far below where one bound gives way to another."""

AnyScenario: TypeAlias = Scenario | GenerationScenario | OperatorScenario
Scale = Callable[[Cluster, Number], Cluster]


def _device(field: str) -> Scale:
    def scaled(cluster: Cluster, factor: Number) -> Cluster:
        return replace(cluster, device=replace(cluster.device, **{field: getattr(cluster.device, field) * factor}))

    return scaled


def _peak_flops(cluster: Cluster, factor: Number) -> Cluster:
    rates = {dtype: rate * factor for dtype, rate in cluster.device.peak_flops.items()}
    return replace(cluster, device=replace(cluster.device, peak_flops=rates))


def _link(field: str) -> Scale:
    def scaled(cluster: Cluster, factor: Number) -> Cluster:
        link = cluster.intra_node
        return replace(cluster, intra_node=replace(link, **{field: getattr(link, field) * factor}))

    return scaled


def _network(field: str) -> Scale:
    def scaled(cluster: Cluster, factor: Number) -> Cluster:
        network = cluster.network
        return replace(cluster, network=replace(network, **{field: getattr(network, field) * factor}))

    return scaled


NUMBERS: Mapping[str, Scale] = {
    "device.peak_flops": _peak_flops,
    "device.memory_bandwidth": _device("memory_bandwidth"),
    "device.l2_bandwidth": _device("l2_bandwidth"),
    "device.l2_bytes": _device("l2_bytes"),
    "device.vector_flops": _device("vector_flops"),
    "intra_node.bandwidth": _link("bandwidth"),
    "intra_node.latency_s": _link("latency_s"),
    "network.bandwidth_per_node": _network("bandwidth_per_node"),
    "network.latency_s": _network("latency_s"),
}
"""A number's name to how a cluster with a multiple of it is made. The device's units are left out: they come whole."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivity:
    """What a prediction hangs on."""

    answer: Profile
    elasticity: Mapping[str, Mapping[str, float]]
    """By number (`NUMBERS`), then by result key."""
    neighbours: Sequence[Neighbour]
    """For training: the plans that differ in one decision, fastest first."""


def sensitivity(scenario: AnyScenario) -> Sensitivity:
    """Predict ``scenario``, the elasticities of its times and, for training, the neighbours of its plan.

    Raises:
        InputError: what `predict` raises.
    """
    answer = predict(scenario)
    beside = neighbours(answer.scenario) if answer.task is TRAINING else []
    return Sensitivity(answer=answer, elasticity=elasticities(answer.scenario), neighbours=beside)


def elasticities(scenario: AnyScenario) -> dict[str, dict[str, float]]:
    """Return the elasticity of each time of ``scenario`` to each of `NUMBERS`: number, then result key.

    The micro-batch of a training step must be known.
    """
    cluster = scenario.cluster
    for position, scale in enumerate(NUMBERS.values()):
        cluster = scale(cluster, _factors(position))
    results = _results(predict(replace(scenario, cluster=cluster)))
    width = np.log1p(STEP) - np.log1p(-STEP)
    out: dict[str, dict[str, float]] = {}
    for position, name in enumerate(NUMBERS):
        out[name] = {}
        for key, values in results.items():
            low, high = np.broadcast_to(values, 2 * len(NUMBERS))[2 * position : 2 * position + 2]
            out[name][key] = float((np.log(high) - np.log(low)) / width)
    return out


def _factors(position: int) -> NDArray[np.float64]:
    """The multiples of one number along the axis: less and more at its own two places, 1 at the others'."""
    factors = np.ones(2 * len(NUMBERS))
    factors[2 * position : 2 * position + 2] = 1.0 - STEP, 1.0 + STEP
    return factors


def _results(answer: Profile) -> dict[str, Number]:
    """The times of an answer by their result keys."""
    return {key: getattr(answer, key) for key in answer.task.times}
