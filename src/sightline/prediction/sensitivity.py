"""Which numbers a prediction hangs on: its elasticity to each number of the device, the links and the host.

The elasticity of a result y to a number x is ``d ln y / d ln x``: -0.4 means that 10 % more of x gives about 4 % less
of y. All numbers are varied in one array-valued prediction, each at two places of the same axis, so that a sensitivity
costs no more than one small search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.content import record
from sightline.prediction import needs_equal_devices, predict
from sightline.prediction.changes import plans_beside
from sightline.prediction.training.step_profile import profile_of
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


class Change(Protocol):
    """Returns a cluster with a multiple of some of its numbers."""

    def __call__(self, cluster: Cluster, *, factor: Number) -> Cluster:
        """Return the cluster with the numbers times ``factor``."""


AnyScenario: TypeAlias = Scenario | GenerationScenario | OperatorScenario | ServingScenario


def scaled(cluster: Cluster, number: str, factor: Number) -> Cluster:
    """Return the cluster with a multiple of one of `NUMBERS`, of a device's rates of each."""
    name, field = number.split(".")
    part = getattr(cluster, name)
    value = getattr(part, field)
    scaled = {key: rate * factor for key, rate in value.items()} if isinstance(value, Mapping) else value * factor
    return replace(cluster, **{name: replace(part, **{field: scaled})})


@record
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
    needs_equal_devices(scenario.cluster, "sensitivity to device figures")
    answer = predict(scenario, anchor=anchor)
    near = neighbours(answer.scenario, anchor) if answer.task is TRAINING else []
    return Sensitivity(answer=answer, elasticity=elasticities(answer.scenario, anchor), neighbours=near)


def elasticities(scenario: AnyScenario, known: "Anchored | None" = None) -> dict[str, dict[str, float]]:
    """Return the elasticity of each time of ``scenario`` to each of `NUMBERS`: number, then result key.

    The micro-batch of a training step must be known.
    """
    by_number = varied(scenario, {number: partial(scaled, number=number) for number in NUMBERS}, known=known)
    return {number: {key: float(value) for key, value in by_key.items()} for number, by_key in by_number.items()}


def varied(
    scenario: AnyScenario,
    parts: Mapping[str, Change],
    keys: Sequence[str] = (),
    *,
    shape: tuple[int, ...] = (),
    known: "Anchored | None" = None,
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return ``d ln y / d ln x`` of each time y to each part x of a cluster: part, then result key.

    A central difference. All parts are varied in one prediction, each at two places of an axis before the scenario's.

    Args:
        scenario: Its micro-batch must be known; its numbers may be arrays.
        parts: By name, what returns a cluster with a part multiplied by ``factor``.
        keys: Result keys; all times of the task where none are named.
        shape: That of these results.
        known: Corrects the predictions.
    """
    cluster, axes = scenario.cluster, tuple(1 for _ in shape)
    for position, change in enumerate(parts.values()):
        factors = np.ones((2 * len(parts), *axes))
        factors[2 * position : 2 * position + 2] = np.array([1.0 - STEP, 1.0 + STEP]).reshape(-1, *axes)
        cluster = change(cluster, factor=factors)
    answer = predict(replace(scenario, cluster=cluster), anchor=known)
    width = np.log1p(STEP) - np.log1p(-STEP)
    out: dict[str, dict[str, NDArray[np.float64]]] = {name: {} for name in parts}
    for key in keys or answer.task.times:
        seconds = np.broadcast_to(np.asarray(answer.figure(key), dtype=float), (2 * len(parts), *shape))
        if not keys and not (seconds > 0.0).any():  # no time, or none per token of a single one
            continue
        logs = np.log(seconds)
        for position, name in enumerate(parts):
            out[name][key] = (logs[2 * position + 1] - logs[2 * position]) / width
    return out


def sensitivity_to_dict(answer: Sensitivity) -> dict[str, Any]:
    """Return the prediction's result keys, ``elasticity`` by number and result key, and ``neighbours``."""
    neighbours = [neighbour_to_dict(neighbour) for neighbour in answer.neighbours]
    return {**answer.answer.to_dict(), "elasticity": answer.elasticity, "neighbours": neighbours}


def neighbour_to_dict(neighbour: Neighbour) -> dict[str, Any]:
    """Return a plan that differs in one decision, with its time and memory."""
    profile = neighbour.profile
    return {
        "change": neighbour.change,
        "step_time_s": float(profile.step_time_s),
        "memory_bytes": float(profile.memory_bytes["total"]),
        "fits": bool(profile.fits),
    }
