"""What no constant explains of measured loads: each one's own slowdown of prompts and of decoding, shared by likeness.

A load's schedule follows these slowdowns, so that they are effects and not noise of its times: a queue makes more of
them than they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.prediction.anchoring.distance import Spreads
from sightline.prediction.anchoring.taught import Unexplained, covariance_of
from sightline.prediction.beliefs import Array, Beliefs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cases:
    """The slowdowns of all loads."""

    names: Sequence[str] = ()
    """Of their effects."""
    parts: Sequence[Unexplained] = ()
    """What each has in common with plans."""
    spreads: Spreads

    @property
    def covariance(self) -> Array:
        """That of the effects, before anything is measured."""
        return covariance_of(self.parts, self.spreads)

    def weights(self, plan: Unexplained) -> dict[str, float]:
        """Return how much a plan takes over of each."""
        if not self.names:
            return {}
        found = np.linalg.solve(self.covariance, self._shared(plan))
        return dict(zip(self.names, map(float, found), strict=True))

    def known(self, plan: Unexplained) -> float:
        """Return the part of a plan's unexplained variance that these slowdowns are."""
        return float(np.dot(list(self.weights(plan).values()), self._shared(plan))) if self.names else 0.0

    def taken_over(self, plan: Unexplained, beliefs: Beliefs) -> float:
        """Return the shift of a plan's logarithm that it takes over of what is believed of them."""
        return sum(weight * beliefs.mean_of(name) for name, weight in self.weights(plan).items())

    def _shared(self, plan: Unexplained) -> Array:
        return np.array([float(plan.shared_with(part, self.spreads)) for part in self.parts])
