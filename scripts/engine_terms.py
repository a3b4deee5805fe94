"""How far engines' constants are off where nothing like a case was fitted: terms from what fits leave out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from engine_fit import (
    FEWEST_LEFT,
    Fits,
    InferenceFit,
    MeasuredGeneration,
    predicted_values,
    releases_of,
    separate_lines,
)

from sightline.calibration.error_figures import width_holding
from sightline.calibration.fits import Array
from sightline.catalog.index import minor_release, release_line
from sightline.loading.serving import serving_from_mapping
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.uncertainty import context_of, fitted_spreads, format_of, kind_of, years_apart
from sightline.quantities import FOUR_IN_FIVE, significant
from sightline.simulation.server import server_of
from sightline.validation.serving import MeasuredRun, measured_figure, served_figure

LABELS: Mapping[str, Callable[[MeasuredGeneration], str]] = {
    "source": lambda case: case.source,
    "device": lambda case: case.scenario.cluster.device.name,
    "kind": lambda case: kind_of(case.scenario.model),
    "format": lambda case: format_of(case.scenario.plan),
    "release": lambda case: minor_release(case.scenario.plan.engine.version),
}
"""What is left out as a whole, by the term that it shows."""
FEWEST_OF_OTHERS = 5
"""The same where a source is left out: an unmeasured cluster of its engine has no more."""
LONG = 0.5
"""Contexts beyond this share of a fit's longest are left out together."""


class LeftOut(NamedTuple):
    """Cases of a fit as predicted without what they share."""

    errors: Array
    """Logarithms of predicted over measured."""
    groups: Sequence[str]
    """Which of them belong together."""
    half_widths: Array
    """Of each case's 80 % interval as it is without further terms."""
    times: Array
    """How often a term counts: the doublings of the context beyond the longest that is left; 1 for other terms."""


def terms_of(engines: Sequence[Fits], loads: Mapping[str, LeftOut] | None = None) -> dict[str, Any]:
    """Return the terms by name, as standard deviations, and the errors that they come from.

    ``loads`` are first tokens of loads by `load_kind`.
    """
    pairs = [pair for of_engine in engines for pair in of_engine.values()]
    fits, lines = [fit for _, fit in pairs], [fit for of, fit in pairs if of.line and not of.apart]
    found = {name: [one for fit in fits if (one := without(fit, name))] for name in LABELS}
    found["release"] += [_as_its_engine(fit) for fit in lines]
    found["year"] = [one for of_engine in engines for one in _of_other_releases(of_engine)]
    found["context"] = [one for fit in fits if (one := _far(fit))]
    terms = {name: further(cases) for name, cases in found.items()}
    residuals = {
        f"{name} left out": _statistics(cases, terms[name], 0.0 if name == "source" else terms["source"])
        for name, cases in found.items()
    }
    loads = loads or {}
    of_loads = {kind: further([cases]) for kind, cases in loads.items()}
    residuals |= {f"first tokens of {kind}": _statistics([of], of_loads[kind], 0.0) for kind, of in loads.items()}
    beyond: dict[str, Any] = {name: significant(term) for name, term in terms.items()}
    beyond["loads"] = {name: significant(term) for name, term in of_loads.items()}
    return {"beyond": beyond, "residuals": residuals}


def without(fit: InferenceFit, name: str) -> LeftOut | None:
    """Return the fit without each of what a term leaves out, where enough is left; None where it never is."""
    labels = [LABELS[name](case) for case in fit.cases]
    fewest = FEWEST_OF_OTHERS if name == "source" else FEWEST_LEFT
    kept = np.array([len(labels) - labels.count(label) >= fewest for label in labels])
    if not kept.any():
        return None
    errors = fit.errors_fitted_without(labels) if name == "source" else fit.errors_without(labels)
    groups = [label for label, is_kept in zip(labels, kept, strict=True) if is_kept]
    return LeftOut(errors[kept], groups, _half_widths(fit)[kept], np.ones(len(groups)))


def _as_its_engine(fit: InferenceFit) -> LeftOut:
    """A release line's cases with the constants of its engine."""
    errors = np.log(fit.predict({}) / fit.measured)
    return LeftOut(errors, ["line"] * len(errors), _half_widths(fit), np.ones(len(errors)))


NEAR_YEARS = 0.25
"""Releases nearer than this say nothing of how far engines drift."""


def _of_other_releases(found: Fits) -> Iterator[LeftOut]:
    """Yield each set's cases with the constants of the engine's other sets, of releases before and after."""
    for (of, fit), (_, other) in permutations(found.values(), 2):
        years = years_apart(of.engine, tuple(releases_of(fit.cases)), tuple(releases_of(other.cases)))
        if years >= NEAR_YEARS:
            errors = np.log(
                predicted_values(fit.cases, InferenceConstants.from_mapping(other.constants)) / fit.measured
            )
            yield LeftOut(errors, ["other"] * len(errors), _half_widths(fit), np.full(len(errors), np.sqrt(years)))


