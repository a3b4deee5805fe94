"""Training steps of one's own cluster: what they teach of the framework's constants there, and predictions with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from sightline.catalog import entry
from sightline.cost.device_model import device_model
from sightline.prediction.anchoring.distance import likeness
from sightline.prediction.anchoring.posterior import Posterior, posterior
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient
from sightline.prediction.training.constants import TrainingConstants, stated_set
from sightline.prediction.training.effects import (
    PACE,
    STEP,
    base_constants,
    causes_of,
    gradient,
    priors,
    shifted,
    shifts,
)
from sightline.prediction.training.knowledge import Knowledge, beyond, case_variance
from sightline.prediction.training.predict import assemble, predict
from sightline.quantities import FOUR_IN_FIVE, Number
from sightline.scenario import Scenario

IDEAL = 1e-9
"""Slowdowns and the host's times where nothing but the roofline binds."""


def site_of(scenario: Scenario) -> str:
    """Return the site of an anchor or of a plan: one's own cluster of one device, with one framework."""
    return f"own {scenario.plan.framework.lineage} on {scenario.cluster.device.name}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnchoredSteps(Knowledge):
    """What is known of training once steps of one's own cluster were measured."""

    posterior: Posterior
    unexplained: Sequence["Unexplained"]
    """What effects do not explain of each anchor."""
    alternatives: Sequence["AnchoredSteps"] = ()
    """Where anchors contradict each other: what each teaches alone."""

    def constants(self, scenario: Scenario) -> TrainingConstants:
        """Return the constants that a scenario is predicted with: its own pace takes over what near anchors left."""
        shift = shifts(self.posterior.beliefs, causes_of(scenario, self.posterior.beliefs, site_of(scenario)))
        near = self.posterior.shift(self._shared(scenario))
        return shifted(scenario, shift | {PACE: shift[PACE] + near})

    def _shared(self, scenario: Scenario) -> list[Number]:
        """The covariance of what effects do not explain of a plan and of each anchor."""
        plan = Unexplained.of(scenario, "step_time_s", self.posterior.before)
        return [plan.shared_with(one) for one in self.unexplained]

    def spread(self, scenario: Scenario, seconds: Callable[[TrainingConstants], Number]) -> float:
        """Return the logarithmic half-width of a time's 80 % interval, the widest where anchors contradict."""
        _, slopes = _gradient(seconds, scenario, self.posterior.beliefs)
        plan = Unexplained.of(scenario, "step_time_s", self.posterior.before)
        shared = [float(plan.shared_with(one)) for one in self.unexplained]
        stated = stated_set(scenario)
        if stated is None:
            own = FOUR_IN_FIVE * sqrt(self.posterior.variance(slopes, shared, plan.variance))
        else:
            _, before = _gradient(seconds, scenario, self.posterior.before)
            own = stated[0].spread * sqrt(self.posterior.share_left(slopes, before, shared, plan.variance))
        return max((own, *(other.spread(scenario, seconds) for other in self.alternatives)))

    def _is_own(self, scenario: Scenario) -> bool:
        """Whether one's own runs are of the same device and framework."""
        return any(site_of(one.scenario) == site_of(scenario) for one in self.posterior.timed)

    def evidence(self, scenario: Scenario) -> str:
        """Return what the constants rest on: one's own run where it is of the same device and framework."""
        return "calibrated" if self._is_own(scenario) else Knowledge.evidence(self, scenario)

    def missing(self, scenario: Scenario) -> dict[str, str]:
        """Return what would have to be measured for calibrated constants; nothing after one's own run."""
        return {} if self._is_own(scenario) else Knowledge.missing(self, scenario)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unexplained:
    """What effects do not explain of a time: its parts as standard deviations of its logarithm."""

    timed: Timed[Scenario]
    host: Number
    """The host's time for this plan's code: as far as it sets the pace."""
    beyond: Mapping[str, float]
    """Outside of what the framework was measured on; steps err alike as far as they lie outside by the same."""
    common: float
    """Of a device whose owner stated the constants: half of the square of their spread."""

    @classmethod
    def of(cls, scenario: Scenario, quantity: str, known: Beliefs) -> "Unexplained":
        """Return the parts for a result of a scenario, whose plans may be arrays."""
        stated = stated_set(scenario)
        return cls(
            timed=Timed(scenario=scenario, quantity=quantity, seconds=0.0),
            host=_spreads()["host"] * host_share(scenario, quantity, known),
            beyond=beyond(scenario),
            common=0.0 if stated is None else stated[0].spread / FOUR_IN_FIVE / sqrt(2.0),
        )

    @property
    def variance(self) -> float:
        """All of it; of one plan."""
        parts = (float(self.host), self.common, *self.beyond.values())
        return case_variance() + sum(part**2 for part in parts)

    def shared_with(self, anchor: "Unexplained") -> Number:
        """Return the covariance with an anchor's."""
        mine, other = self.timed.scenario, anchor.timed.scenario
        near = _spreads()["shared"] * case_variance() + self.host * anchor.host
        same = mine.cluster.device.name == other.cluster.device.name
        outside = sum(spread * anchor.beyond.get(kind, 0.0) for kind, spread in self.beyond.items())
        common = self.common * anchor.common if same else 0.0
        return near * likeness(anchor.timed, mine, self.timed.quantity) + common + outside


