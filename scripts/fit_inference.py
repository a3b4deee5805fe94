"""Fit the engines' constants of the catalog to the fit splits of the published suites.

    python scripts/fit_inference.py --data DIR --out DIR [--engine NAME ...]

writes OUT/<engine>.yaml for the sets that the manifest names (sightline/calibration/manifest/inference.yaml); a rerun on
the same data reproduces the shipped files. The test splits are never looked at.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sightline.calibration.fits import FitResult
from sightline.calibration.inference import MeasuredGeneration, fit_inference
from sightline.calibration.manifest import manifest
from sightline.catalog.index import line_of, release_line
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
    suites: Sequence[str]
    free: Sequence[str]
    given: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    """Release lines whose cases count; empty for all."""
    group: Callable[[GenerationScenario], str] | None = None
    """What is left out together where spreads are found, as the suites were split; None for devices or models."""
    inherits: bool = False
    """What is not free is as the engine's own set has it; few measurements cannot show more."""


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
        )


def _is_of(case: Case, fit: Fit) -> bool:
    """Whether the case counts for the fit; an engine's own set leaves out the lines that are fitted apart."""
    plan = case.scenario["plan"]
    version = str(plan.get("framework_version", ""))
    apart = [f.line for f in FITS if f.engine == fit.engine and f.line]
    chosen = bool(release_line(version, fit.lines)) if fit.lines else not release_line(version, apart)
    return plan["framework"] == fit.engine and chosen


def entry_of(engine: str, known: Mapping[str, Suite]) -> dict[str, Any]:
    """The engine's catalog entry: its own set, and those of the release lines that were fitted apart."""
    entry: dict[str, Any] = {}
    lines: dict[str, Any] = {}
    for fit in sorted((f for f in FITS if f.engine == engine), key=lambda f: bool(f.line)):
        own = entry["constants"] if fit.inherits else {}
        cases = list(cases_of(fit, known))
        figures = _figures(fit, fit_inference(cases, fit.free, {**own, **fit.given}), _releases(cases))
        if fit.line:
            lines[fit.line] = figures
        else:
            entry = figures
    if not entry:
        entry = {"evidence": "extrapolated", "like": "reference"}
    written_by = "python scripts/fit_inference.py --data DIR --out DIR"
    return {"written_by": written_by, "date": "2026-11", **entry} | ({"versions": lines} if lines else {})


def _releases(cases: Sequence[MeasuredGeneration]) -> list[str]:
    """Release lines that the cases state."""
    stated = {case.workers.scenario.plan.engine.version for case in cases} - {""}
    return sorted({line_of(version) for version in stated})


def _figures(fit: Fit, result: FitResult, releases: Sequence[str]) -> dict[str, Any]:
    return {
        "evidence": "fitted",
        "releases": list(releases),
        "source": f"fit splits of {', '.join(fit.suites)}",
        "free": list(fit.free),
        "rows": dict(result.rows),
        "residuals": {name: dict(r) for name, r in result.residuals.items()},
        "constants": dict(result.constants),
    }


def main() -> None:
    """Fit every engine asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--out", type=Path, required=True, help="folder that receives a file per engine")
    parser.add_argument("--engine", action="append", help="only this engine; repeatable")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    known = {suite.name: suite for suite in suites(options.data)}
    for engine in dict.fromkeys(options.engine or [fit.engine for fit in FITS]):
        text = yaml.safe_dump(entry_of(engine, known), sort_keys=False, default_flow_style=None, width=120)
        (options.out / f"{engine}.yaml").write_text(text, encoding="utf-8")
        print(options.out / f"{engine}.yaml")


if __name__ == "__main__":
    main()
