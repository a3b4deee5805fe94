"""Which numbers a prediction hangs on: its elasticity to each number of the device, the links and the host.

The elasticity of a result y to a number x is ``d ln y / d ln x``: -0.4 means that 10 % more of x gives about 4 % less
of y. All numbers are varied in one array-valued prediction, each at two places of the same axis, so that a sensitivity
costs no more than one small search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.prediction import needs_equal_devices, predict
from sightline.prediction.changes import plans_beside
from sightline.prediction.training.predict import profile_of
from sightline.profile import TRAINING, Profile
from sightline.quantities import Number
from sightline.scenario import Cluster, GenerationScenario, OperatorScenario, Scenario, ServingScenario

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored


class Neighbour(NamedTuple):
    """A plan that differs in one decision, and its prediction."""

    change: str
    """The decision as a scenario file would say it: ``recompute: full``."""
    profile: Profile


def neighbours(scenario: Scenario, known: "Anchored | None" = None) -> list[Neighbour]:
    """Predict every neighbour of a training scenario whose micro-batch is known, fastest first."""
    answer = profile_of if known is None else known.predict
    found = [Neighbour(change, answer(replace(scenario, plan=plan))) for change, plan in plans_beside(scenario)]
    return sorted(found, key=lambda n: float(n.profile.step_time_s))


STEP = 0.01
"""Half the width of a central difference: far above rounding, far below where one bound gives way to another."""

NUMBERS = (
    *("device.peak_flops", "device.memory_bandwidth", "device.l2_bandwidth", "device.l2_bytes", "device.vector_flops"),
    *("intra_node.bandwidth", "intra_node.latency_s", "network.bandwidth_per_node", "network.latency_s"),
)
"""Numbers of a cluster's parts that are varied. The device's units are left out: they come whole."""

AnyScenario: TypeAlias = Scenario | GenerationScenario | OperatorScenario | ServingScenario


def scaled(cluster: Cluster, number: str, factor: Number) -> Cluster:
    """Return the cluster with a multiple of one of `NUMBERS`, of a device's rates of each."""
    name, field = number.split(".")
    part = getattr(cluster, name)
    value = getattr(part, field)
    scaled = {key: rate * factor for key, rate in value.items()} if isinstance(value, Mapping) else value * factor
    return replace(cluster, **{name: replace(part, **{field: scaled})})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivity:
    """What a prediction hangs on."""

    answer: Profile
    elasticity: Mapping[str, Mapping[str, float]]
    """By number (`NUMBERS`), then by result key."""
    neighbours: Sequence[Neighbour]
    """For training: the plans that differ in one decision, fastest first."""


def sensitivity(scenario: AnyScenario, *, anchor: "Anchored | None" = None) -> Sensitivity:
    """Predict ``scenario``, the elasticities of its times and, for training, the neighbours of its plan.

    ``anchor``, what runs of one's own cluster teach, corrects all of them, as in `predict`.

    Raises:
        InputError: what `predict` raises.
    """
    needs_equal_devices(scenario.cluster, "how an answer moves with a device's figures")
    answer = predict(scenario, anchor=anchor)
    near = neighbours(answer.scenario, anchor) if answer.task is TRAINING else []
    return Sensitivity(answer=answer, elasticity=elasticities(answer.scenario, anchor), neighbours=near)


def elasticities(scenario: AnyScenario, known: "Anchored | None" = None) -> dict[str, dict[str, float]]:
    """Return the elasticity of each time of ``scenario`` to each of `NUMBERS`: number, then result key.

    The micro-batch of a training step must be known.
    """
    cluster = scenario.cluster
    for position, number in enumerate(NUMBERS):
        cluster = scaled(cluster, number, _factors(position))
    answer = predict(replace(scenario, cluster=cluster), anchor=known)
    results = {key: answer.figure(key) for key in answer.task.times}
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
