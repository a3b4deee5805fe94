"""What comes on top of an engine's spread for cases unlike those it was fitted to, by leaving such cases out.

Every fit is taken without each source - from the start, because most of its cases may leave -, and one linear step
from where it ended without each device, kind of model, format, release and the longest contexts of its own; release
lines also with their engine's constants. In the errors of all engines together everything left out counts alike. A term
is as wide as four in five intervals need it to hold them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sightline.calibration.error_figures import width_holding
from sightline.calibration.fits import Array
from sightline.calibration.inference import InferenceFit, MeasuredGeneration
from sightline.catalog.index import minor_release
from sightline.prediction.generation.uncertainty import context_of, format_of, kind_of
from sightline.quantities import FOUR_IN_FIVE, significant

LABELS: Mapping[str, Callable[[MeasuredGeneration], str]] = {
    "source": lambda case: case.source,
    "device": lambda case: case.scenario.cluster.device.name,
    "kind": lambda case: kind_of(case.scenario.model),
    "format": lambda case: format_of(case.scenario.plan),
    "release": lambda case: minor_release(case.scenario.plan.engine.version),
}
"""What is left out as a whole, by the term that it shows."""
FEWEST_LEFT = 10
"""Cases that a fit keeps where something is left out; fewer hold constants to their priors and say nothing of it."""
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


def terms_of(fits: Sequence[InferenceFit], lines: Sequence[InferenceFit]) -> dict[str, Any]:
    """Return the terms by name, as standard deviations, and the errors that they come from.

    ``lines`` are the fits of release lines that lie around their engine's.
    """
    found = {name: [one for fit in fits if (one := without(fit, name))] for name in LABELS}
    found["release"] += [_as_its_engine(fit) for fit in lines]
    found["context"] = [one for fit in fits if (one := _far(fit))]
    terms = {name: further(cases) for name, cases in found.items()}
    residuals = {
        f"{name} left out": _statistics(cases, terms[name], 0.0 if name == "source" else terms["source"])
        for name, cases in found.items()
    }
    return {"beyond": {name: significant(term) for name, term in terms.items()}, "residuals": residuals}


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


def _far(fit: InferenceFit) -> LeftOut | None:
    """The longest contexts without each other; None where none is much longer than the rest."""
    contexts = np.array([context_of(case.scenario.workload) for case in fit.cases])
    far = contexts > LONG * contexts.max()
    if far.all() or contexts[~far].max() > LONG * contexts.max():
        return None
    doublings = np.log2(contexts[far] / contexts[~far].max())
    errors = fit.errors_without(list(far))[far]
    return LeftOut(errors, ["far"] * int(far.sum()), _half_widths(fit)[far], doublings)


def _half_widths(fit: InferenceFit) -> Array:
    """The fit's own spread of each case."""
    c = fit.constants
    spreads = []
    for case in fit.cases:
        pools = case.scenario.plan.disaggregate is not None
        step = c.get("pools_spread", c["tpot_spread"]) if pools else c["tpot_spread"]
        spreads.append(c["ttft_spread"] if case.quantity == "ttft_s" else step)
    return np.array(spreads)


class _Columns(NamedTuple):
    """Cases of all fits together."""

    errors: Array
    half_widths: Array
    times: Array
    weights: Array
    """In which everything left out counts alike."""


def _columns(cases: Sequence[LeftOut]) -> _Columns:
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
    errors, half_widths, times, weights = _columns(cases)
    beyond = np.maximum(errors**2 - half_widths**2, 0.0)
    return width_holding(np.sqrt(beyond) / (FOUR_IN_FIVE * times), weights)


def _statistics(cases: Sequence[LeftOut], term: float, source: float) -> dict[str, float]:
    """Cases, their errors (one above 100 % as that), and how many an interval as users get it holds, and its width.

    That has a ``source`` term too, which cases of the fitted sources do not need. What was left out counts alike.
    """
    if not cases:
        return {"rows": 0}
    errors, half_widths, times, weights = _columns(cases)
    half = np.sqrt(half_widths**2 + FOUR_IN_FIVE**2 * (source**2 + (term * times) ** 2))
    figures = {
        "groups": len({(number, group) for number, one in enumerate(cases) for group in one.groups}),
        "mean": round(float(weights @ np.minimum(np.abs(np.expm1(errors)), 1.0)), 4),
        "coverage": round(float(weights @ (np.abs(errors) <= half)), 4),
        "half_width": round(float(weights @ half), 4),
    }
    return {"rows": len(errors), **figures}
