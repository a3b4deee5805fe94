"""Estimate what training frameworks reach from the fit parts of all published series, and write the catalog's file.

    python scripts/fit_training.py --data DIR

writes src/sightline/catalog/data/training/effects.json. `sightline validate --left-out` shows each source without itself.

A rerun on the same data reproduces the shipped file. The test parts are never looked at.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.calibration.parts.part import DATE
from sightline.calibration.training_constants import Estimate, of_site
from sightline.prediction.beliefs import Beliefs
from sightline.scenario import Scenario
from sightline.validation.evaluation import suites
from sightline.validation.left_out import fitted, source_steps

EFFECTS = Path(__file__).parents[1] / "src" / "sightline" / "catalog" / "data" / "training" / "effects.json"


def main() -> None:
    """Estimate and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    EFFECTS.write_text(shipped_form(fitted(source_steps(suites(options.data)))), encoding="utf-8")


def shipped_form(found: Estimate) -> str:
    """Return what the catalog holds of an estimate, as JSON: shared effects with their correlations, and sites' own."""
    beliefs, names = found.beliefs, sorted(name for name in found.beliefs.names if not of_site(name))
    places = [beliefs.names.index(name) for name in names]
    covariance = beliefs.covariance[np.ix_(places, places)]
    spreads = np.sqrt(np.diag(covariance))
    below = (covariance / np.outer(spreads, spreads))[np.tril_indices(len(names), -1)]
    sites = sorted(name for name in beliefs.names if of_site(name) and abs(beliefs.mean_of(name)) >= 1e-3)
    stated = {
        "source": "estimated over all published series of steps by `python scripts/fit_training.py --data DIR`",
        "date": DATE,
        "evidence": "fitted",
        "effects": _means_and_spreads(beliefs, names),
        "correlation_per_mille": [round(1000 * float(value)) for value in below],
        "sites": _means_and_spreads(beliefs, sites),
        "coverage": coverage([step.scenario for step in found.steps], [step.site for step in found.steps]),
    }
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in stated.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _means_and_spreads(beliefs: Beliefs, names: Iterable[str]) -> dict[str, list[float]]:
    return {name: [round(beliefs.mean_of(name), 4), round(beliefs.spread_of(name), 4)] for name in names}


def coverage(scenarios: Sequence[Scenario], sites: Sequence[str]) -> dict[str, Any]:
    """Return what each lineage of frameworks was measured on."""
    found: dict[str, Any] = {}
    by_lineage: dict[str, list[tuple[Scenario, str]]] = defaultdict(list)
    for scenario, site in zip(scenarios, sites, strict=True):
        by_lineage[scenario.plan.framework.lineage].append((scenario, site))
    for lineage, both in sorted(by_lineage.items()):
        on: dict[str, list[str]] = defaultdict(list)
        for scenario, site in both:
            on[scenario.cluster.device.calibration].append(site)
        found[lineage] = {
            "devices": max(scenario.cluster.devices for scenario, _ in both),
            "tokens": max(float(np.max(scenario.workload.sequence_length)) for scenario, _ in both),
            "formats": sorted({scenario.plan.dtype for scenario, _ in both}),
            "experts": any(scenario.model.experts is not None for scenario, _ in both),
            "mixers": sorted({kind.mixer for scenario, _ in both for kind in scenario.model.kinds}),
            "offload": any(bool(scenario.plan.offload) for scenario, _ in both),
            "on": {family: {"rows": len(of), "sites": len(set(of))} for family, of in sorted(on.items())},
        }
    return found


if __name__ == "__main__":
    main()
