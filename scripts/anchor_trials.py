"""How much a measured step of the own cluster helps: whole sources left out, anchored with some of their own steps.

Every source is predicted without its own measurements; then one step of it, or three, or one of the same model and
cluster, is given as an anchor, and the others are predicted with it. All is linear around the prediction without the
source. Of long sources rows are taken at equal strides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sightline.calibration.training_constants import Estimate
from sightline.prediction.anchoring.anchored_steps import case_parts, site_of, site_slopes, unexplained
from sightline.prediction.anchoring.posterior import Spreads, Unexplained, covariance_of, plan_spreads, surprise_scale
from sightline.prediction.anchoring.timed import MeasuredStep
from sightline.prediction.beliefs import Array, Beliefs
from sightline.prediction.training.constants import gradient
from sightline.prediction.training.knowledge import Knowledge
from sightline.quantities import Number
from sightline.validation.cases import Split
from sightline.validation.left_out import SourceStep

MOST_ROWS, SETS = 60, 100
"""Rows of a source that are looked at, and sets of several anchors of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchoredError:
    """Mean errors and coverage of a source's rows without and with anchors of it."""

    source: str
    anchors: int
    rows: int
    experts: bool
    unanchored: float
    """Mean absolute relative error without an anchor."""
    anchored: float
    covered: float
    """Share of the rows within the anchored 80 % interval."""
    half_width: float
    """Median half-width of the anchored 80 % intervals, as a fraction."""
    best_factor: float
    """Mean error that would be left if one factor, the best with all measurements known, corrected every step: of the
    source, or of the same model and cluster. Steps scatter around it by what no anchor's level tells."""


class Rows(NamedTuple):
    """Steps of one source, predicted without it."""

    steps: Sequence[MeasuredStep]
    errors: Array
    """Logarithms of measured over predicted."""
    believed: Array
    """Covariance of these errors by effects."""
    unexplained: Sequence[Unexplained]
    slopes: Sequence[Mapping[str, Number]]
    """How predictions move with each constant of the site."""
    spread: Array
    """Logarithmic half-widths of the intervals without an anchor."""

    def covariance(self, spreads: Spreads | None = None) -> Array:
        """Return what these errors have in common, with the catalog's spreads between plans unless others are given."""
        known, parts = plan_spreads(), self.unexplained
        if spreads is not None:
            own = [case_parts(slopes, spreads) for slopes in self.slopes]
            parts = [replace(one, noise=of[0], near=of[1]) for one, of in zip(parts, own, strict=True)]
        return np.asarray(self.believed + covariance_of(parts, spreads or known))


def anchored_errors(
    steps: Sequence[SourceStep], estimate: Estimate, *, anchors: int = 1, alike: bool = False
) -> Iterator[AnchoredError]:
    """Yield each source's errors, predicted without it and anchored with ``anchors`` of its steps.

    Those of mixtures of experts are apart from those of dense models; anchors may be of either.

    ``alike``: predicted are steps of the anchor's model and cluster alone.
    """
    for source, rows in rows_of_sources(steps, estimate):
        covariance, chosen_sets = rows.covariance(), choices(len(rows.steps), anchors)
        for experts in (False, True):
            places = [place for place, step in enumerate(rows.steps) if _has_experts(step) == experts]
            targets = [target for chosen in chosen_sets for target in _targets(rows, covariance, chosen, places, alike)]
            if targets:
                before, after, inside, _ = np.mean(np.abs(targets), axis=0)
                yield AnchoredError(
                    source=source,
                    anchors=anchors,
                    rows=len(places),
                    experts=experts,
                    unanchored=float(before),
                    anchored=float(after),
                    covered=float(inside),
                    half_width=float(np.expm1(np.median([spread for *_, spread in targets]))),
                    best_factor=_best_factor(rows, places, alike),
                )


def _has_experts(step: MeasuredStep) -> bool:
    return step.scenario.model.experts is not None


def rows_of_sources(
    steps: Sequence[SourceStep], estimate: Estimate, split: Split | None = None
) -> Iterator[tuple[str, Rows]]:
    """Yield each source with its steps, or those of one part, predicted without it."""
    for source in sorted({step.source for step in steps}):
        own = [step.step for step in steps if step.source == source and split in (None, step.split)]
        sites = {step.step.site for step in steps if step.source == source}
        if own:
            yield source, _rows(_strided(own), estimate.without(lambda step, sites=sites: step.site in sites))  # type: ignore[misc]


