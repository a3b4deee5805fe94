"""Whole sources of training steps left out: how far off a prediction is for a cluster that nobody measured.

A source is one series of measurements: what one team measured on its cluster, with its software. All constants are
estimated without it; then its steps are asked for as any user would ask, by the framework's name and its date.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sightline.calibration.training import Estimate, estimate
from sightline.cost.architectures import of_family
from sightline.loading import scenario_from_mapping
from sightline.prediction.anchoring.timed import STEP_RATES, MeasuredStep, step_seconds
from sightline.prediction.training.effects import base_constants, beliefs_at_sites, gradient, site_of
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.predict import profile_of, with_fastest_micro_batch
from sightline.progress import SILENT, Progress
from sightline.validation.suite import Case, Split, Suite

TIMES = ("step_time_s", "forward_pass_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStep:
    """A published step: its suite and part, and the measurement."""

    suite: str
    source: str
    split: Split
    step: MeasuredStep
    stated: Mapping[str, Any] = field(default_factory=dict)
    """The scenario as its suite states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A step as predicted without its source."""

    of: SourceStep
    error: float
    """Logarithm of predicted over measured."""
    spread: float
    """Logarithmic half-width of its 80 % interval."""


def source_steps(suites: Sequence[Suite]) -> list[SourceStep]:
    """Return every timed step of the suites of training."""
    return [
        SourceStep(
            suite=suite.name,
            source=suite.site,
            split=case.split,
            step=_step(case, suite),
            stated=case.scenario,
        )
        for suite in suites
        if suite.kind == "training" and suite.quantity in (*TIMES, *STEP_RATES)
        for case in suite.cases
    ]


def _step(case: Case, suite: Suite) -> MeasuredStep:
    scenario = scenario_from_mapping(case.scenario)
    if scenario.plan.micro_batch is None:
        scenario = with_fastest_micro_batch(scenario, lambda tried: profile_of(tried, base_constants(tried)))
    timed = suite.quantity in TIMES
    return MeasuredStep(
        scenario=scenario,
        seconds=case.measured if timed else float(step_seconds(scenario, suite.quantity, case.measured)),
        site=site_of(suite.site, scenario.cluster.device),
        quantity=suite.quantity if timed else "step_time_s",
    )


def fitted(steps: Sequence[SourceStep]) -> Estimate:
    """Return what the fit parts of all sources teach."""
    return estimate([step.step for step in steps if step.split == "fit"])


def shipped(steps: Sequence[SourceStep], progress: Progress = SILENT) -> Estimate:
    """Return the catalog's estimate at the fit parts of these sources, without estimating again.

    Raises:
        Cancelled: Somebody asked to stop.
    """
    own = [step.step for step in steps if step.split == "fit"]
    beliefs = beliefs_at_sites()
    found = []
    progress.begin(len(own), "estimating")
    for step in own:
        progress.check()
        found.append(gradient(step.seconds_with, step.scenario, beliefs, step.site))
        progress.advance()
    predicted = np.array([logarithm for logarithm, _ in found])
    return Estimate(steps=own, beliefs=beliefs, predicted=predicted, gradients=[slopes for _, slopes in found])


def leave_sources_out(
    steps: Sequence[SourceStep], found: Estimate, wanted: Collection[str] | None = None
) -> Iterator[list[LeftOut]]:
    """Yield each source's steps, both parts, predicted with constants estimated from the fit parts of the others.

    ``wanted`` are the sources that are left out, one after the other; None for all.
    """
    for source in sorted({step.source for step in steps if wanted is None or step.source in wanted}):
        own = [step for step in steps if step.source == source]
        sites = {step.step.site for step in own}
        known = Knowledge(stated=found.without(lambda step, sites=sites: step.site in sites))  # type: ignore[misc]
        yield [_left_out(step, known) for step in own]


def leave_architectures_out(steps: Sequence[SourceStep], found: Estimate) -> Iterator[list[LeftOut]]:
    """Yield the steps on devices of each architecture, predicted as if nobody had measured any of them.

    Neither training constants nor those of single operators know the architecture.
    """
    for architecture in sorted({step.step.scenario.cluster.device.architecture for step in steps}):
        own = [step for step in steps if step.step.scenario.cluster.device.architecture == architecture]
        names = {step.step.scenario.cluster.device.name for step in own}
        beliefs = found.without(lambda step, names=names: step.scenario.cluster.device.name in names)  # type: ignore[misc]
        yield [_left_out(replace(of, step=_unmeasured(of.step)), Knowledge(stated=beliefs)) for of in own]


def _unmeasured(step: MeasuredStep) -> MeasuredStep:
    """The step on a device without measurements of its own or of its architecture."""
    cluster = step.scenario.cluster
    relatives = tuple(name for name in cluster.device.relatives if of_family(name) != cluster.device.architecture)
    device = replace(cluster.device, calibration=f"unmeasured {cluster.device.name}", relatives=relatives)
    return replace(step, scenario=replace(step.scenario, cluster=replace(cluster, device=device)))


def _left_out(of: SourceStep, known: Knowledge) -> LeftOut:
    unmeasured = replace(of.step, site="")
    predicted = float(np.log(unmeasured.seconds_with(known.constants(unmeasured.scenario))))
    spread = known.spread(unmeasured.scenario, unmeasured.seconds_with)
    return LeftOut(of=of, error=predicted - float(np.log(of.step.seconds)), spread=spread)
