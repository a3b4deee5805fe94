"""The catalog's sets of engines' constants: which there are, what each is fitted to, and the entries they become."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.calibration.engine_sites import site_shifts
from sightline.calibration.fits import Prior, priors_of
from sightline.calibration.inference import PRIORS, InferenceFit, MeasuredGeneration, fit_inference, priors_around
from sightline.calibration.left_out import terms_of
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.part import DATE
from sightline.catalog.index import minor_release

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