def _spreads() -> Mapping[str, float]:
    spreads: Mapping[str, float] = entry("training", "constants")["anchors"]
    return spreads


def host_share(scenario: Scenario, quantity: str, known: Beliefs) -> Number:
    """Return the relative change of a time by that of all the host's times."""
    at = shifts(known, causes_of(scenario, known))
    slower = at | {name: at[name] + STEP for name, prior in priors().items() if prior.host}
    before, after = (_seconds(scenario, quantity)(shifted(scenario, shift)) for shift in (at, slower))
    share: Number = np.log(after / before) / STEP
    return share


def noise_of(anchors: Sequence[Unexplained]) -> Array:
    """Return the covariance of what effects do not explain of the anchors."""
    rows = [[float(one.shared_with(other)) for other in anchors] for one in anchors]
    return np.array(rows) + (1.0 - _spreads()["shared"]) * case_variance() * np.eye(len(anchors))


def learn_steps(timed: Sequence[Timed[Scenario]], *, known: Beliefs | None = None) -> AnchoredSteps:
    """Return what is known after the anchors; ``known`` before them, else what the catalog's measurements taught."""
    before = Knowledge(stated=known).beliefs
    unexplained = [Unexplained.of(one.scenario, one.quantity, before) for one in timed]
    found = posterior(before, _predictor(timed), timed, noise_of(unexplained))
    alone = [learn_steps([one], known=known) for one in timed] if found.contradictions else []
    return AnchoredSteps(stated=found.beliefs, posterior=found, unexplained=unexplained, alternatives=tuple(alone))


def with_micro_batch(one: Timed[Scenario]) -> Timed[Scenario]:
    """Return the step with the micro-batch that is the fastest, where its scenario leaves that open."""
    scenario = one.scenario
    return one if scenario.plan.micro_batch is not None else replace(one, scenario=predict(scenario).scenario)


def _predictor(timed: Sequence[Timed[Scenario]]) -> Callable[[Beliefs], tuple[Array, Sequence[Gradient]]]:
    """Return what predicts the anchors' logarithms and their gradients at the means of beliefs."""

    def logarithms(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        found = [_slopes(one, beliefs) for one in timed]
        return np.array([logarithm for logarithm, _ in found]), [slopes for _, slopes in found]

    return logarithms


def _slopes(one: Timed[Scenario], beliefs: Beliefs) -> tuple[float, Gradient]:
    scenario = one.scenario
    return _gradient(_seconds(scenario, one.quantity), scenario, beliefs)


def _gradient(
    seconds: Callable[[TrainingConstants], Number], scenario: Scenario, beliefs: Beliefs
) -> tuple[float, Gradient]:
    """The logarithm of a time and its slopes; of constants that the device's owner stated only a site's pace moves."""
    logarithm, slopes = gradient(seconds, scenario, beliefs, site_of(scenario))
    if stated_set(scenario) is None:
        return logarithm, slopes
    return logarithm, {name: slope for name, slope in slopes.items() if name.startswith(f"{PACE}/")}


def _seconds(scenario: Scenario, quantity: str) -> Callable[[TrainingConstants], Number]:
    """Return what predicts a result's seconds with some constants."""

    def seconds(constants: TrainingConstants) -> Number:
        found: Number = getattr(assemble(scenario, constants)[1], quantity)
        return found

    return seconds


def least_seconds(timed: Timed[Scenario]) -> float:
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
    ideal = {name: 1 / IDEAL if priors()[name].fraction else getattr(base, name) * IDEAL for name in names}
    return float(_seconds(uncapped, timed.quantity)(replace(base, **ideal)))
