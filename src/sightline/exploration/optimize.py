"""The best split of a die for a workload: a coarse grid as arrays, then finer ones around the best of it.

    found = best_split(budget, step_time(scenario))
    found.split, found.device, found.time_s

Memory and links take the area that their interfaces need. Registers and L1 follow the compute units in A100's
proportion, as the law of synthesis has it. What is left to choose is the share of L2, and the voltage: at a lower one
more units work at the same power.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightline.errors import InputError
from sightline.prediction import predict
from sightline.quantities import Number
from sightline.scenario import Device, GenerationScenario, Scenario
from sightline.technology.budget import Budget, Split
from sightline.technology.law import LOWEST_VOLTAGE, split_of, with_l2_share
from sightline.technology.limits import buildable, problems_of
from sightline.technology.synthesis import synthesized

TimeOf = Callable[[Device], Number]
"""Makes the seconds of a workload of a device, whose numbers may be arrays; infinite where it does not fit."""
Array = NDArray[np.float64]
L2_SHARES: Final = np.geomspace(0.02, 0.8, 25)
"""Shares of the logic's area that are tried first."""
VOLTAGES: Final = np.geomspace(LOWEST_VOLTAGE, 1.0, 7)
"""Voltages over the node's nominal one."""
TRIED: Final = 7
"""Values of each number that are tried around the best so far; an odd number, so that it is among them."""
ROUNDS: Final = 3
"""How often. Each round's values lie three times as dense, so that the last are a 27th of the grid's step apart."""


def finer(best: ArrayLike, grid: Sequence[float] | Array, step: int) -> Array:
    """Return values around the best so far, along a last axis.

    Args:
        best: The best of the grid or of the round before, at any number of points; NaN where there is none.
        grid: Values that were tried first, each the same multiple of the one before.
        step: The round, from 0 on.
    """
    middle = np.asarray(best, dtype=float)[..., np.newaxis]
    reach = np.log(grid[1] / grid[0]) * (2 / (TRIED - 1)) ** step
    values = np.where(np.isnan(middle), grid[0], middle) * np.exp(np.linspace(-reach, reach, TRIED))
    return np.asarray(np.clip(values, grid[0], grid[-1]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BestSplit:
    """The best device of a budget."""

    budget: Budget
    """With the split and the voltage that were found."""
    device: Device
    time_s: float
    coarse_s: float
    """The best of the grid, before its refinement."""

    @property
    def split(self) -> Split:
        """Shares of the area."""
        return split_of(self.budget)


def step_time(scenario: Scenario | GenerationScenario) -> TimeOf:
    """Return what predicts the time of a scenario on a device in place of its own; the micro-batch must be known."""

    def time_of(device: Device) -> Number:
        profile = predict(replace(scenario, cluster=replace(scenario.cluster, device=device)))
        seconds: Number = np.where(profile.fits, profile.whole_s, np.inf)
        return seconds

    return time_of


def best_split(budget: Budget, time_of: TimeOf) -> BestSplit:
    """Return the split of the area, and the voltage, with which a budget's device is fastest.

    Args:
        budget: Plain numbers; its own split and voltage are left out.
        time_of: Seconds of the workload.

    Raises:
        InputError: no split can be built and fits, with what the budget's own exceeds.
    """
    share, voltage, coarse_s = _best_of(budget, time_of, L2_SHARES, VOLTAGES)
    if not np.isfinite(coarse_s):
        raise InputError(problems_of(budget) or "no split of the area gives a device that fits the workload")
    seconds = coarse_s
    for step in range(ROUNDS):
        found = _best_of(budget, time_of, finer(share, L2_SHARES, step), finer(voltage, VOLTAGES, step))
        share, voltage, seconds = min((share, voltage, seconds), found, key=lambda one: one[-1])
    best = _with(budget, share, voltage)
    return BestSplit(budget=best, device=synthesized(best), time_s=seconds, coarse_s=coarse_s)


def _best_of(budget: Budget, time_of: TimeOf, shares: Array, voltages: Array) -> tuple[float, float, float]:
    """The best share and voltage of all combinations, and the seconds there."""
    grid, shape = _with(budget, shares[:, np.newaxis], voltages), (len(shares), len(voltages))
    with np.errstate(all="ignore"):
        seconds = np.where(buildable(grid).mask, time_of(synthesized(grid)), np.inf)
    seconds = np.broadcast_to(np.where(np.isnan(seconds), np.inf, seconds), shape)
    i, j = np.unravel_index(int(seconds.argmin()), shape)
    return float(shares[i]), float(voltages[j]), float(seconds[i, j])


def _with(budget: Budget, l2_share: Any, voltage: Any) -> Budget:
    """The budget with a share of L2 in the logic, and a voltage over the nominal one."""
    area = with_l2_share(split_of(replace(budget, area=None)), l2_share)
    return replace(budget, area=area, voltage=voltage * budget.node.voltage)
