"""Fit the engines' constants of the catalog to the fit parts of the published suites, and write the catalog's files.

    python scripts/fit_inference.py --data DIR

writes the sets that the manifest names (src/sightline/calibration/manifest/inference.yaml) under
src/sightline/catalog/data/inference, and generation/effects.yaml there: how far off cases are that no fit saw, and what
the measured sites do to the constants. A rerun on the same data reproduces the shipped files. The test parts are never
looked at.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from engine_cases import cases_of
from engine_fit import SETS, WRITTEN_BY, EngineSet, MeasuredGeneration, entry_of, fits_of, site_shifts
from engine_terms import first_tokens, terms_of

from sightline.calibration.parts.part import DATE
from sightline.loading.serving import serving_from_mapping
from sightline.prediction.generation.uncertainty import load_kind
from sightline.validation.evaluation import suites
from sightline.validation.serving import MeasuredRun
from sightline.validation.serving.aiconfigurator import aiconfigurator_pools, aiconfigurator_runs

CATALOG = Path(__file__).parents[1] / "src" / "sightline" / "catalog" / "data"


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that comes twice in full each time."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's own name
        """Every value."""
        return True


def engine_entries(
    cases_of: Callable[[EngineSet], Sequence[MeasuredGeneration]], loads: Iterable[MeasuredRun]
) -> dict[str, dict[str, Any]]:
    """Return the catalog's entries by kind and name: a set per engine, and what all say of unmeasured clusters.

    ``cases_of`` returns the measurements that a set is fitted to; ``loads`` show first tokens, which no set is fitted to.
    """
    found = {engine: fits_of(engine, cases_of) for engine in dict.fromkeys(one.engine for one in SETS)}
    entries = {f"inference/{engine}": entry_of(fits) for engine, fits in found.items()}
    fits = [pair for of_engine in found.values() for pair in of_engine.values()]
    by_kind: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in loads:
        by_kind[load_kind(serving_from_mapping(run.scenario))].append(run)
    of_loads = {kind: first_tokens(runs, found) for kind, runs in sorted(by_kind.items())}
    entries["generation/effects"] = {
        "written_by": WRITTEN_BY,
        "date": DATE,
        "evidence": "fitted",
        "source": "fit splits of the published suites of generation, all engines together",
        **terms_of([*found.values()], of_loads),
        "sites": site_shifts([(one.engine, fit) for one, fit in fits]),
    }
    return entries


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    known = suites(options.data)
    logs = (aiconfigurator_pools(options.data), aiconfigurator_runs(options.data))
    loads = [run for log in logs for run in log.read() if run.split == "fit"]
    for name, entry in engine_entries(lambda of: cases_of(of, known), loads).items():
        text = yaml.dump(entry, Dumper=_PlainDumper, sort_keys=False, default_flow_style=None, width=120)
        (CATALOG / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
