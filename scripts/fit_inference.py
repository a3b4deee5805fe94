"""Fit the engines' constants of the catalog to the fit splits of the published suites.

    python scripts/fit_inference.py --data DIR --out DIR [--engine NAME ...] [--left-out]

writes OUT/<engine>.yaml for the sets that the manifest names (sightline/calibration/manifest/inference.yaml); a rerun on
the same data reproduces the shipped files. With --left-out it takes the constants that are in OUT and writes
OUT/generation.yaml: what comes on top of their spreads for cases unlike those fitted, and the coverage that results. The
test splits are never looked at.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sightline.calibration.inference import InferenceFit, MeasuredGeneration, fit_inference
from sightline.calibration.left_out import terms_of
from sightline.calibration.manifest import manifest
from sightline.calibration.supported_fit import SupportedFit
from sightline.catalog.index import minor_release, release_line
from sightline.loading import generation_from_mapping
from sightline.prediction.generation.policies import price_workers
from sightline.scenario import GenerationScenario
from sightline.validation import suites
from sightline.validation.suite import Case, Suite


def _family(scenario: GenerationScenario) -> str:
    """Cases of a model, a device and degrees."""
    plan = scenario.plan
    degrees = f"{plan.tensor_parallel} x {plan.pipeline_parallel}"
    return f"{scenario.model.name} on {degrees} {scenario.cluster.device.name}"


def _sizes(scenario: GenerationScenario) -> str:
    """Cases of the same sizes, where one family has them all."""
    work = scenario.workload
    return f"{work.batch} x {work.prompt_tokens} + {work.output_tokens}"


def _served(scenario: GenerationScenario) -> str:
    """Cases of a model on a number of devices with one length of prompts, as the served runs were split."""
    cluster, work = scenario.cluster, scenario.workload
    return f"{scenario.model.name} on {cluster.devices} {cluster.device.name}, {work.prompt_tokens}"


def _pair(scenario: GenerationScenario) -> str:
    """Cases of a model on a device."""
    return f"{scenario.model.name} on {scenario.cluster.device.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One set of constants: an engine, or one of its release lines."""

    engine: str
    line: str = ""
    others: Sequence[str] = ()
    """Engines that run the same kernels from the same host code, whose cases count as the engine's."""
    suites: Sequence[str]
    free: Sequence[str]
    given: Mapping[str, Any] = field(default_factory=dict)
    apart: bool = False
    """The line is another program than the engine's own set is of: its constants lie around the prior."""
    lines: Sequence[str] = ()
    """Release lines whose cases count; empty for all."""
    group: Callable[[GenerationScenario], str] | None = None
    """What is left out together where spreads are found, as the suites were split; None for devices or models."""


GROUPS = {"family": _family, "sizes": _sizes, "served": _served}
"""What is left out together, by the word that a manifest has for it."""