def _far(fit: InferenceFit) -> LeftOut | None:
    """The longest contexts without each other; None where none is much longer than the rest."""
    contexts = np.array([context_of(case.scenario.workload) for case in fit.cases])
    far = contexts > LONG * contexts.max()
    if far.all() or contexts[~far].max() > LONG * contexts.max():
        return None
    doublings = np.log2(contexts[far] / contexts[~far].max())
    errors = fit.errors_without(list(far))[far]
    return LeftOut(errors, ["far"] * int(far.sum()), _half_widths(fit)[far], doublings)


def first_tokens(runs: Iterable[MeasuredRun], found: Mapping[str, Fits]) -> LeftOut:
    """Return the mean times to first token of loads, to which no constant was fitted.

    Their half-widths are those of the loads with iterations at the ends of the fits' spreads.
    """
    errors, groups, half_widths = zip(*(_first_token(run, found) for run in runs), strict=True)
    return LeftOut(np.array(errors), groups, np.array(half_widths), np.ones(len(errors)))


def _first_token(run: MeasuredRun, found: Mapping[str, Fits]) -> tuple[float, str, float]:
    """The error of a load's mean time to first token, its group, and the half-width on the error's side."""
    scenario = serving_from_mapping(run.scenario)
    engine, requests = scenario.plan.engine, [run.requests]
    fit = found[engine.name][release_line(engine.version, separate_lines(engine.name))][1]
    constants = InferenceConstants.from_mapping(fit.constants)
    server = server_of(scenario, load=requests).running(lambda _: constants)
    first, step = fitted_spreads(scenario, constants)

    def ttft_s(sign: float) -> float:
        of = server.at_pace(np.exp(sign * first), np.exp(sign * step)).serve(scenario, requests)
        return served_figure("ttft_s.mean", run, of.requests, of.first_token_s, of.last_token_s)

    usual_s = ttft_s(0.0)
    error = float(np.log(usual_s / measured_figure("ttft_s.mean", run)))
    half_width = float(abs(np.log(ttft_s(-1.0 if error > 0.0 else 1.0) / usual_s)))
    return error, f"{scenario.model.name} on {scenario.cluster.device.name}", half_width


def _half_widths(fit: InferenceFit) -> Array:
    """The fit's own spread of each case."""
    own = InferenceConstants.from_mapping(fit.constants)
    return np.array([fitted_spreads(case.scenario, own)[case.quantity != "ttft_s"] for case in fit.cases])


class _Columns(NamedTuple):
    """Cases of all fits together."""

    errors: Array
    half_widths: Array
    times: Array
    weights: Array
    """In which everything left out counts alike."""


def _together(cases: Sequence[LeftOut]) -> _Columns:
    groups = [f"{number} {group}" for number, one in enumerate(cases) for group in one.groups]
    weights = np.array([1.0 / groups.count(group) for group in groups])
    return _Columns(
        errors=np.concatenate([one.errors for one in cases]),
        half_widths=np.concatenate([one.half_widths for one in cases]),
        times=np.concatenate([one.times for one in cases]),
        weights=weights / weights.sum(),
    )


def further(cases: Sequence[LeftOut]) -> float:
    """Return the smallest term with which intervals hold four in five cases."""
    if not cases:
        return 0.0
    errors, half_widths, times, weights = _together(cases)
    beyond = np.maximum(errors**2 - half_widths**2, 0.0)
    return width_holding(np.sqrt(beyond) / (FOUR_IN_FIVE * times), weights)


def _statistics(cases: Sequence[LeftOut], term: float, source: float) -> dict[str, float]:
    """Cases, their errors (one above 100 % as that), and how many an interval as users get it holds, and its width.

    That has a ``source`` term too, which cases of the fitted sources do not need. What was left out counts alike.
    """
    if not cases:
        return {"rows": 0}
    errors, half_widths, times, weights = _together(cases)
    half = np.sqrt(half_widths**2 + FOUR_IN_FIVE**2 * (source**2 + (term * times) ** 2))
    figures = {
        "groups": len({(number, group) for number, one in enumerate(cases) for group in one.groups}),
        "mean": round(float(weights @ np.minimum(np.abs(np.expm1(errors)), 1.0)), 4),
        "coverage": round(float(weights @ (np.abs(errors) <= half)), 4),
        "half_width": round(float(weights @ half), 4),
    }
    return {"rows": len(errors), **figures}
