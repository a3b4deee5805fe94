"""Training steps of one's own cluster: what they teach of a framework's constants there, and predictions with it.

Two steps beside each other share much of their errors, which cancels between them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from sightline.content import record
from sightline.cost.device_model import device_model
from sightline.prediction.anchoring.posterior import (
    Corrections,
    Spreads,
    Unexplained,
    contradicting,
    corrections_of,
    covariance_of,
    described,
    plan_spreads,
    widest,
)
from sightline.prediction.anchoring.timed import MeasuredStep, seconds_of
from sightline.prediction.beliefs import Array, Beliefs, Gradient
from sightline.prediction.training.constants import (
    PACE,
    STEP,
    TrainingConstants,
    base_constants,
    causes_of,
    gradient,
    priors,
    shifted,
    shifts,
    stated_set,
)
from sightline.prediction.training.knowledge import Knowledge, beyond, case_variance, spread_unmeasured
from sightline.prediction.training.step_profile import predict, step_of
from sightline.quantities import FOUR_IN_FIVE, Number
from sightline.scenario import Scenario

IDEAL = 1e-9
"""Slowdowns and the host's times where nothing but the roofline binds."""


def site_of(scenario: Scenario) -> str:
    """Return the site of an anchor or of a plan: one's own cluster of one device, with one framework."""
    return f"own {scenario.plan.framework.lineage} on {scenario.cluster.device.name}"


@record
class AnchoredSteps(Knowledge):
    """What is known of training once steps of one's own cluster were measured."""

    corrections: Corrections
    alternatives: Sequence["AnchoredSteps"] = ()
    """Where anchors contradict each other: what each teaches alone."""

    def constants(self, scenario: Scenario) -> TrainingConstants:
        """Return the constants that a scenario is predicted with: its own pace takes over what near anchors left."""
        known = self.corrections
        shift = shifts(known.beliefs, causes_of(scenario, known.beliefs, site_of(scenario)))
        near = self.corrections.taken_over(self._unexplained(scenario))
        return shifted(scenario, shift | {PACE: shift[PACE] + near})

    def _unexplained(self, scenario: Scenario) -> Unexplained:
        return unexplained(scenario, "step_time_s", site_slopes(scenario, "step_time_s", self.corrections.before))

    def spread(self, scenario: Scenario, seconds: Callable[[TrainingConstants], Number]) -> float:
        """Return the logarithmic half-width of a time's 80 % interval.

        It spans what each anchor says alone where anchors contradict each other.
        """
        known = self.corrections
        before, after = (slopes_at_site(seconds, scenario, beliefs)[1] for beliefs in (known.before, known.beliefs))
        left = self.corrections.share_left(self._unexplained(scenario), before, after)
        own: float = Knowledge(stated=known.before).spread(scenario, seconds) * sqrt(left)
        if not self.alternatives:
            return own
        here = np.log(seconds(self.constants(scenario)))
        others = [
            (float(np.log(seconds(alternative.constants(scenario))) - here), alternative)
            for alternative in self.alternatives
        ]
        return widest(own, [(far, alternative.spread(scenario, seconds)) for far, alternative in others])

    def _is_own(self, scenario: Scenario) -> bool:
        """Whether one's own runs are of the same device and framework, and none is farther off than clusters differ."""
        if self.corrections.is_surprising:
            return False
        return any(site_of(anchor.scenario) == site_of(scenario) for anchor in self.corrections.timed)

    def evidence(self, scenario: Scenario) -> str:
        """Return what the constants rest on: one's own run where it is of the same device and framework.

        After runs that are farther off than clusters differ, nothing is calibrated.
        """
        if self._is_own(scenario):
            return "calibrated"
        usual = Knowledge.evidence(self, scenario)
        return "extrapolated" if usual == "calibrated" and self.corrections.is_surprising else usual

    def missing(self, scenario: Scenario) -> dict[str, str]:
        """Return what would have to be measured for calibrated constants; nothing after one's own run."""
        return {} if self._is_own(scenario) else Knowledge.missing(self, scenario)


