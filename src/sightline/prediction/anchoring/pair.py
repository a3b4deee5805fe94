"""Two training steps beside each other: how much of their errors they have in common, which cancels between them."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from sightline.prediction.anchoring.distance import plan_spreads
from sightline.prediction.anchoring.taught import covariance_of
from sightline.prediction.anchoring.training import AnchoredSteps, slopes_at_site, unexplained
from sightline.prediction.beliefs import Array, Beliefs, Gradient
from sightline.prediction.training.knowledge import Knowledge, spread_unmeasured
from sightline.prediction.training.predict import assemble
from sightline.scenario import Scenario

QUANTITY = "step_time_s"


def correlation(a: Scenario, b: Scenario, known: AnchoredSteps | None = None) -> float:
    """Return the correlation of two predictions' logarithmic errors; 0 where they have nothing in common.

    Common are the effects of the device, the framework and the site that both plans have, and of what effects do not
    explain the more the liker the plans. Both micro-batches are known; ``known`` is what runs of one's own taught.
    """
    beliefs = (known or Knowledge()).beliefs
    gradients = [_slopes(one, beliefs) for one in (a, b)]
    found = _covariance(gradients, (a, b), beliefs, known)
    scale = sqrt(found[0, 0] * found[1, 1])
    return float(np.clip(found[0, 1] / scale, -1.0, 1.0)) if scale else 0.0


def _slopes(scenario: Scenario, beliefs: Beliefs) -> Gradient:
    """How the logarithm of a step moves with the effects at its site."""
    return slopes_at_site(lambda tried: assemble(scenario, tried)[1].step_time_s, scenario, beliefs)[1]


def _covariance(
    gradients: list[Gradient], plans: tuple[Scenario, Scenario], beliefs: Beliefs, known: AnchoredSteps | None
) -> Array:
    """The covariance of both logarithms: of their effects, and of what those do not explain."""
    spreads, wide = plan_spreads(), replace(beliefs, prior=spread_unmeasured)
    before = Knowledge().beliefs if known is None else known.taught.posterior.before
    parts = [unexplained(one, QUANTITY, before) for one in plans]
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
