"""What comes on top of an engine's spread for cases unlike those it was fitted to, by leaving such cases out.

Every fit is taken without each device, kind of model, format, release, source and the longest contexts of its own, and
release lines with their engine's constants. The errors of all engines together, in which everything left out counts
alike, say how much wider they are than those of cases left out by deployment.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sightline.calibration.error_figures import width_holding, without_wild
from sightline.calibration.fits import Array
from sightline.calibration.inference import InferenceFit, MeasuredGeneration, groups_of
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
LONG = 0.5
"""Contexts beyond this share of a fit's longest are left out together."""


class LeftOut(NamedTuple):
    """Cases of a fit as predicted without what they share."""

    without: Array
    """Logarithmic errors."""
    known: Array
    """The same where only the case's deployment was left out."""
    groups: list[str]
    """Which of them belong together."""
    spread: Array
    """Half-width of each case as it is without further terms."""
    doublings: Array
    """Of the context beyond the longest that is left; 0 for other terms."""


def terms_of(fits: Sequence[InferenceFit], engines: Sequence[InferenceFit | None]) -> dict[str, Any]:
    """Return the catalog's entry: half-widths by term, and the errors that they come from.

    ``engines`` are the fits of the engines that release lines belong to, None for an engine's own.
    """
    found = {name: [one for fit in fits if (one := _without(fit, label))] for name, label in LABELS.items()}
    found["release"] += [_as_its_engine(fit) for fit, own in zip(fits, engines, strict=True) if own is not None]
    spreads = {name: _further(cases) for name, cases in found.items()}
    found["context"] = [one for fit in fits if (one := _far(fit))]
    spreads["context"] = _per_doubling(found["context"])
    residuals = {f"{name} left out": _statistics(cases, name, spreads) for name, cases in found.items()}
    return {
        "written_by": "python scripts/fit_inference.py --data DIR --out DIR --left-out",
        "date": "2026-11",
        "evidence": "fitted",
        "source": "fit splits of the published suites of generation, all engines together",
        "spreads": spreads,
        "residuals": residuals,
    }


def _without(fit: InferenceFit, label: Callable[[MeasuredGeneration], str]) -> LeftOut | None:
    """The fit without each of what a label names, where enough is left; None where it never is."""
    labels = [label(case) for case in fit.cases]
    kept = np.array([len(labels) - labels.count(name) >= FEWEST_LEFT for name in labels])
    if not kept.any():
        return None
    known, without = fit.errors_without(groups_of(fit)), fit.errors_without(labels)
    groups = [name for name, is_kept in zip(labels, kept, strict=True) if is_kept]
    return LeftOut(without[kept], known[kept], groups, _half_widths(fit)[kept], np.zeros(len(groups)))


def _as_its_engine(fit: InferenceFit) -> LeftOut:
    """A release line's cases with the constants of its engine."""
    errors = np.log(fit.predict({}) / fit.measured)
    line = ["line"] * len(errors)
    return LeftOut(errors, fit.errors_without(groups_of(fit)), line, _half_widths(fit), np.zeros(len(errors)))


def _far(fit: InferenceFit) -> LeftOut | None:
    """The longest contexts without each other; None where none is much longer than the rest."""
    contexts = np.array([context_of(case.scenario.workload) for case in fit.cases])
    far = contexts > LONG * contexts.max()
    if far.all() or contexts[~far].max() > LONG * contexts.max():
        return None
    names = ["far"] * int(far.sum())
    doublings = np.log2(contexts[far] / contexts[~far].max())
    known = fit.errors_without(groups_of(fit))[far]
    return LeftOut(fit.errors_without(list(far))[far], known, names, _half_widths(fit)[far], doublings)


def _half_widths(fit: InferenceFit) -> Array:
    """The fit's own spread of each case."""
    c = fit.constants
    spreads = []
    for case in fit.cases:
        pools = case.scenario.plan.disaggregate is not None
        step = c.get("pools_spread", c["tpot_spread"]) if pools else c["tpot_spread"]
        spreads.append(c["ttft_spread"] if case.quantity == "ttft_s" else step)
    return np.array(spreads)


def _columns(cases: Sequence[LeftOut]) -> tuple[Array, Array, Array]:
    """All errors without, all known ones, and weights in which everything left out counts alike."""
    groups = [f"{number} {group}" for number, one in enumerate(cases) for group in one.groups]
    sizes = {group: groups.count(group) for group in dict.fromkeys(groups)}
    weights = np.array([1.0 / sizes[group] for group in groups])
    return np.concatenate([c.without for c in cases]), np.concatenate([c.known for c in cases]), weights


def _further(cases: Sequence[LeftOut]) -> float:
    """The half-width by which errors are wider than known ones, as if independent."""
    if not cases:
        return 0.0
    without, known, weights = _columns(cases)
    return significant(np.sqrt(max(width_holding(without, weights) ** 2 - width_holding(known, weights) ** 2, 0.0)))


def _per_doubling(cases: Sequence[LeftOut]) -> float:
    """The half-width per doubling of the context beyond the longest fitted."""
    if not cases:
        return 0.0
    without, known, _ = _columns(cases)
    doublings = np.concatenate([one.doublings for one in cases])
    wider = (without_wild(without) ** 2 - without_wild(known) ** 2).sum() / (doublings**2).sum()
    return significant(FOUR_IN_FIVE * np.sqrt(max(wider, 0.0)))


def _statistics(cases: Sequence[LeftOut], term: str, spreads: Mapping[str, float]) -> dict[str, float]:
    """Cases, their errors (one above 100 % as that), and how many an interval with all its terms holds, and its width.

    What was left out counts alike.
    """
    if not cases:
        return {"rows": 0}
    errors, _, weights = _columns(cases)
    times = np.concatenate([one.doublings for one in cases]) if term == "context" else 1.0
    further = spreads["source"] ** 2 + (term != "source") * (spreads[term] * times) ** 2
    half = np.sqrt(np.concatenate([one.spread for one in cases]) ** 2 + further)
    size = np.minimum(np.abs(np.expm1(errors)), 1.0)
    figures = {
        "mean": np.average(size, weights=weights),
        "coverage": np.average(np.abs(errors) <= half, weights=weights),
        "half_width": np.average(half, weights=weights),
    }
    return {"rows": len(errors), **{name: round(float(value), 4) for name, value in figures.items()}}