def _strided(rows: Sequence[MeasuredStep]) -> list[MeasuredStep]:
    places = np.unique(np.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).astype(int))
    return [rows[place] for place in places]


def _rows(steps: Sequence[MeasuredStep], known: Beliefs) -> Rows:
    gradients = [gradient(step.seconds_with, step.scenario, known, site_of(step.scenario)) for step in steps]
    slopes = [site_slopes(step.scenario, step.quantity, known) for step in steps]
    return Rows(
        steps=steps,
        errors=np.log([step.seconds for step in steps]) - np.array([predicted for predicted, _ in gradients]),
        believed=known.joint_variance([slopes for _, slopes in gradients]),
        unexplained=[unexplained(step.scenario, step.quantity, own) for step, own in zip(steps, slopes, strict=True)],
        slopes=slopes,
        spread=np.array([Knowledge(stated=known).spread(step.scenario, step.seconds_with) for step in steps]),
    )


def choices(rows: int, anchors: int) -> list[tuple[int, ...]]:
    """Return which rows are anchors: each alone, or some of all sets of several, always the same."""
    rows = min(rows, MOST_ROWS)
    random = np.random.default_rng(0)
    if rows <= anchors:
        return []
    if anchors == 1 or rows <= 2 * anchors + 2:
        every = list(combinations(range(rows), anchors))
        return [every[place] for place in random.permutation(len(every))[: max(SETS, rows)]]
    return [tuple(sorted(random.choice(rows, anchors, replace=False))) for _ in range(SETS)]


def _targets(
    rows: Rows, covariance: Array, chosen: Sequence[int], places: Sequence[int], alike: bool
) -> Iterator[tuple[float, float, float, float]]:
    """The asked rows that are no anchors: errors without and with the chosen, whether the interval holds, its width."""
    own = list(chosen)
    rest = [
        place
        for place in places
        if place not in own and not (alike and _kind(rows.steps[place]) != _kind(rows.steps[own[0]]))
    ]
    anchors, shared = covariance[np.ix_(own, own)], covariance[np.ix_(own, rest)]
    weights = np.linalg.solve(anchors, shared)
    left = rows.errors[rest] - weights.T @ rows.errors[own]
    share_left = 1.0 - (weights * shared).sum(axis=0) / np.diag(covariance)[rest]
    spread = rows.spread[rest] * np.sqrt(share_left * surprise_scale(rows.errors[own], anchors))
    before, after = np.expm1(-rows.errors[rest]), np.expm1(-left)
    yield from zip(before, after, 1.0 * (np.abs(left) <= spread), spread, strict=True)


def error_left(rows: Rows, spreads: Spreads, anchors: int) -> float:
    """Return the mean absolute logarithm that anchors leave of the other steps' errors; not a number without others."""
    covariance = rows.covariance(spreads)
    left: list[float] = []
    for chosen in choices(len(rows.steps), anchors):
        own, rest = list(chosen), [place for place in range(len(rows.steps)) if place not in chosen]
        weights = np.linalg.solve(covariance[np.ix_(own, own)], covariance[np.ix_(own, rest)])
        left += list(np.abs(rows.errors[rest] - weights.T @ rows.errors[own]))
    return float(np.mean(left)) if left else float("nan")


def _best_factor(rows: Rows, places: Sequence[int], alike: bool) -> float:
    """The mean error that the best factor on the asked steps leaves, or on those of each model and cluster."""
    kinds = [_kind(rows.steps[place]) if alike else ("", "", 0) for place in places]
    groups = [rows.errors[places][[own == kind for own in kinds]] for kind in dict.fromkeys(kinds)]
    left = [errors - np.median(errors) for errors in groups if len(errors) > 1]
    return float(np.mean(np.abs(np.expm1(-np.concatenate(left)))))


def _kind(step: MeasuredStep) -> tuple[str, str, int]:
    """The model and the cluster of a step."""
    cluster = step.scenario.cluster
    return step.scenario.model.name, cluster.device.name, cluster.devices
