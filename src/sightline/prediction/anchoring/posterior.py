"""What own measurements teach: effects of the site, and what effects leave of the errors of plans near to theirs.

The error of a step's logarithm is a sum of effects, of something that near plans have in common, and of noise. So a
prediction near a measured step takes over what the effects left of it (kriging with a regression: Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, section 2.7).
"""

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

import numpy as np

from sightline.content import record
from sightline.cost.device_model import device_model
from sightline.errors import InputError
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient, Predict, learned

CONTRADICTION = 3.0
"""Standard deviations by which a measurement differs from what the others lead to, where they contradict each other."""

FREEDOM = 4.0
"""Degrees of freedom of how well spreads are known: measurements far from what was expected widen all of them."""

SURPRISING = 2.0
"""Factor on variances from which measurements are called surprising."""


@record
class Posterior:
    """What is believed after some measurements."""

    before: Beliefs
    beliefs: Beliefs
    timed: Sequence[Timed[Any]]
    expected: Array
    """Logarithms of the seconds predicted before anything was measured."""
    gradients: Sequence[Gradient]
    """How the predictions move with the effects, at the beliefs' means."""
    left: Array
    """Logarithms of measured over predicted at the beliefs' means."""
    noise: Array
    """Covariance of what effects do not explain."""
    scale: float = 1.0
    """Factor on variances where measurements were farther from what was expected than spreads allow for."""
    contradictions: Sequence[str] = ()

    @property
    def is_surprising(self) -> bool:
        """Whether the measurements are farther from what was expected than published clusters differ."""
        return self.scale >= SURPRISING

    def weights(self, shared: Sequence[Any]) -> Array:
        """Return how much of what is left of each measurement a plan takes over.

        ``shared`` is the covariance of its own unexplained error with that of each measurement; numbers, or arrays.
        """
        stacked = np.stack(np.broadcast_arrays(*map(np.asarray, shared))).astype(float)
        flat = stacked.reshape(len(stacked), -1)
        found: Array = np.linalg.solve(self.noise, flat).reshape(stacked.shape)
        return found

    def shift(self, shared: Sequence[Any]) -> Any:
        """Return what a plan takes over of what effects left of the measurements."""
        return np.tensordot(self.left, self.weights(shared), axes=1)

    def share_left(
        self, gradient: Gradient, before: Gradient, shared: Sequence[float], own: float, known: float = 0.0
    ) -> float:
        """Return the variance of a plan's logarithm over what it was, with its gradient ``before`` the measurements.

        ``known`` is what of its ``own`` variance is among the effects now.
        """
        was = float(self.before.joint_variance([before])[0, 0]) + own
        return self.variance(gradient, shared, own - known) / was

    def variance(self, gradient: Gradient, shared: Sequence[float], own: float) -> float:
        """Return the variance of a plan's logarithm; ``own`` is that of what effects do not explain of it."""
        weights = self.weights(shared)
        slopes: dict[str, float] = dict(gradient)
        for weight, of in zip(weights, self.gradients, strict=True):
            for name, slope in of.items():
                slopes[name] = slopes.get(name, 0.0) - float(weight) * slope
        believed = float(self.beliefs.joint_variance([slopes])[0, 0])
        return self.scale * (believed + max(0.0, own - float(np.dot(weights, shared))))


def posterior(before: Beliefs, predict: Predict, timed: Sequence[Timed[Any]], noise: Array) -> Posterior:
    """Return what measurements teach."""
    measured = np.log([one.seconds for one in timed])
    expected, slopes = predict(before)
    beliefs = learned(before, predict, measured, noise)
    predicted, gradients = predict(beliefs)
    named = before.with_effects([*beliefs.names, *(name for gradient in gradients for name in gradient)])
    mean = np.array([beliefs.mean_of(name) for name in named.names])
    errors = measured - predicted + named.matrix(gradients) @ (mean - named.mean)
    return Posterior(
        before=before,
        beliefs=beliefs,
        timed=timed,
        expected=expected,
        gradients=gradients,
        left=measured - predicted,
        noise=noise,
        scale=surprise_scale(errors, before.joint_variance(gradients) + noise),
        contradictions=contradictions(before, slopes, measured - expected, noise, timed),
    )


def surprise_scale(errors: Array, covariance: Array) -> float:
    """Return the factor on variances after errors of this covariance, whose size is only roughly known; never below 1.

    A scaled inverse chi-squared prior: Gelman et al., Bayesian Data Analysis, 3rd ed., section 3.2.
    """
    surprise = float(errors @ np.linalg.solve(covariance, errors))
    return max(1.0, (FREEDOM + surprise) / (FREEDOM + len(errors)))


def contradictions(
    before: Beliefs, slopes: Sequence[Gradient], errors: Array, noise: Array, timed: Sequence[Timed[Any]]
) -> list[str]:
    """Return a sentence for each measurement that the others, with all that is believed, make next to impossible."""
    names = [one.name for one in timed]
    if len({*names}) < 2:
        return []
    covariance, sentences = before.joint_variance(slopes) + noise, {}
    for place, one in enumerate(timed):
        others = [other for other, name in enumerate(names) if name != one.name]
        shared = covariance[others, place]
        weights = np.linalg.solve(covariance[np.ix_(others, others)], shared)
        distance = float(errors[place] - weights @ errors[others])
        if abs(distance) > CONTRADICTION * np.sqrt(covariance[place, place] - weights @ shared):
            sentences[one.name] = (
                f"anchors contradict each other: '{one.name}' measured {one.quantity} {one.seconds:.4g}, the "
                f"others give {one.seconds * np.exp(-distance):.4g}; the interval covers both"
            )
    return list(sentences.values())


def moved(found: Posterior, constant_effects: Mapping[str, float]) -> tuple[float, float]:
    """Return by how much a sum of effects moved, and its standard deviation now."""
    change = sum(s * (found.beliefs.mean_of(n) - found.before.mean_of(n)) for n, s in constant_effects.items())
    return change, float(np.sqrt(found.beliefs.joint_variance([constant_effects])[0, 0]))


FARTHEST = 5.0
"""Factor between what was measured and predicted beyond which an anchor is refused: clusters differ by far less."""
LARGER, SMALLER = ((1e3, "ms"), (1e6, "us")), ((60.0, "minutes"), (3600.0, "hours"))
"""Units that seconds may be taken for, by the factor that makes the number larger, or smaller."""


def check(found: Posterior | None) -> None:
    """Refuse anchors that are too far from their predictions; processors, which are known by far less, are left out.

    Raises:
        InputError: Some anchor is too far; all of them at once.
    """
    if found is None:
        return
    problems = []
    for one, logarithm in zip(found.timed, found.expected, strict=True):
        predicted = exp(float(logarithm))
        ratio = one.seconds / predicted
        if (
            abs(log(ratio)) <= max(one.sensitivity, 1.0) * log(FARTHEST)
            or not device_model(one.scenario.cluster.device).asynchronous
        ):
            continue
        problems.append(
            f"anchor '{one.name}' measured {one.quantity} {one.seconds:.4g} s; predicted {predicted:.4g} s: "
            f"{_question(ratio)}"
        )
    if problems:
        raise InputError(problems)


def _question(ratio: float) -> str:
    """What may explain a factor between measured and predicted."""
    size = max(ratio, 1.0 / ratio)
    near = (unit for factor, unit in (LARGER if ratio > 1 else SMALLER) if factor / 3 <= size <= factor * 3)
    unit = next(near, None)
    return "check its unit and its scenario" if unit is None else f"is it in {unit}?"
