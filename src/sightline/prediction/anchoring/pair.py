"""Two training steps beside each other: how much of their errors they have in common, which cancels between them."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from sightline.prediction.anchoring.distance import plan_spreads
from sightline.prediction.anchoring.taught import Unexplained, covariance_of
from sightline.prediction.anchoring.training import (
    AnchoredSteps,
    constants_of_site,
    site_slopes,
    slopes_at_site,
    unexplained,
)
from sightline.prediction.beliefs import Array, Gradient
from sightline.prediction.training.knowledge import Knowledge, spread_unmeasured
from sightline.prediction.training.predict import assemble
from sightline.scenario import Scenario

QUANTITY = "step_time_s"


def correlation(a: Scenario, b: Scenario, known: AnchoredSteps | None = None) -> float:
    """Return the correlation of two predictions' logarithmic errors; 0 where they have nothing in common.

    Common are the effects of the device, the framework and the site that both plans have, and of what effects do not
    explain the more the liker the plans. Both micro-batches are known; ``known`` is what runs of one's own taught.
    """
    return correlations(a, [b], known)[0]


def correlations(first: Scenario, others: Sequence[Scenario], known: AnchoredSteps | None = None) -> list[float]:
    """Return the correlation of the first prediction's error with that of each other one."""
    one, *rest = (_side(scenario, known) for scenario in (first, *others))
    return [_of_pair(one, other, known) for other in rest]


class _Side(NamedTuple):
    """What may err of a plan's step."""

    slopes: Gradient
    """How its logarithm moves with the effects at its site."""
    unexplained: Unexplained


def _side(scenario: Scenario, known: AnchoredSteps | None) -> _Side:
    usual = Knowledge().beliefs
    beliefs, before = (usual, usual) if known is None else (known.beliefs, known.taught.posterior.before)
    slopes = slopes_at_site(lambda tried: assemble(scenario, tried)[1].step_time_s, scenario, beliefs)[1]
    of_site = constants_of_site(slopes) if before is beliefs else site_slopes(scenario, QUANTITY, before)
    return _Side(slopes, unexplained(scenario, QUANTITY, of_site))


def _of_pair(a: _Side, b: _Side, known: AnchoredSteps | None) -> float:
    found = _covariance((a, b), known)
    scale = sqrt(found[0, 0] * found[1, 1])
    return float(np.clip(found[0, 1] / scale, -1.0, 1.0)) if scale else 0.0


def _covariance(sides: tuple[_Side, _Side], known: AnchoredSteps | None) -> Array:
    """The covariance of both logarithms: of their effects, and of what those do not explain."""
    spreads, wide = plan_spreads(), replace((known or Knowledge()).beliefs, prior=spread_unmeasured)
    gradients, parts = [side.slopes for side in sides], [side.unexplained for side in sides]
    own = covariance_of(parts, spreads)
    if known is None:
        return wide.joint_variance(gradients) + own
    found = known.taught.posterior
    shared = np.array([[float(part.shared_with(of, spreads)) for of in known.taught.unexplained] for part in parts])
    weights = np.array([found.weights(list(row)) for row in shared])
    slopes = [_less(gradient, row, found.gradients) for gradient, row in zip(gradients, weights, strict=True)]
    left: Array = wide.joint_variance(slopes) + own - weights @ shared.T
    return left


def _less(gradient: Gradient, weights: Array, anchors: Sequence[Gradient]) -> Gradient:
    """A plan's slopes without what it takes over of the anchors."""
    slopes = dict(gradient)
    for weight, of in zip(weights, anchors, strict=True):
        for name, slope in of.items():
            slopes[name] = slopes.get(name, 0.0) - float(weight) * slope
    return slopes
