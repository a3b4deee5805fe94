"""Leave-one-source-out errors of training: how far off a prediction is for a cluster that was never measured.

A source is one series of measurements: what one team measured on its cluster, with its software. All constants are
estimated without it; then its steps are asked for as any user would ask, by the framework's name and its date.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from statistics import fmean, median
from typing import Any

import numpy as np

from sightline.calibration.error_figures import covered, mean_error, typical_half_width
from sightline.calibration.training_constants import Estimate, estimate, of_site, telling_steps
from sightline.cost.families import of_family
from sightline.loading import scenario_from_mapping
from sightline.prediction.anchoring.timed import STEP_RATES, MeasuredStep, step_seconds
from sightline.prediction.training.constants import base_constants, beliefs_at_sites, gradient, site_of
from sightline.prediction.training.knowledge import Knowledge
from sightline.prediction.training.step_profile import profile_of, with_fastest_micro_batch
from sightline.progress import SILENT, Progress
from sightline.validation.cases import Answer, Case, Result, Split, Suite, result_of

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
    """Return the estimate from the fit parts of all sources."""
    return estimate([step.step for step in steps if step.split == "fit"])


def shipped(steps: Sequence[SourceStep], progress: Progress = SILENT) -> Estimate:
    """Return the catalog's estimate at the fit parts of these sources, without estimating again.

    Raises:
        Cancelled: Somebody asked to stop.
    """
    own = [step.step for step in steps if step.split == "fit"]
    beliefs = beliefs_at_sites()
    gradients = [
        gradient(step.seconds_with, step.scenario, beliefs, step.site) for step in progress.each(own, "estimating")
    ]
    predicted = np.array([logarithm for logarithm, _ in gradients])
    return Estimate(steps=own, beliefs=beliefs, predicted=predicted, gradients=[slopes for _, slopes in gradients])


def leave_sources_out(
    steps: Sequence[SourceStep], estimate: Estimate, wanted: Collection[str] | None = None
) -> Iterator[list[LeftOut]]:
    """Yield each source's steps, both parts, predicted with constants estimated from the fit parts of the others.

    ``wanted`` are the sources that are left out, one after the other; None for all.
    """
    for source in sorted({step.source for step in steps if wanted is None or step.source in wanted}):
        own = [step for step in steps if step.source == source]
        sites = {step.step.site for step in own}
        known = Knowledge(stated=estimate.without(lambda step, sites=sites: step.site in sites))  # type: ignore[misc]
        yield [_left_out(step, known) for step in own]


def leave_architectures_out(steps: Sequence[SourceStep], estimate: Estimate) -> Iterator[list[LeftOut]]:
    """Yield the steps on devices of each architecture, predicted as if nobody had measured any of them.

    Neither training constants nor those of single operators know the architecture.
    """
    for architecture in sorted({step.step.scenario.cluster.device.architecture for step in steps}):
        own = [step for step in steps if step.step.scenario.cluster.device.architecture == architecture]
        names = {step.step.scenario.cluster.device.name for step in own}
        beliefs = estimate.without(lambda step, names=names: step.scenario.cluster.device.name in names)  # type: ignore[misc]
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


LOW_COVERAGE = 0.6
"""Share of a source's rows inside their 80 % intervals below which it counts as missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Errors of a group of rows."""

    rows: int
    mape: float
    """Mean absolute relative error."""
    coverage: float
    """Share of the rows inside their 80 % intervals."""
    half_width: float
    """Median half-width of these, as a fraction."""


Sources = Sequence[Sequence[LeftOut]]


def sources_left_out(
    steps: Sequence[SourceStep],
    estimate: Estimate,
    wanted: Collection[str] | None = None,
    progress: Progress = SILENT,
) -> list[list[LeftOut]]:
    """Return the ``wanted`` sources' steps (None: all), each source predicted without itself.

    ``estimate`` is the estimate with all of them. If stopped, the sources that are done.
    """
    left: list[list[LeftOut]] = []
    progress.begin(len({step.source for step in steps if wanted is None or step.source in wanted}), "leaving out")
    for source in leave_sources_out(steps, estimate, wanted):
        left.append(source)
        progress.advance()
        if progress.cancelled:
            break
    return left


