"""A scenario and what is varied of it: the numbers of all axes as arrays, each along a dimension of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.exploration.footprint import Electricity
from sightline.exploration.own.asked.axes import Axis, along
from sightline.exploration.own.asked.numbers import TECHNOLOGY
from sightline.exploration.own.asked.prices import Price, with_prices
from sightline.exploration.own.points.technology import Devices, cut
from sightline.loading.loader import Asked
from sightline.scenario import Scenario

DEGREES: Final = ("plan.tensor_parallel", "plan.pipeline_parallel", "plan.context_parallel")
Index = tuple[slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variation:
    """A scenario and what is varied of it: every point of the axes."""

    base: Asked
    axes: Sequence[Axis]
    prices: Sequence[Price] = ()
    """What numbers add to a device's rent."""
    electricity: Electricity = field(default_factory=Electricity)
    """What carbon is worked out with."""
    devices: Devices | None = None
    """Those that technology axes make; None without any."""

    def at(self, index: Index, before: int = 0) -> Asked:
        """Return the scenario of a block: each number of an axis as an array along its dimension.

        ``before`` are dimensions of plans that come before those of the axes.
        """
        base = self.base if self.devices is None else self.devices.put(self.base, index, before)
        scenario = base
        for i, (axis, part) in enumerate(zip(self.axes, index, strict=True)):
            if not axis.key.startswith(TECHNOLOGY):
                values = along(axis.values[part], before + i, before + len(self.axes))
                scenario = _put(scenario, base, axis, values)
        return with_prices(scenario, self.base, self.prices)

    def buildable(self, index: Index) -> Any:
        """Return which points of a block have a device that can be built."""
        if self.devices is None:
            return True
        return cut(self.devices.possible, index)


def _put(scenario: Asked, base: Asked, axis: Axis, values: NDArray[np.float64]) -> Asked:
    """The scenario with the values of an axis."""
    key = axis.number
    if key is None:
        raise TypeError(f"{axis.key} is no number")
    if not axis.is_multiple:
        return key.put(scenario, values)
    number = key.get(base)
    if number is None:
        raise InputError(f"axes.{axis.key} has multiples of a number that {base.cluster.device.name} lacks")
    if isinstance(number, Mapping):
        return key.put(scenario, {dtype: rate * values for dtype, rate in number.items()})
    return key.put(scenario, number * values)


def with_replicas(scenario: Asked, axes: Sequence[Axis], *, stated: bool) -> Asked:
    """Return a training scenario whose replicas take the devices that varied degrees leave, unless they are stated."""
    keys = {axis.key for axis in axes}
    if stated or not isinstance(scenario, Scenario) or not keys & set(DEGREES):
        return scenario
    plan = scenario.plan
    ranks: Any = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel
    return replace(scenario, plan=replace(plan, data_parallel=scenario.cluster.devices / ranks))