def _fit(told: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> Fit:
    """A set of the manifest; groups of constants stand for their members."""
    free = [name for word in told["free"] for name in groups.get(word, [word])]
    return Fit(**{**told, "free": free, "group": GROUPS.get(told.get("group", ""))})


FITS = tuple(_fit(told, manifest("inference")["groups"]) for told in manifest("inference")["fits"])


def cases_of(fit: Fit, known: Mapping[str, Suite]) -> Iterator[MeasuredGeneration]:
    """The fit splits' cases of the fit's engine and release lines; suites count alike whatever their size."""
    chosen = [(suite, case) for name in fit.suites if (suite := known.get(name)) for case in suite.cases]
    chosen = [(suite, case) for suite, case in chosen if case.split == "fit" and _is_of(case, fit)]
    for suite, case in chosen:
        alike = sum(other is suite for other, _ in chosen)
        scenario = generation_from_mapping(case.scenario)
        yield MeasuredGeneration(
            workers=price_workers(scenario),
            quantity=suite.quantity,
            value=case.measured,
            weight=1.0 / alike,
            group=fit.group(scenario) if fit.group else "",
            pair=_pair(scenario) if fit.group is _served else "",
            sure=case.alternative is None,
            source=source_of(suite),
        )


def _is_of(case: Case, fit: Fit) -> bool:
    """Whether the case counts for the fit; an engine's own set leaves out the lines that are fitted apart."""
    plan = case.scenario["plan"]
    version = str(plan.get("framework_version", ""))
    apart = [f.line for f in FITS if f.engine == fit.engine and f.line]
    chosen = bool(release_line(version, fit.lines)) if fit.lines else not release_line(version, apart)
    return plan["framework"] in (fit.engine, *fit.others) and chosen


def source_of(suite: Suite) -> str:
    """Who measured a suite: the repository that its source begins with, or the words before the first comma."""
    named = re.match(r"[\w.-]+/[\w.-]+", suite.source)
    return named[0] if named else re.split(r"[,;(]", suite.source)[0].strip()


def fits_of(
    engine: str, known: Mapping[str, Suite], stated: Mapping[str, Any] | None = None
) -> dict[str, tuple[Fit, InferenceFit]]:
    """The engine's own set, called by no name, then those of the release lines that were fitted apart, near it.

    A ``stated`` entry says what they are, instead of another search.
    """
    found: dict[str, tuple[Fit, InferenceFit]] = {}
    for fit in sorted((f for f in FITS if f.engine == engine), key=lambda f: bool(f.line)):
        own = found[""][1].constants if fit.line and not fit.apart else None
        chosen = stated and (stated["versions"][fit.line] if fit.line else stated)
        earlier = SupportedFit.from_mapping(chosen) if chosen else None
        cases = list(cases_of(fit, known))
        found[fit.line] = fit, fit_inference(cases, fit.free, fit.given, own, known=earlier)
    return found


def entry_of(found: Mapping[str, tuple[Fit, InferenceFit]]) -> dict[str, Any]:
    """The engine's catalog entry."""
    seen = {
        "fitted_devices": sorted({x for _, fit in found.values() for x in fit.constants["fitted_devices"]}),
        "fitted_kinds": sorted({x for _, fit in found.values() for x in fit.constants["fitted_kinds"]}),
        "fitted_formats": sorted({x for _, fit in found.values() for x in fit.constants["fitted_formats"]}),
        "fitted_context": max(fit.constants["fitted_context"] for _, fit in found.values()),
    }
    own, *lines = found
    written_by = "python scripts/fit_inference.py --data DIR --out DIR"
    entry = {"written_by": written_by, "date": "2026-11", **_figures(*found[own], seen)}
    network = "collective_slowdown" in found[own][1].supported.constants
    links = found[own][1].constants["fitted_links"] if network else []
    versions = {line: _figures(*found[line], seen | _links(found[line][1], links)) for line in lines}
    entry["constants"]["fitted_links"] = links
    return entry | ({"versions": versions} if versions else {})


def _links(fit: InferenceFit, own: Sequence[str]) -> dict[str, Any]:
    """Links that a line's factor of collectives was fitted on: its own, or where it has the engine's, that one's."""
    return {} if "collective_slowdown" in fit.supported.constants else {"fitted_links": list(own)}


def _releases(cases: Sequence[MeasuredGeneration]) -> list[str]:
    """Release lines that the cases state."""
    stated = {case.scenario.plan.engine.version for case in cases} - {""}
    return sorted({minor_release(version) for version in stated})


def _figures(fit: Fit, found: InferenceFit, seen: Mapping[str, Any]) -> dict[str, Any]:
    supported = found.supported
    return {
        "evidence": "fitted",
        "releases": _releases(found.cases),
        "source": f"fit splits of {', '.join(fit.suites)}",
        "sources": sorted({case.source for case in found.cases}),
        "free": list(supported.constants),
        "held": dict(supported.held),
        "rows": {"fitted": len(found.cases), "noticing": dict(supported.rows)},
        "residuals": {name: dict(r) for name, r in found.residuals.items()},
        "constants": {**found.constants, **seen},
    }


def _write(path: Path, entry: Mapping[str, Any]) -> None:
    text = yaml.dump(dict(entry), Dumper=_PlainDumper, sort_keys=False, default_flow_style=None, width=120)
    path.write_text(text, encoding="utf-8")
    print(path)


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that comes twice in full each time."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's own name
        """Every value."""
        return True


def main() -> None:
    """Fit every engine asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--out", type=Path, required=True, help="folder that receives a file per engine")
    parser.add_argument("--engine", action="append", help="only this engine; repeatable")
    parser.add_argument("--left-out", action="store_true", help="how far off cases are that no fit saw")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    known = {suite.name: suite for suite in suites(options.data)}
    engines = dict.fromkeys(options.engine or [fit.engine for fit in FITS])
    if options.left_out:
        _write(options.out / "generation.yaml", terms_of(*_stated_fits(engines, known, options.out)))
        return
    for engine in engines:
        _write(options.out / f"{engine}.yaml", entry_of(fits_of(engine, known)))


def _stated_fits(
    engines: Iterable[str], known: Mapping[str, Suite], folder: Path
) -> tuple[list[InferenceFit], list[InferenceFit | None]]:
    """The fits whose constants the files of a folder state, and that of the engine where one is a release line's."""
    fits: list[InferenceFit] = []
    owners: list[InferenceFit | None] = []
    for engine in engines:
        found = fits_of(engine, known, yaml.safe_load((folder / f"{engine}.yaml").read_text(encoding="utf-8")))
        fits += [fit for _, fit in found.values()]
        owners += [found[""][1] if line and not fit.apart else None for line, (fit, _) in found.items()]
    return fits, owners


if __name__ == "__main__":
    main()
