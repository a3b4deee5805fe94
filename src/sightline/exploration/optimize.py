"""The best split of a die for a workload: a coarse grid as arrays, then SciPy on the continuous shares.

    found = best_split(budget, step_time(scenario))
    found.split, found.device, found.time_s

Memory and links take the area that their interfaces need. Registers and L1 follow the compute units in A100's
proportion, as the law of synthesis has it. What is left to choose is the share of L2, and the voltage: at a lower one
more units work at the same power.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

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
L2_SHARES: Final = np.geomspace(0.02, 0.8, 25)
"""Shares of the logic's area that are tried first."""
VOLTAGES: Final = np.linspace(LOWEST_VOLTAGE, 1.0, 7)
"""Voltages over the node's nominal one."""
TOLERANCE: Final = 1e-4
"""Share of the time to which the refinement is carried."""
_MOST_STEPS: Final = 80


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
    grid = _with(budget, L2_SHARES.reshape(-1, 1), VOLTAGES.reshape(1, -1))
    shape = (len(L2_SHARES), len(VOLTAGES))
    with np.errstate(all="ignore"):
        seconds = np.where(buildable(grid).mask, time_of(synthesized(grid)), np.inf)
    seconds = np.broadcast_to(seconds, shape)
    i, j = np.unravel_index(int(seconds.argmin()), shape)
    if not np.isfinite(seconds[i, j]):
        raise InputError(problems_of(budget) or "no split of the area leaves a device on which the workload fits")
    share, voltage, refined_s = _refined(budget, time_of, float(L2_SHARES[i]), float(VOLTAGES[j]))
    if refined_s > seconds[i, j]:
        share, voltage, refined_s = float(L2_SHARES[i]), float(VOLTAGES[j]), float(seconds[i, j])
    best = _with(budget, share, voltage)
    return BestSplit(budget=best, device=synthesized(best), time_s=refined_s, coarse_s=float(seconds[i, j]))


def _with(budget: Budget, l2_share: Any, voltage: Any) -> Budget:
    """The budget with a share of L2 in the logic, and a voltage over the nominal one."""
    area = with_l2_share(split_of(replace(budget, area=None)), l2_share)
    return replace(budget, area=area, voltage=voltage * budget.node.voltage)


def _refined(budget: Budget, time_of: TimeOf, share: float, voltage: float) -> tuple[float, float, float]:
    """The best share and voltage near a point of the grid, and the seconds there."""
    from scipy.optimize import minimize

    def logarithm(x: Any) -> float:
        one = _with(budget, float(np.exp(x[0])), float(x[1]))
        seconds = np.inf if problems_of(one) else float(time_of(synthesized(one)))
        return float(np.log(seconds)) if np.isfinite(seconds) else 1e3

    bounds = [(np.log(L2_SHARES[0]), np.log(L2_SHARES[-1])), (LOWEST_VOLTAGE, 1.0)]
    start = np.array([np.log(share), voltage])
    options = {"maxfev": _MOST_STEPS, "fatol": TOLERANCE, "xatol": 1e-3}
    found = minimize(logarithm, start, method="Nelder-Mead", bounds=bounds, options=options)
    return float(np.exp(found.x[0])), float(found.x[1]), float(np.exp(found.fun))
