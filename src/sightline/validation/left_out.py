"""Whole sources of training left out: the errors of each as an unmeasured cluster, and what that lets one expect.

Every source counts the same in a mean over sources, whatever its number of rows.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from sightline.calibration.error_figures import covered, mean_error, typical_half_width
from sightline.calibration.training import Estimate, of_site, telling_steps
from sightline.progress import SILENT, Progress
from sightline.validation.sources import LeftOut, SourceStep, leave_architectures_out, leave_sources_out
from sightline.validation.suite import Answer, Case, Result, result_of

LOW_COVERAGE = 0.6
"""Share of a source's rows inside their 80 % intervals below which it counts as missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How far off predictions are of rows that belong together."""

    rows: int
    mape: float
    """Mean absolute relative error."""
    coverage: float
    """Share of the rows inside their 80 % intervals."""
    half_width: float
    """Median half-width of these, as a fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What sources, or architectures of devices, left out let one expect; each counts the same."""

    sources: int
    rows: int
    mape: float
    """Mean over sources of their mean absolute relative errors."""
    largest: float
    """The largest of these."""
    coverage: float
    """Mean over sources of the share of rows inside their 80 % intervals."""
    sources_below_60: int
    """Sources with fewer than 60 % of their rows inside."""
    half_width: float
    """Median over sources of the median half-width of their 80 % intervals, as a fraction."""


Sources = Sequence[Sequence[LeftOut]]


def sources_left_out(
    steps: Sequence[SourceStep],
    found: Estimate,
    wanted: Collection[str] | None = None,
    progress: Progress = SILENT,
) -> list[list[LeftOut]]:
    """Return the ``wanted`` sources' steps (None: all), each source predicted without itself.

    ``found`` is the estimate with all of them. If stopped, the sources that are done.
    """
    left: list[list[LeftOut]] = []
    progress.begin(len({step.source for step in steps if wanted is None or step.source in wanted}), "leaving out")
    for source in leave_sources_out(steps, found, wanted):
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


def by_suite(sources: Sources) -> dict[str, Sequence[LeftOut]]:
    """Return the rows by the suite that they are of."""
    found: dict[str, list[LeftOut]] = defaultdict(list)
    for left in (left for source in sources for left in source):
        found[left.of.suite].append(left)
    return dict(found)


def figures_of_rows(rows: Sequence[LeftOut]) -> Figures:
    """Return the figures of steps that belong together."""
    errors, spreads = [left.error for left in rows], [left.spread for left in rows]
    coverage, half_width = covered(errors, spreads), typical_half_width(spreads)
    return Figures(rows=len(rows), mape=mean_error(errors), coverage=coverage, half_width=half_width)


def expected(sources: Sources) -> Expected | None:
    """Return what the sources let one expect; None without any."""
    return together(list(map(figures_of_rows, sources))) if sources else None


def together(groups: Sequence[Figures]) -> Expected:
    """Return what groups of rows let one expect, each of which counts the same."""
    return Expected(
        sources=len(groups),
        rows=sum(group.rows for group in groups),
        mape=fmean(group.mape for group in groups),
        largest=max(group.mape for group in groups),
        coverage=fmean(group.coverage for group in groups),
        sources_below_60=sum(group.coverage < LOW_COVERAGE for group in groups),
        half_width=median(group.half_width for group in groups),
    )


def expected_of(sources: Sources) -> dict[str, Any]:
    """Return what to expect by kind of steps, under the documented keys."""
    return {kind: asdict(found) for kind, of in by_kind(sources).items() if (found := expected(of)) is not None}


def unmeasured_devices(steps: Sequence[SourceStep], found: Estimate) -> dict[str, Any]:
    """Return what to expect on devices of architectures that nobody measured: each left out with all its devices."""
    every = expected(list(leave_architectures_out(steps, found)))
    return {} if every is None else asdict(every)


def figures_of_suites(sources: Sources) -> dict[str, Any]:
    """Return the figures of each suite's rows."""
    return {suite: asdict(figures_of_rows(rows)) for suite, rows in sorted(by_suite(sources).items())}


def steps_of_constants(found: Estimate) -> dict[str, int]:
    """Return the free constants with the number of different steps that depend on each as estimated; no site's own."""
    telling = telling_steps(found.steps, found.gradients)
    return {name: telling.get(name, 0) for name in sorted(found.beliefs.names) if not of_site(name)}
