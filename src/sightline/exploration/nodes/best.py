"""The best of many designs and plans at every point of a study: the least time among those that are possible.

Arrays have the axes that are searched first and the study's own axes last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Best:
    """The best at every point, and figures of it."""

    time_s: Floats
    """Infinite where nothing is possible."""
    figures: Mapping[str, NDArray[Any]]

    def or_better(self, other: "Best") -> "Best":
        """Return, point by point, the better of two that have the same figures; this one where both are equal."""
        better = other.time_s < self.time_s
        figures = {name: np.where(better, other.figures[name], mine) for name, mine in self.figures.items()}
        return Best(time_s=np.where(better, other.time_s, self.time_s), figures=figures)


def best_of(time_s: Any, possible: Any, figures: Mapping[str, Any], points: Sequence[int]) -> Best:
    """Return the least time at every point of a study, and what the figures are there.

    Args:
        time_s: Seconds of all that is searched, at all points.
        possible: What can be built, is valid and fits.
        figures: Numbers that broadcast with the seconds.
        points: Lengths of the study's axes, which come last.
    """
    allowed = np.where(possible, time_s, np.inf)
    searched = allowed.shape[: allowed.ndim - len(points)]
    best = allowed.reshape(-1, *points).argmin(axis=0)
    place = (*np.unravel_index(best, searched), *np.indices(points))

    def there(values: Any) -> NDArray[Any]:
        picked: NDArray[Any] = np.broadcast_to(values, allowed.shape)[place]
        return picked

    return Best(time_s=there(allowed), figures={name: there(values) for name, values in figures.items()})
