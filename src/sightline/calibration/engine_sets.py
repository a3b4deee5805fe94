"""The catalog's sets of engines' constants: which there are, what each is fitted to, and the entries they become."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sightline.calibration.error_figures import width_holding
from sightline.calibration.fits import Array, Prior, priors_of
from sightline.calibration.inference import PRIORS, InferenceFit, MeasuredGeneration, fit_inference, priors_around
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.part import DATE
from sightline.calibration.training import FULL_WEIGHT
from sightline.catalog import entry
from sightline.catalog.index import minor_release
from sightline.prediction.beliefs import Beliefs, Gradient, learned
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.sites import NOTHING, RATES, EngineAtSite, shifts, source_site
from sightline.prediction.generation.uncertainty import context_of, format_of, kind_of
from sightline.quantities import FOUR_IN_FIVE, significant

LEAST = 0.005
"""Shifts of a logarithm below this are none."""


def site_shifts(fits: Sequence[tuple[str, InferenceFit]]) -> dict[str, dict[str, float]]:
    """Return the shifts of constants' logarithms by site, over all engines' sets and those of their release lines."""
    rows: dict[str, list[tuple[EngineAtSite, str, float]]] = defaultdict(list)
    for engine, fit in fits:
        base = InferenceConstants.from_mapping(fit.constants)
        for case in fit.cases:
            if case.scenario.plan.engine.name == engine:
                site = source_site(case.source, engine, case.scenario.cluster.device)
                at = EngineAtSite(scenario=case.scenario, workers=case.workers, base=base, site=site)
                rows[site].append((at, case.quantity, case.value))
    return {site: found for site, of in sorted(rows.items()) if (found := _shifts(site, of))}


def _shifts(site: str, rows: Sequence[tuple[EngineAtSite, str, float]]) -> dict[str, float]:
    """The shifts at one site."""

    def predict(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        found = [at.gradient(quantity, beliefs) for at, quantity, _ in rows]
        return np.array([logarithm for logarithm, _ in found]), [slopes for _, slopes in found]

    measured = np.log([1.0 / value if quantity in RATES else value for _, quantity, value in rows])
    noise = np.eye(len(rows)) * entry("generation", "constants")["case"] ** 2 * max(1.0, len(rows) / FULL_WEIGHT)
    found = learned(NOTHING, predict, measured, noise, robust=True)
    return {name: round(value, 3) for name, value in shifts(found, site).items() if abs(value) >= LEAST}


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


WRITTEN_BY = "python scripts/fit_inference.py --data DIR"
EAGER: Mapping[str, Prior] = priors_of(manifest("inference")["eager"])
"""Priors of engines that launch kernel by kernel from Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSet:
    """One set of constants: an engine's, or that of one of its release lines."""

    engine: str
    line: str = ""
    others: Sequence[str] = ()
    """Engines that run the same kernels from the same host code, whose cases count as the engine's."""
    suites: Sequence[str]
    free: Sequence[str]
    apart: bool = False
    """The line is another program than the engine's own set is of: its constants lie around the prior."""
    eager: bool = False
    """It launches kernel by kernel from Python."""
    lines: Sequence[str] = ()
    """Release lines whose cases count; empty for all."""
    group: str = ""
    """What is left out together where spreads are found, as the suites were split; empty for devices or models."""


def _engine_set(told: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> EngineSet:
    """A set of the manifest; groups of constants stand for their members."""
    return EngineSet(**{**told, "free": [name for word in told["free"] for name in groups.get(word, [word])]})


SETS = tuple(_engine_set(told, manifest("inference")["groups"]) for told in manifest("inference")["fits"])
"""Every set, an engine's own among those of its release lines."""
Fits = Mapping[str, tuple[EngineSet, InferenceFit]]
"""An engine's fits by release line: its own first, called by no name."""


def separate_lines(engine: str) -> list[str]:
    """Return the release lines of an engine that have sets of their own."""
    return [one.line for one in SETS if one.engine == engine and one.line]


def engine_entries(cases_of: Callable[[EngineSet], Sequence[MeasuredGeneration]]) -> dict[str, dict[str, Any]]:
    """Return the catalog's entries by kind and name: a set per engine, and what all say of unmeasured clusters.

    ``cases_of`` returns the measurements that a set is fitted to.
    """
    found = {engine: fits_of(engine, cases_of) for engine in dict.fromkeys(one.engine for one in SETS)}
    entries = {f"inference/{engine}": entry_of(fits) for engine, fits in found.items()}
    fits = [pair for of_engine in found.values() for pair in of_engine.values()]
    entries["generation/effects"] = {
        "written_by": WRITTEN_BY,
        "date": DATE,
        "evidence": "fitted",
        "source": "fit splits of the published suites of generation, all engines together",
        **terms_of([fit for _, fit in fits], [fit for one, fit in fits if one.line and not one.apart]),
        "sites": site_shifts([(one.engine, fit) for one, fit in fits]),
    }
    return entries


def fits_of(
    engine: str, cases_of: Callable[[EngineSet], Sequence[MeasuredGeneration]]
) -> dict[str, tuple[EngineSet, InferenceFit]]:
    """Return the engine's own fit, then those of its release lines, near it."""
    found: dict[str, tuple[EngineSet, InferenceFit]] = {}
    for one in sorted((one for one in SETS if one.engine == engine), key=lambda one: bool(one.line)):
        near = found[""][1].constants if one.line and not one.apart else {}
        priors = {**(priors_around(near) if near else PRIORS), **(EAGER if one.eager else {})}
        found[one.line] = one, fit_inference(cases_of(one), one.free, priors)
    return found


def entry_of(found: Fits) -> dict[str, Any]:
    """Return the engine's catalog entry."""
    seen = {
        name: sorted({x for _, fit in found.values() for x in fit.constants[name]})
        for name in ("fitted_devices", "fitted_kinds", "fitted_formats", "fitted_experts")
    }
    seen["fitted_context"] = max(fit.constants["fitted_context"] for _, fit in found.values())
    own, *lines = found
    network = "collective_slowdown" in found[own][1].supported.constants
    links = found[own][1].constants["fitted_links"] if network else []
    entry = {"written_by": WRITTEN_BY, "date": DATE, **_figures(*found[own], seen | {"fitted_links": links})}
    versions = {line: _figures(*found[line], seen | _links(found[line][1], links)) for line in lines}
    return entry | ({"versions": versions} if versions else {})


def _links(fit: InferenceFit, own: Sequence[str]) -> dict[str, Any]:
    """Links that a line's factor of collectives was fitted on: its own, or where it has the engine's, that one's."""
    return {} if "collective_slowdown" in fit.supported.constants else {"fitted_links": list(own)}


def _releases(cases: Sequence[MeasuredGeneration]) -> list[str]:
    """Release lines that the cases state."""
    stated = {case.scenario.plan.engine.version for case in cases} - {""}
    return sorted({minor_release(version) for version in stated})


def _figures(of: EngineSet, found: InferenceFit, seen: Mapping[str, Any]) -> dict[str, Any]:
    supported = found.supported
    return {
        "evidence": "fitted",
        "releases": _releases(found.cases),
        "source": f"fit splits of {', '.join(of.suites)}",
        "sources": sorted({case.source for case in found.cases}),
        "free": list(supported.constants),
        "held": dict(supported.held),
        "rows": {"fitted": len(found.cases), "noticing": dict(supported.rows)},
        "residuals": {name: dict(r) for name, r in found.residuals.items()},
        "constants": {**found.constants, **seen},
    }
