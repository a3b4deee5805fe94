"""Robust least squares of positive constants in log space, with a weak pull towards what is usual."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

ROBUST_SCALE = 0.05
"""Relative error beyond which a measurement loses weight: tables hold spikes of a busy host."""
PRIOR_WEIGHT = 0.06
"""Pull on the logarithm of every constant towards its centre: decides only what the data leave open."""


def robust_fit(
    model: Callable[[Vector], Vector],
    measured: Vector,
    centre: Vector,
    least: Vector,
    most: Vector,
    starts: Sequence[Vector],
) -> Vector:
    """Return the positive values, within bounds, whose model is nearest to what was measured, from the best start.

    Starts are logarithms; so are the distances between model and measurement, and to the centre.
    """
    from scipy.optimize import least_squares

    def misfit(logs: Vector) -> Vector:
        pull = PRIOR_WEIGHT * (logs - np.log(centre))
        return np.concatenate([np.log(model(np.exp(logs)) / measured), pull])

    low, high = np.log(least), np.log(most)
    found = [
        least_squares(
            misfit,
            np.clip(start, low + 1e-6, high - 1e-6),
            bounds=(low, high),
            loss="soft_l1",
            f_scale=ROBUST_SCALE,
            max_nfev=200,
            xtol=1e-6,
        )
        for start in starts
    ]
    values: Vector = np.exp(min(found, key=lambda f: f.cost).x)
    return values
