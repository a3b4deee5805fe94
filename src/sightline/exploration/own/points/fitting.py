"""Which of several plans or devices is taken at a point: one that fits before any other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def fitting_first(seconds: NDArray[np.float64], fits: Any, memory_bytes: Any) -> NDArray[np.intp]:
    """Return, along the first axis, the place of the fastest that fits.

    Where none fits it is the one that needs least memory, and of those that need the same the fastest.

    Args:
        seconds: Of each at every point; infinite or NaN where it is not possible.
        fits: Whether each fits.
        memory_bytes: What each needs.
    """
    possible = np.isfinite(seconds)
    chosen = possible & fits
    none_fits = ~chosen.any(axis=0)
    if none_fits.any():
        needed = np.where(possible, memory_bytes, np.inf)
        chosen = np.where(none_fits, possible & (needed <= needed.min(axis=0)), chosen)
    return np.asarray(np.where(chosen, seconds, np.inf).argmin(axis=0))
