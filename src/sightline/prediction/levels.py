"""Which level of the machine binds: compute, dram, l2, network or host.

An operator is bound by the largest of its three legs (arithmetic at the peak, bytes of the memory, bytes across L2, all
at the datasheet's rates), collectives and transfers by the network, what waits for the host's code by the host. A
device that waits for others, as in a pipeline's bubble, is bound by what binds the pass that it waits for.

Every predicted profile of training and generation has

- ``profile.levels``: ``{level: seconds}`` over ``LEVELS``, which sum to the step or the batch's latency; arrays where
  the scenario holds arrays. Seconds of waiting for other devices are split over the levels in proportion to the
  micro-batch's pass.
- ``profile.levels_by_phase``: of generation the same of ``prefill`` (time to first token) and ``decode`` (time per
  further token), which sum to ``levels``.
- ``profile.bound_level``: the level of most seconds, an array of names where these are arrays.
- ``row.bound_level`` in ``profile.rows``, ``profile.table``, JSON and CSV.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from sightline.cost.device_model import DeviceModel
from sightline.cost.l2 import l2_s
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.profile import LEVELS
from sightline.program import Collective, Operator
from sightline.quantities import Number, larger


class Legs(Protocol):
    """Seconds of arithmetic at the peak and of the memory's bytes: a price, or a matmul on the roofline."""

    @property
    def compute_s(self) -> Number:
        """Arithmetic."""

    @property
    def memory_s(self) -> Number:
        """Bytes of the memory."""


class Bound(NamedTuple):
    """Where each leg of an operator is the largest; of arrays masks. Elsewhere it is the memory's."""

    compute: Any
    l2: Any

    @property
    def level(self) -> Any:
        """The level that binds, an array of names where the legs are arrays."""
        if isinstance(self.compute, np.ndarray):
            return np.where(self.compute, "compute", np.where(self.l2, "l2", "dram"))
        return "compute" if self.compute else "l2" if self.l2 else "dram"


def bound_of(price: Legs, crossing_s: Number) -> Bound:
    """Return which leg binds, with ``crossing_s`` for the bytes across L2; equal ones go to compute, then to dram."""
    compute = (price.compute_s >= price.memory_s) & (price.compute_s >= crossing_s)
    return Bound(compute, crossing_s > larger(price.compute_s, price.memory_s))


def level_of(op: Operator, price: OperatorCost, model: DeviceModel) -> str:
    """Return the level that binds an operator of plain numbers."""
    if isinstance(op, Collective):
        return "network"
    return str(bound_of(price, l2_s(op, model)).level)


def work_by_level(operators: Iterable[Operator], prices: Prices, model: DeviceModel) -> dict[str, Number]:
    """Return the seconds of one execution of each operator that is no collective, by the level that binds it."""
    compute_s: Number = 0.0
    dram_s: Number = 0.0
    crossing_s: Number = 0.0
    for op in operators:
        if isinstance(op, Collective):
            continue
        price = prices[id(op)]
        time_s, bound = op.count * price.time_s, bound_of(price, l2_s(op, model))
        compute_s = compute_s + time_s * bound.compute
        crossing_s = crossing_s + time_s * bound.l2
        dram_s = dram_s + time_s * (1.0 - bound.compute - bound.l2)
    return {"compute": compute_s, "dram": dram_s, "l2": crossing_s}


def summed(*parts: Mapping[str, Number]) -> dict[str, Number]:
    """Return the seconds of several parts by level; a part may lack levels."""
    return {level: sum((part[level] for part in parts if level in part), 0.0) for level in LEVELS}


def multiple(levels: Mapping[str, Number], factor: Number) -> dict[str, Number]:
    """Return multiples of seconds by level."""
    return {level: seconds * factor for level, seconds in levels.items()}


def streaming_level(model: DeviceModel) -> Any:
    """Return 1 where bytes that are touched once are bound by L2, which is slower than the memory, else 0."""
    if not model.asynchronous:
        return 0.0
    return 1.0 * (model.device.l2_bandwidth < model.device.memory_bandwidth)