def results_left_out(sources: Sources) -> list[Result]:
    """Return the errors of each source, those of mixtures of experts separately."""
    results = []
    for source in sources:
        for experts in (False, True):
            if part := [left for left in source if has_experts(left) == experts]:
                name = part[0].of.source + (" (MoE)" if experts else "")
                results.append(result_of(name, part[0].of.step.quantity, "left-out", list(map(_answer, part))))
    return results


def has_experts(left: LeftOut) -> bool:
    """Say whether the step is of a mixture of experts."""
    return left.of.step.scenario.model.experts is not None


def _answer(left: LeftOut) -> Answer:
    measured = left.of.step.seconds
    predicted = measured * float(np.exp(left.error))
    reach = float(np.exp(left.spread))
    case = Case(scenario=left.of.stated, measured=measured, split="left-out")
    return Answer(case=case, predicted=predicted, interval=(predicted / reach, predicted * reach))


def by_kind(sources: Sources) -> dict[str, Sources]:
    """Return the rows of all sources, and those of dense models, of mixtures of experts, of fine-tuning, by source."""
    kinds: dict[str, Callable[[LeftOut], bool]] = {
        "all": lambda _: True,
        "dense": lambda left: not has_experts(left),
        "experts": has_experts,
        "fine-tuning": lambda left: left.of.step.scenario.workload.task == "finetune",
    }
    chosen = {kind: [[left for left in source if of(left)] for source in sources] for kind, of in kinds.items()}
    return {kind: [source for source in parts if source] for kind, parts in chosen.items()}


def figures_of_rows(rows: Sequence[LeftOut]) -> Figures:
    """Return the figures of steps that belong together."""
    errors, spreads = [left.error for left in rows], [left.spread for left in rows]
    coverage, half_width = covered(errors, spreads), typical_half_width(spreads)
    return Figures(rows=len(rows), mape=mean_error(errors), coverage=coverage, half_width=half_width)


def expected(sources: Sources) -> dict[str, Any]:
    """Return the errors to expect, from sources or architectures left out; empty without any."""
    return together(list(map(figures_of_rows, sources))) if sources else {}


def together(groups: Sequence[Figures]) -> dict[str, Any]:
    """Return the errors to expect from groups of rows with equal weight, under the documented keys.

    Means of their mean errors and coverage, the largest of these errors, how many groups have fewer than 60 % of their
    rows inside the 80 % intervals, and the median of the median half-widths of these, as a fraction.
    """
    return {
        "sources": len(groups),
        "rows": sum(group.rows for group in groups),
        "mape": fmean(group.mape for group in groups),
        "largest": max(group.mape for group in groups),
        "coverage": fmean(group.coverage for group in groups),
        "sources_below_60": sum(group.coverage < LOW_COVERAGE for group in groups),
        "half_width": median(group.half_width for group in groups),
    }


def expected_of(sources: Sources) -> dict[str, Any]:
    """Return what to expect by kind of steps, under the documented keys."""
    return {kind: figures for kind, of in by_kind(sources).items() if (figures := expected(of))}


def unmeasured_devices(steps: Sequence[SourceStep], estimate: Estimate) -> dict[str, Any]:
    """Return what to expect on devices of architectures that nobody measured: each left out with all its devices."""
    return expected(list(leave_architectures_out(steps, estimate)))


def figures_of_suites(sources: Sources) -> dict[str, Any]:
    """Return the figures of each suite's rows."""
    by_suite: dict[str, list[LeftOut]] = defaultdict(list)
    for left in chain(*sources):
        by_suite[left.of.suite].append(left)
    return {suite: asdict(figures_of_rows(rows)) for suite, rows in sorted(by_suite.items())}


def steps_of_constants(estimate: Estimate) -> dict[str, int]:
    """Return the free constants with the number of different steps that depend on each as estimated; no site's own."""
    telling = telling_steps(estimate.steps, estimate.gradients)
    return {name: telling.get(name, 0) for name in sorted(estimate.beliefs.names) if not of_site(name)}