def unexplained(scenario: Scenario, quantity: str, slopes: Mapping[str, Number]) -> Unexplained:
    """Return what effects do not explain of a result of a scenario, whose plans may be arrays, by its `site_slopes`.

    A constant differs between plans of a site, by the code that each runs, as it does between sites. Outside of what
    the framework was measured on, steps err alike as far as they lie outside by the same; so do those of a device whose
    owner stated its constants, by half of the square of their spread.
    """
    stated = stated_set(scenario)
    noise, near = case_parts(slopes, plan_spreads())
    common = dict(beyond(scenario))
    if stated is not None:
        common[f"stated for {scenario.cluster.device.name}"] = stated[0].spread / FOUR_IN_FIVE / sqrt(2.0)
    return Unexplained(
        description=described(scenario, quantity),
        noise=noise,
        near=near,
        common=common,
    )


def case_parts(slopes: Mapping[str, Number], spreads: Spreads) -> tuple[float, dict[str, Number]]:
    """Return what is a step's own noise, and what it has in common with those like it, by kind."""
    parts = {name: spreads.constants * priors()[name].spreads["site"] * slope for name, slope in slopes.items()}
    near = sqrt(spreads.shared * case_variance())
    return sqrt((1.0 - spreads.shared) * case_variance()), {"case": near, **parts}


def site_slopes(scenario: Scenario, quantity: str, known: Beliefs) -> dict[str, Number]:
    """Return how the logarithm of a time moves with each constant of its site; plans may be arrays."""

    def logarithm(shift: Mapping[str, float]) -> Number:
        seconds: Number = np.log(seconds_of(scenario, quantity, shifted(scenario, shift)))
        return seconds

    at = shifts(known, causes_of(scenario, known, site_of(scenario)))
    before = logarithm(at)
    if np.ndim(before) == 0:
        _, slopes = slopes_at_site(lambda constants: seconds_of(scenario, quantity, constants), scenario, known)
        return constants_of_site(slopes)
    names = [name for name, prior in priors().items() if "site" in prior.spreads]
    return {name: (logarithm(at | {name: at[name] + STEP}) - before) / STEP for name in names}


def constants_of_site(slopes: Gradient) -> dict[str, Number]:
    """Return the slopes of a site's constants among those of all effects."""
    return {name.split("/")[0]: slope for name, slope in slopes.items() if name.split("/")[1] == "site"}


def learn_steps(timed: Sequence[MeasuredStep], *, known: Beliefs | None = None) -> AnchoredSteps:
    """Return what is known after the anchors; ``known`` before them, else what the catalog's measurements taught."""
    before = Knowledge(stated=known).beliefs
    own = [unexplained(one.scenario, one.quantity, site_slopes(one.scenario, one.quantity, before)) for one in timed]
    corrections = corrections_of(before, _predictor(timed), timed, own, plan_spreads())
    paces = [_pace(one, of, corrections.beliefs) for one, of in zip(timed, corrections.left, strict=True)]
    corrections = replace(corrections, left=np.array(paces))
    alone = [
        learn_steps([one for one in timed if one.name == name], known=known) for name in contradicting(corrections)
    ]
    return AnchoredSteps(stated=corrections.beliefs, corrections=corrections, alternatives=tuple(alone))


PACED = 3
"""Rounds in which a pace is sought; where physics leaves no faster step there is none."""


def _pace(step: MeasuredStep, left: float, beliefs: Beliefs) -> float:
    """The shift of everything at which a step takes as long as measured: not all of it takes longer by a pace."""
    at = shifts(beliefs, causes_of(step.scenario, beliefs, site_of(step.scenario)))
    for _ in range(PACED):
        seconds = step.seconds_with(shifted(step.scenario, at | {PACE: at[PACE] + left}))
        left += float(np.log(step.seconds / seconds))
    return left


