"""What anchors of one task taught: effects of their site, and what effects leave of errors, shared by likeness."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.content import record
from sightline.prediction.anchoring.distance import Description, Spreads, likeness
from sightline.prediction.anchoring.posterior import Posterior, posterior
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient, Predict
from sightline.quantities import Number


@record
class Unexplained:
    """What effects do not explain of a time: its parts as standard deviations of its logarithm."""

    description: Description
    noise: float
    """Its own alone."""
    near: Mapping[str, Number]
    """What it has in common with others as far as they are alike, by kind; arrays for an open mesh."""
    common: Mapping[str, Number]
    """What it has in common with all that have it, by kind; arrays for an open mesh."""

    @property
    def variance(self) -> float:
        """All of it; of one plan."""
        return self.noise**2 + sum(float(part) ** 2 for part in (*self.near.values(), *self.common.values()))

    def shared_with(self, anchor: "Unexplained", spreads: Spreads) -> Number:
        """Return the covariance with an anchor's."""
        near = sum(part * anchor.near.get(kind, 0.0) for kind, part in self.near.items())
        common = sum(part * anchor.common.get(kind, 0.0) for kind, part in self.common.items())
        return near * likeness(anchor.description, self.description, spreads) + common


def covariance_of(parts: Sequence[Unexplained], spreads: Spreads) -> Array:
    """Return the covariance of what effects do not explain of several times."""
    rows = [[float(one.shared_with(other, spreads)) for other in parts] for one in parts]
    return np.array(rows) + np.diag([one.noise**2 for one in parts])


@record
class Taught:
    """What is believed after the anchors of a task."""

    posterior: Posterior
    unexplained: Sequence[Unexplained]
    """What effects do not explain of each anchor."""
    spreads: Spreads

    def taken_over(self, plan: Unexplained) -> Number:
        """Return what a plan takes over of what effects left of the anchors: a shift of its logarithm."""
        shift: Number = self.posterior.shift(self._shared(plan))
        return shift

    def share_left(self, plan: Unexplained, before: Gradient, after: Gradient, known: float = 0.0) -> float:
        """Return the variance of a plan's logarithm over what it was without anchors.

        ``before`` and ``after`` say how it moves with effects at what was believed then and is believed now; ``known``
        is the part of its unexplained variance that became effects.
        """
        return self.posterior.share_left(after, before, list(map(float, self._shared(plan))), plan.variance, known)

    def _shared(self, plan: Unexplained) -> list[Number]:
        return [plan.shared_with(one, self.spreads) for one in self.unexplained]


def teach(
    before: Beliefs,
    predict: Predict,
    timed: Sequence[Timed[Any]],
    unexplained: Sequence[Unexplained],
    spreads: Spreads,
) -> Taught:
    """Return what anchors teach that ``predict`` predicts, with what effects do not explain of each."""
    found = posterior(before, predict, timed, covariance_of(unexplained, spreads))
    return Taught(posterior=found, unexplained=unexplained, spreads=spreads)


def widest(own: float, others: Sequence[tuple[float, float]]) -> float:
    """Return the half-width of an interval that also spans those of ``others``: their distances and half-widths.

    Others are what each of several anchors says alone, where they contradict each other.
    """
    return max((own, *(abs(distance) + spread for distance, spread in others)))


def contradicting(found: Taught) -> list[str]:
    """Return the names of the runs if some contradict each other; nothing where none do."""
    names = dict.fromkeys(one.name for one in found.posterior.timed)
    return list(names) if found.posterior.contradictions and len(names) > 1 else []


@record
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
