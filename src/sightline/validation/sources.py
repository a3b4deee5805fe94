"""Whole sources of training steps left out: how far off a prediction is for a cluster that nobody measured.

A source is one series of measurements: what one team measured on its cluster, with its software. All constants are
estimated without it; then its steps are asked for as any user would ask, by the framework's name and its date.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sightline.calibration.training import Estimate, MeasuredStep, estimate
from sightline.loading import scenario_from_mapping
from sightline.prediction.training.effects import base_constants, site_of
from sightline.prediction.training.flops import model_flops
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.predict import profile_of, with_fastest_micro_batch
from sightline.scenario import Scenario
from sightline.validation.suite import Case, Split, Suite

TIMES = ("step_time_s", "forward_pass_s")
RATES = ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStep:
    """A published step: its suite and part, and the measurement."""

    suite: str
    source: str
    split: Split
    excluded: str
    step: MeasuredStep


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
            suite=suite.name, source=suite.site, split=case.split, excluded=case.excluded, step=_step(case, suite)
        )
        for suite in suites
        if suite.kind == "training" and suite.quantity in (*TIMES, *RATES)
        for case in suite.cases
    ]


def _step(case: Case, suite: Suite) -> MeasuredStep:
    scenario = scenario_from_mapping(case.scenario)
    if scenario.plan.micro_batch is None:
        scenario = with_fastest_micro_batch(scenario, lambda tried: profile_of(tried, base_constants(tried)))
    quantity = suite.quantity if suite.quantity in TIMES else "step_time_s"
    return MeasuredStep(
        scenario=scenario,
        seconds=_seconds(case, suite.quantity, scenario),
        site=site_of(suite.site, scenario.cluster.device),
        quantity=quantity,
    )


def _seconds(case: Case, quantity: str, scenario: Scenario) -> float:
    """Seconds of the step, from the quantity that was measured."""
    if quantity in TIMES:
        return case.measured
    if quantity == "model_flops_per_s_per_device":
        return float(model_flops(scenario) / (case.measured * scenario.cluster.devices))
    devices = scenario.cluster.devices if quantity.endswith("_per_device") else 1
    return float(scenario.workload.sequence_length * scenario.workload.global_batch / (devices * case.measured))


def fitted(steps: Sequence[SourceStep]) -> Estimate:
    """Return what the fit parts of all sources teach."""
    return estimate([step.step for step in steps if step.split == "fit" and not step.excluded])


def leave_sources_out(steps: Sequence[SourceStep], found: Estimate) -> Iterator[list[LeftOut]]:
    """Yield each source's steps, both parts, predicted with constants estimated from the fit parts of the others."""
    for source in sorted({step.source for step in steps}):
        own = [step for step in steps if step.source == source]
        sites = {step.step.site for step in own}
        known = Knowledge(stated=found.without(lambda step, sites=sites: step.site in sites))  # type: ignore[misc]
        yield [_left_out(step, known) for step in own]


def _left_out(of: SourceStep, known: Knowledge) -> LeftOut:
    stranger = replace(of.step, site="")
    predicted = float(np.log(stranger.seconds_with(known.constants(stranger.scenario))))
    spread = known.spread(stranger.scenario, stranger.seconds_with)
    return LeftOut(of=of, error=predicted - float(np.log(of.step.seconds)), spread=spread)