def with_micro_batch(step: MeasuredStep) -> MeasuredStep:
    """Return the step with the micro-batch that is the fastest, where its scenario leaves that open."""
    scenario = step.scenario
    return step if scenario.plan.micro_batch is not None else replace(step, scenario=predict(scenario).scenario)


def _predictor(timed: Sequence[MeasuredStep]) -> Callable[[Beliefs], tuple[Array, Sequence[Gradient]]]:
    """Return what predicts the anchors' logarithms and their gradients at the means of beliefs."""

    def logarithms(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        times = [slopes_at_site(step.seconds_with, step.scenario, beliefs) for step in timed]
        return np.array([logarithm for logarithm, _ in times]), [slopes for _, slopes in times]

    return logarithms


def slopes_at_site(
    seconds: Callable[[TrainingConstants], Number], scenario: Scenario, beliefs: Beliefs
) -> tuple[float, Gradient]:
    """Return the logarithm of a time at its own site, and how it moves with each effect.

    Of constants that the device's owner stated only the site's pace moves.
    """
    logarithm, slopes = gradient(seconds, scenario, beliefs, site_of(scenario))
    if stated_set(scenario) is None:
        return logarithm, slopes
    return logarithm, {name: slope for name, slope in slopes.items() if name.startswith(f"{PACE}/")}


def least_seconds(timed: MeasuredStep) -> float:
    """Return the seconds below which a measurement contradicts physics; 0 where nothing is known of that.

    Products and attention take their FLOPs at the peak of the highest clock; element-wise kernels, which might all be
    part of others, collectives and the host take no time.
    """
    scenario = timed.scenario
    if not device_model(scenario.cluster.device).asynchronous:
        return 0.0
    uncapped = replace(scenario, cluster=replace(scenario.cluster, power_cap_w=None))
    base = base_constants(scenario)
    names = [name for name in priors() if name != PACE]
    ideal: dict[str, Any] = {
        name: 1 / IDEAL if priors()[name].fraction else getattr(base, name) * IDEAL for name in names
    }
    return float(seconds_of(uncapped, timed.quantity, replace(base, **ideal)))


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
    beliefs, before = (usual, usual) if known is None else (known.beliefs, known.corrections.before)
    slopes = slopes_at_site(lambda tried: step_of(scenario, tried).step_time_s, scenario, beliefs)[1]
    of_site = constants_of_site(slopes) if before is beliefs else site_slopes(scenario, QUANTITY, before)
    return _Side(slopes, unexplained(scenario, QUANTITY, of_site))


def _of_pair(a: _Side, b: _Side, known: AnchoredSteps | None) -> float:
    joint = _covariance((a, b), known)
    scale = sqrt(joint[0, 0] * joint[1, 1])
    return float(np.clip(joint[0, 1] / scale, -1.0, 1.0)) if scale else 0.0


def _covariance(sides: tuple[_Side, _Side], known: AnchoredSteps | None) -> Array:
    """The covariance of both logarithms: of their effects, and of what those do not explain."""
    spreads, wide = plan_spreads(), replace((known or Knowledge()).beliefs, prior=spread_unmeasured)
    gradients, parts = [side.slopes for side in sides], [side.unexplained for side in sides]
    own = covariance_of(parts, spreads)
    if known is None:
        return wide.joint_variance(gradients) + own
    corrections = known.corrections
    shared = np.array(
        [[float(part.shared_with(anchor, spreads)) for anchor in known.corrections.unexplained] for part in parts]
    )
    weights = np.array([corrections.weights(list(row)) for row in shared])
    slopes = [_less(gradient, row, corrections.gradients) for gradient, row in zip(gradients, weights, strict=True)]
    left: Array = wide.joint_variance(slopes) + own - weights @ shared.T
    return left


def _less(gradient: Gradient, weights: Array, anchors: Sequence[Gradient]) -> Gradient:
    """A plan's slopes without what it takes over of the anchors."""
    slopes = dict(gradient)
    for weight, anchor in zip(weights, anchors, strict=True):
        for name, slope in anchor.items():
            slopes[name] = slopes.get(name, 0.0) - float(weight) * slope
    return slopes
